"""Random rows of letters, the same at every call and different in every split."""

import random
from collections.abc import Callable, Iterator
from functools import lru_cache

LETTERS = "abcdefghijklmnopqrstuvwxyz"
LONGEST = 12
SIZES = {"train": 20_000, "valid": 500, "test": 500}


def letter_rows(split: str, order: Callable[[range], range]) -> Iterator[tuple[str, str, str]]:
    """Letters with spaces between, the same in the `order` of their places, and the alignment."""
    for letters in _sequences()[split]:
        places = order(range(len(letters)))
        links = sorted((source, target) for target, source in enumerate(places))
        yield (
            " ".join(letters),
            " ".join(letters[place] for place in places),
            " ".join(f"{source}-{target}" for source, target in links),
        )


@lru_cache(maxsize=1)
def _sequences() -> dict[str, list[tuple[str, ...]]]:
    """Distinct sequences, dealt to the splits. Only `random()`, which Python keeps the same."""
    source = random.Random(0)
    seen: dict[tuple[str, ...], None] = {}
    while len(seen) < sum(SIZES.values()):
        length = 1 + int(source.random() * LONGEST)
        seen[tuple(LETTERS[int(source.random() * 26)] for _ in range(length))] = None
    every = sorted(seen, key=lambda letters: source.random())
    starts = {"train": 0, "valid": SIZES["train"], "test": SIZES["train"] + SIZES["valid"]}
    return {split: every[start : start + SIZES[split]] for split, start in starts.items()}
