"""Erasure: does an answer change more without what was attended to than without anything else?

    comprehensiveness   p(answer | input) - p(answer | input without the most attended parts)
    sufficiency         p(answer | input) - p(answer | the most attended parts alone)

(DeYoung et al. 2020, "ERASER", section 4.) Attention that tells what an answer came from has high
comprehensiveness and low sufficiency. Both mean little alone, as any loss of input hurts: so the
same is done with random parts and with the least attended ones.

Words of a text are left out, and the others close up, as ERASER does it: a text that lacks words is
still a text, which a row of unknown tokens is not. Cells of an image become grey. Both numbers are
means over several shares of the input, each rounded up to whole parts.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from saccade.errors import WatchError
from saccade.lens.alignment.extraction import word_spans
from saccade.lens.record import AttentionRecord
from saccade.lens.record.sides import ImageSide

FRACTIONS = (0.1, 0.2, 0.5)
"""Of the input's parts that are erased, or left alone."""
GREY = 127
KINDS = ("attended", "random", "least")


class Erasable(ABC):
    """An input of several parts, any of which can be taken away."""

    count: int

    @abstractmethod
    def only(self, parts: Collection[int]) -> Any:
        """The input with these parts and no others."""


class Words(Erasable):
    """A text, or several that are read together, without some of their words."""

    def __init__(self, given: str | Sequence[str]) -> None:
        self._single = isinstance(given, str)
        texts = [given] if isinstance(given, str) else list(given)
        self._words = [[text[a:b] for a, b in word_spans(text)] for text in texts]
        self.count = sum(map(len, self._words))

    def only(self, parts: Collection[int]) -> str | tuple[str, ...]:
        """These words with spaces between them."""
        texts, first = [], 0
        for words in self._words:
            kept = [word for i, word in enumerate(words, first) if i in parts]
            texts.append(" ".join(kept))
            first += len(words)
        return texts[0] if self._single else tuple(texts)


class Cells(Erasable):
    """An image whose cells can be grey."""

    def __init__(self, image: ImageSide) -> None:
        self._image = image
        self.count = image.grid[0] * image.grid[1]

    def only(self, parts: Collection[int]) -> np.ndarray:
        """Pixels (height, width, 3) with all other cells grey."""
        pixels = self._image.pixels.copy()
        rows, columns = self._image.grid
        height, width = pixels.shape[:2]
        for cell in set(range(self.count)) - set(parts):
            row, column = divmod(cell, columns)
            top, bottom = row * height // rows, (row + 1) * height // rows
            left, right = column * width // columns, (column + 1) * width // columns
            pixels[top:bottom, left:right] = GREY
        return pixels


def erasable(given: Any, record: AttentionRecord) -> Erasable:
    """An input as the parts that its record has attention for."""
    found = Cells(record.read) if isinstance(record.read, ImageSide) else Words(given)
    if found.count != len(record.read.words):
        raise WatchError(
            f"the input has {found.count} parts, but its record {len(record.read.words)}"
        )
    return found


def attended(record: AttentionRecord) -> Float[np.ndarray, " parts"]:
    """How much the answer looked at each part of the input.

    Of self-attention it is what rolled out into the first token, a class token's; of an image
    without one into all cells. Elsewhere it is the sum over all written words.
    """
    if isinstance(record.wrote, ImageSide):
        return record.glance()
    if record.reads_itself:
        return record.rollout()[0] @ record.read.membership()
    return record.by_words().sum(0)


@dataclass(frozen=True, kw_only=True)
class Erased:
    """What it did to the probability of an answer, by what was chosen: `KINDS` in their order."""

    comprehensiveness: tuple[float, float, float]
    sufficiency: tuple[float, float, float]


def erase(
    given: Erasable,
    weights: Float[np.ndarray, " parts"],
    probability: Callable[[Any], float],
    generator: np.random.Generator,
) -> Erased:
    """Erase parts of an input by the weights of its parts; `probability` is the answer's."""
    ranked = np.argsort(-weights, kind="stable").tolist()
    orders = (ranked, generator.permutation(given.count).tolist(), ranked[::-1])
    known: dict[frozenset[int], float] = {}

    def likely(parts: Collection[int]) -> float:
        key = frozenset(parts)
        if key not in known:
            known[key] = probability(given.only(key))
        return known[key]

    whole = likely(range(given.count))
    without, alone = np.zeros(len(KINDS)), np.zeros(len(KINDS))
    for share in FRACTIONS:
        some = min(math.ceil(share * given.count), given.count - 1)
        for kind, order in enumerate(orders):
            without[kind] += (whole - likely(order[some:])) / len(FRACTIONS)
            alone[kind] += (whole - likely(order[:some])) / len(FRACTIONS)
    return Erased(comprehensiveness=tuple(without.tolist()), sufficiency=tuple(alone.tolist()))
