"""K2. Self-attention takes time quadratic in the length of the text, an RNN linear time.

Source: Vaswani et al. 2017, "Attention is all you need", table 1: O(n²·d) and O(n·d²).

Measured: a forward pass of `MultiHeadAttention(64, 4)` and of a GRU of width 64 over one text of
512, 1024, 2048 and 4096 tokens; the slope of log time over log length, fitted in each round. (The
fused kernel takes quadratic time, but not quadratic memory; watched weights take both.)

Holds if: the median slope is between 1.6 and 2.3 for attention, and between 0.8 and 1.2 for the
GRU.
"""

import math
from functools import partial
from statistics import linear_regression, median

import torch
from claim import Claim, Outcome, Rounds, between, judged, lines, seconds

from saccade.attention import MultiHeadAttention
from saccade.layers.recurrent import Recurrent

DIM, SHORTEST = 64, 512


def measure(size: Rounds) -> Outcome:
    """Measure the slopes of attention and of a GRU."""
    torch.manual_seed(0)
    lengths = [SHORTEST]
    while lengths[-1] < size.longest:
        lengths.append(2 * lengths[-1])
    layers = {"attention": MultiHeadAttention(DIM, 4), "GRU": Recurrent("gru", DIM, DIM)}
    taken: dict[str, dict[float, list[float]]] = {name: {} for name in layers}
    with torch.no_grad():
        for name, layer in layers.items():
            for length in lengths:
                x = torch.randn(1, length, DIM)
                taken[name][length] = seconds(partial(layer, x), size.rounds)
    slopes = {name: fitted(times, size.rounds) for name, times in taken.items()}
    quadratic, linear = median(slopes["attention"]), median(slopes["GRU"])
    return Outcome(
        verdict=judged(1.6 <= quadratic <= 2.3 and 0.8 <= linear <= 1.2),
        figures=f"from {lengths[0]} to {lengths[-1]} tokens, the slope is {quadratic:.2f} for "
        f"attention (rounds: {between(slopes['attention'])}) and {linear:.2f} for the GRU "
        f"({between(slopes['GRU'])})",
        numbers={"seconds": taken, "slopes": slopes},
        chart=lines(taken, x="tokens", y="seconds", log="xy"),
    )


def fitted(times: dict[float, list[float]], count: int) -> list[float]:
    """Return the slope of log time over log length in each round."""
    at = [math.log(length) for length in times]
    return [
        linear_regression(at, [math.log(rounds[i]) for rounds in times.values()]).slope
        for i in range(count)
    ]


CLAIM = Claim(
    file=__file__,
    docstring=__doc__,
    measure=measure,
    full=Rounds(rounds=9, longest=4096),
    quick=Rounds(rounds=2, longest=1024),
)

if __name__ == "__main__":
    CLAIM.main()
