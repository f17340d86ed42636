"""K14. Storing a query, a key and a value for each of 500 000 words is impractical.

Source: a common claim; instead, three matrices (Vaswani et al. 2017, "Attention is all you need",
section 3.2.2) turn the one vector of each word into all three.

Measured: by arithmetic, at width 512: 3 · 512 · 500 000 parameters, against the embedding of those
words with the three matrices of `MultiHeadAttention`, and against the complete Transformer of that
paper without its embeddings (6+6 layers). Training keeps each parameter four times (its value, its
gradient, two moments of Adam). That such a table could not depend on the context is a separate
matter.

Holds if: the three vectors of all words need more than 10 times the parameters of that Transformer.
The factor is a choice: with a vocabulary of 32 000 subwords, as is usual now, it would not hold.
"""

from dataclasses import dataclass

import torch
from claim import Claim, Outcome, bars, judged
from torch import nn

from saccade.attention import MultiHeadAttention
from saccade.models import Transformer

DIM, SUBWORDS = 512, 32_000
BYTES = 4


@dataclass(frozen=True, kw_only=True)
class Size:
    """The size of the vocabulary."""

    words: int


def measure(size: Size) -> Outcome:
    """Count the parameters of each way of storing; none of them is allocated."""
    with torch.device("meta"):
        transformer = count(Transformer())
        matrices = count(MultiHeadAttention(DIM, 8, bias=False).projection)
        stored = {words: 3 * count(nn.Embedding(words, DIM)) for words in (size.words, SUBWORDS)}
        shared = count(nn.Embedding(size.words, DIM)) + matrices
    three, few = stored[size.words], stored[SUBWORDS]
    gigabytes = three * BYTES / 1e9
    return Outcome(
        verdict=judged(three > 10 * transformer),
        figures=f"{three:,} parameters, {gigabytes:.1f} GB ({4 * gigabytes:.1f} GB in training), "
        f"{three / transformer:.1f} times the Transformer ({transformer:,}); one vector per word "
        f"and three matrices need {shared:,}; with {SUBWORDS:,} subwords, the three vectors would "
        f"need {few / transformer:.1f} times the Transformer",
        numbers={"three_vectors": stored, "one_vector": shared, "transformer": transformer},
        chart=bars(
            {
                "three vectors per word": three / 1e6,
                "one vector and three matrices": shared / 1e6,
                f"three vectors, {SUBWORDS:,} subwords": few / 1e6,
                "Transformer, 6+6 layers": transformer / 1e6,
            },
            x="million parameters",
        ),
    )


def count(module: nn.Module) -> int:
    """Count the parameters of a module."""
    return sum(parameter.numel() for parameter in module.parameters())


CLAIM = Claim(
    file=__file__,
    docstring=__doc__,
    measure=measure,
    full=Size(words=500_000),
    quick=Size(words=500_000),
)

if __name__ == "__main__":
    CLAIM.main()
