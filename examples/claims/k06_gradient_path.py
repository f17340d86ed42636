"""K6. Attention gives the first word a short path: its gradient does not vanish with the length.

Source: a common claim; vanishing gradients are described in Bengio et al. 1994, "Learning long-term
dependencies with gradient descent is difficult".

Measured: untrained translators (unidirectional, width 64) with vanilla RNN, GRU and LSTM cells,
with additive attention and without; the norm of the gradient of the first output token's loss with
respect to the vector of the first input word, for texts of 5 to 160 words, five seeds, in double
precision. This is the start of training: a trained LSTM may have learned to remember.

Holds if: for each kind of cell and in every seed, the fraction of the gradient that remains from 5
to 160 words is at least 100 times larger with attention than without.
"""

from dataclasses import dataclass
from statistics import fmean
from typing import Literal

import torch
from claim import Claim, Outcome, judged, lines
from torch.nn import functional as F

from saccade.decoders.recurrent import RecurrentDecoderConfig
from saccade.encoders.recurrent import RecurrentEncoderConfig
from saccade.encoders.stems import VectorStem
from saccade.layers.recurrent import Cell
from saccade.models.seq2seq import build_decoder

DIM, VOCABULARY, BATCH, LENGTHS = 64, 50, 8, (5, 10, 20, 40, 80, 160)
CELLS: tuple[Cell, ...] = ("rnn", "gru", "lstm")
Attention = Literal["before", "none"]


@dataclass(frozen=True, kw_only=True)
class Size:
    """The number of untrained models of each kind."""

    seeds: int


def measure(size: Size) -> Outcome:
    """Measure the gradient by length for every kind of cell."""
    norms: dict[str, dict[float, list[float]]] = {}
    ratios: dict[str, list[float]] = {}
    for cell in CELLS:
        with_, without = (
            {n: [gradient(cell, attention, n, seed) for seed in range(size.seeds)] for n in LENGTHS}
            for attention in ("before", "none")
        )
        norms |= {f"{cell}, attention": with_, f"{cell}, none": without}
        pairs = zip(remaining(with_), remaining(without), strict=True)
        ratios[cell] = [much / little for much, little in pairs]
    fractions = ", ".join(
        f"{cell} {fmean(remaining(norms[f'{cell}, attention'])):.1g} and "
        f"{fmean(remaining(norms[f'{cell}, none'])):.1g}"
        for cell in CELLS
    )
    return Outcome(
        verdict=judged(all(min(seeds) >= 100 for seeds in ratios.values())),
        figures=f"the fraction of the gradient at {LENGTHS[0]} words that remains at "
        f"{LENGTHS[-1]}, with attention and without: {fractions}",
        numbers={"gradient": norms, "times_more_is_left": ratios},
        chart=lines(norms, x="input length (words)", y="gradient of the first word", log="xy"),
    )


def gradient(cell: Cell, attention: Attention, length: int, seed: int) -> float:
    """Return the norm of the gradient of the first loss at the first word, a mean over a batch."""
    torch.manual_seed(seed)
    reads = RecurrentEncoderConfig(cell=cell, dim=DIM, bidirectional=False, dropout=0.0)
    writes = RecurrentDecoderConfig(cell=cell, dim=DIM, attention=attention, dropout=0.0)
    encoder = reads.build(VectorStem(DIM), DIM).double()
    decoder = build_decoder(writes, VOCABULARY, DIM, memory_dim=DIM, summary_dim=DIM).double()
    words = torch.randn(BATCH, length, DIM, dtype=torch.float64, requires_grad=True)
    start, target = torch.randint(VOCABULARY, (2, BATCH, 1))
    logits = decoder(start, encoder(words))
    F.cross_entropy(logits[:, 0], target[:, 0], reduction="sum").backward()
    assert words.grad is not None
    return float(words.grad[:, 0].norm(dim=-1).mean())


def remaining(by_length: dict[float, list[float]]) -> list[float]:
    """Return the fraction of the gradient that remains for the longest text, for each seed."""
    longest, shortest = by_length[LENGTHS[-1]], by_length[LENGTHS[0]]
    return [much / little for much, little in zip(longest, shortest, strict=True)]


CLAIM = Claim(
    file=__file__, docstring=__doc__, measure=measure, full=Size(seeds=5), quick=Size(seeds=1)
)

if __name__ == "__main__":
    CLAIM.main()
