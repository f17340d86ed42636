"""Made: letters, and the same letters backwards."""

from collections.abc import Iterator

from saccade.data.builtin._letters import letter_rows

DESCRIPTION = "made: up to 12 letters and the same backwards (a b c → c b a), 21 000 pairs"
COLUMNS = ("source", "target", "alignment")


def rows(split: str) -> Iterator[tuple[str, ...]]:
    """20 000 pairs to train on, 500 and 500 others; the alignment as `i-j`, from 0."""
    return letter_rows(split, lambda places: places[::-1])
