"""Synthetic pairs: random letters, and the same letters backwards."""

from collections.abc import Iterator

from saccade.data.builtin.copy import letter_rows

DESCRIPTION = "synthetic: up to 12 letters and the same backwards (a b c → c b a), 21 000 pairs"
COLUMNS = ("source", "target", "alignment")


def rows(split: str) -> Iterator[tuple[str, ...]]:
    """Yield source, target and alignment (`i-j` pairs from 0) of each pair of a split."""
    return letter_rows(split, lambda places: places[::-1])
