"""K4. The variance of a dot product grows with its width d; divided by √d, it is 1 at every width.

Source: Vaswani et al. 2017, "Attention is all you need", section 3.2.1. Without scaling, the
softmax saturates and its gradients vanish.

Measured: scores of standard normal queries and keys by `Dot` and `ScaledDot` at widths from 4 to
256: their variance, and the entropy of the weights with which each query attends to 64 keys.

Holds if: the variance of `Dot` is within 5 % of d and that of `ScaledDot` within 5 % of 1 at every
width; and from the smallest to the largest width, the entropy falls by at least half with `Dot`,
and by less than 2 % with `ScaledDot`.
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
    """The number of sets of 64 keys, each with as many queries."""

    sets: int


def measure(size: Size) -> Outcome:
    """Measure the variance and the entropy of both scores at every width."""
    torch.manual_seed(0)
    spreads: dict[str, dict[int, tuple[float, float]]] = {"Dot": {}, "ScaledDot": {}}
    for width in WIDTHS:
        queries, keys = torch.randn(2, size.sets, KEYS, width)
        for score in (Dot(), ScaledDot()):
            spreads[type(score).__name__][width] = spread(score, queries, keys)
    plain, scaled = spreads["Dot"], spreads["ScaledDot"]
    holds = (
        all(abs(plain[d][0] / d - 1) < 0.05 and abs(scaled[d][0] - 1) < 0.05 for d in WIDTHS)
        and fall(plain) >= 0.5
        and abs(fall(scaled)) < 0.02
    )
    variances = {
        name: ", ".join(f"{by_width[d][0]:.2f}" for d in WIDTHS)
        for name, by_width in spreads.items()
    }
    return Outcome(
        verdict=judged(holds),
        figures=f"at d = {', '.join(map(str, WIDTHS))} the variance is {variances['Dot']} without "
        f"scaling and {variances['ScaledDot']} with it; from d = 4 to 256, the entropy of the "
        f"weights falls from {plain[4][1]:.2f} to {plain[256][1]:.2f} bits without scaling, and "
        f"from {scaled[4][1]:.2f} to {scaled[256][1]:.2f} bits with it",
        numbers={"variance_and_entropy": spreads},
        chart=lines(
            {name: {d: [by[d][1]] for d in WIDTHS} for name, by in spreads.items()},
            x="width d",
            y=f"entropy over {KEYS} keys (bits)",
            log="x",
        ),
    )


def spread(score: Score, queries: torch.Tensor, keys: torch.Tensor) -> tuple[float, float]:
    """Return the variance of the scores and the mean entropy of the weights in bits."""
    attend = Attend(score)
    with saccade.watch(attend) as seen:
        attend(queries, keys, keys)
    weights = seen[""].weights[:, 0].numpy()
    return float(score(queries, keys).var()), float(entropy(weights).mean())


def fall(by_width: dict[int, tuple[float, float]]) -> float:
    """Return the fraction of the entropy that is lost from the smallest to the largest width."""
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
