"""Made: letters, and the same letters again."""

from collections.abc import Iterator

from saccade.data.builtin._letters import letter_rows

DESCRIPTION = "made: up to 12 letters and the same again (a b c → a b c), 21 000 pairs"
COLUMNS = ("source", "target")


def rows(split: str) -> Iterator[tuple[str, ...]]:
    """20 000 pairs to train on, 500 and 500 others."""
    return letter_rows(split, lambda letters: letters)
