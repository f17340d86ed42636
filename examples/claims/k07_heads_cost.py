"""K7. Several heads that split the width cost about as much as one head of full width.

Source: Vaswani et al. 2017, "Attention is all you need", section 3.2.2.

Measured: the floating-point operations of `MultiHeadAttention(512, h)` over a text of 128 tokens
for h = 1 to 8, as counted by torch, with heads of width d/h ("split") and, for comparison, of width
d ("full"). The time of the split heads is also reported; it depends on the machine.

Holds if: with each number of split heads, the operations are within 5 % of those of one head.
"""

from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Literal

import torch
from claim import Claim, Outcome, judged, lines, seconds
from torch.utils.flop_counter import FlopCounterMode

import saccade
from saccade.attention import MultiHeadAttention

DIM, HEADS = 512, (1, 2, 4, 8)
Head = Literal["split", "full"]


@dataclass(frozen=True, kw_only=True)
class Size:
    """The number of rounds of each measurement of time."""

    rounds: int


def measure(size: Size) -> Outcome:
    """Measure operations and times by the number of heads."""
    torch.manual_seed(0)
    x = torch.randn(1, 128, DIM)
    counts: dict[Head, dict[int, int]] = {
        head: {h: operations(MultiHeadAttention(DIM, h, head=head), x) for h in HEADS}
        for head in ("split", "full")
    }
    with torch.no_grad():
        taken = {
            h: median(seconds(partial(MultiHeadAttention(DIM, h), x), size.rounds)) for h in HEADS
        }
    relative = {
        head: {h: count / counts["split"][1] for h, count in by.items()}
        for head, by in counts.items()
    }
    times = {h: time / taken[1] for h, time in taken.items()}
    difference = max(abs(ratio - 1) for ratio in relative["split"].values())
    return Outcome(
        verdict=judged(difference < 0.05),
        figures=f"with 2 to 8 split heads, the operations differ by at most {difference:.1%} from "
        f"those of one head ({counts['split'][1] / 1e9:.2f} billion); with 8 heads of full width "
        f"there are {relative['full'][8]:.1f} times as many; 8 split heads took {times[8]:.2f} "
        "times the time of one head",
        numbers={"operations": counts, "seconds": taken},
        chart=lines(
            {
                **{
                    f"{head} heads": {h: [v] for h, v in by.items()}
                    for head, by in relative.items()
                },
                "time of split heads": {h: [v] for h, v in times.items()},
            },
            x="heads",
            y="relative to one head",
            log="xy",
        ),
    )


def operations(attention: MultiHeadAttention, x: torch.Tensor) -> int:
    """Count those of a forward pass; watched, because torch does not count the fused kernel."""
    with torch.no_grad(), saccade.watch(attention), FlopCounterMode(display=False) as counter:
        attention(x)
    return counter.get_total_flops()


CLAIM = Claim(
    file=__file__, docstring=__doc__, measure=measure, full=Size(rounds=15), quick=Size(rounds=1)
)

if __name__ == "__main__":
    CLAIM.main()
