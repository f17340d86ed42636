"""K4. The variance of a dot product grows with its width d; divided by √d it is 1 at every width.

Source: Vaswani et al. 2017, "Attention is all you need", section 3.2.1. Unscaled, the softmax looks
at less and less, and its gradients vanish.

Measured: scores of standard normal queries and keys by `Dot` and `ScaledDot` at widths from 4 to
256; their variance, and the entropy of the weights with which each query reads 64 keys.

Holds if: the variance by `Dot` is within 5 % of d and by `ScaledDot` within 5 % of 1 at every
width; and from the least width to the largest the entropy falls by at least half by `Dot`, and by
less than 2 % by `ScaledDot`.
"""

from dataclasses import dataclass

import torch
from claim import Claim, Outcome, judged, lines

import saccade
from saccade.attention import Attend, Dot, ScaledDot, Score
from saccade.lens.faithfulness.heads import entropy

WIDTHS = (4, 16, 64, 256)
KEYS = 64


@dataclass(frozen=True, kw_only=True)
class Size:
    """How many sets of keys, each read by as many queries."""

    sets: int


def measure(size: Size) -> Outcome:
    """The variances and entropies of both scores at every width."""
    torch.manual_seed(0)
    found: dict[str, dict[int, tuple[float, float]]] = {"Dot": {}, "ScaledDot": {}}
    for width in WIDTHS:
        queries, keys = torch.randn(2, size.sets, KEYS, width)
        for score in (Dot(), ScaledDot()):
            found[type(score).__name__][width] = spread(score, queries, keys)
    plain, scaled = found["Dot"], found["ScaledDot"]
    holds = (
        all(abs(plain[d][0] / d - 1) < 0.05 and abs(scaled[d][0] - 1) < 0.05 for d in WIDTHS)
        and fall(plain) >= 0.5
        and abs(fall(scaled)) < 0.02
    )
    told = {name: ", ".join(f"{each[d][0]:.2f}" for d in WIDTHS) for name, each in found.items()}
    return Outcome(
        verdict=judged(holds),
        figures=f"at d = {', '.join(map(str, WIDTHS))} the variance is {told['Dot']}, scaled "
        f"{told['ScaledDot']}; from d = 4 to 256 the entropy of the weights falls from "
        f"{plain[4][1]:.2f} to {plain[256][1]:.2f} bits, scaled from {scaled[4][1]:.2f} to "
        f"{scaled[256][1]:.2f}",
        numbers={"variance_and_entropy": found},
        chart=lines(
            {name: {d: [each[d][1]] for d in WIDTHS} for name, each in found.items()},
            x="width d",
            y=f"bits of weights over {KEYS} keys",
            log="x",
        ),
    )


def spread(score: Score, queries: torch.Tensor, keys: torch.Tensor) -> tuple[float, float]:
    """The variance of the scores, and the mean entropy of the weights, in bits."""
    attend = Attend(score)
    with saccade.watch(attend) as seen:
        attend(queries, keys, keys)
    weights = seen[""].weights[:, 0].numpy()
    return float(score(queries, keys).var()), float(entropy(weights).mean())


def fall(by_width: dict[int, tuple[float, float]]) -> float:
    """The share of its entropy that is lost from the least to the largest width."""
    return 1 - by_width[WIDTHS[-1]][1] / by_width[WIDTHS[0]][1]


CLAIM = Claim(
    file=__file__,
    docstring=__doc__,
    measure=measure,
    full=Size(sets=200),
    quick=Size(sets=50),
)

if __name__ == "__main__":
    CLAIM.main()
