"""Synthetic pairs: random letters, and the same letters again."""

from collections.abc import Callable, Iterator
from functools import lru_cache

from saccade.data.builtin._shared import Sampler, split_slice

DESCRIPTION = "synthetic: up to 12 letters and the same again (a b c → a b c), 21 000 pairs"
COLUMNS = ("source", "target", "alignment")
LETTERS = "abcdefghijklmnopqrstuvwxyz"
LONGEST = 12
SIZES = {"train": 20_000, "valid": 500, "test": 500}


def rows(split: str) -> Iterator[tuple[str, ...]]:
    """Yield source, target and alignment (`i-j` pairs from 0) of each pair of a split."""
    return letter_rows(split, lambda places: places)


def letter_rows(split: str, order: Callable[[range], range]) -> Iterator[tuple[str, str, str]]:
    """Yield random letters, the same letters in the `order` of their places, and the alignment."""
    for letters in _sequences()[split_slice(SIZES, split)]:
        places = order(range(len(letters)))
        links = sorted((source, target) for target, source in enumerate(places))
        yield (
            " ".join(letters),
            " ".join(letters[place] for place in places),
            " ".join(f"{source}-{target}" for source, target in links),
        )


@lru_cache(maxsize=1)
def _sequences() -> list[tuple[str, ...]]:
    """Return distinct sequences, those of each split together."""
    sampler = Sampler()
    distinct: dict[tuple[str, ...], None] = {}
    while len(distinct) < sum(SIZES.values()):
        length = sampler.between(1, LONGEST)
        distinct[tuple(sampler.one_of(LETTERS) for _ in range(length))] = None
    return sorted(distinct, key=lambda letters: sampler.random())
