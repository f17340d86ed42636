"""Tables that no file of the user holds: built-in and Hugging Face data sets."""

import hashlib
from collections.abc import Callable, Iterator
from functools import partial

from saccade.data import builtin
from saccade.data.corpus import Row, Table
from saccade.data.sources.columns import ColumnMatch, ColumnRequest, match_names, quoted
from saccade.data.sources.layout import SPLITS
from saccade.errors import DataError


class GeneratedTable(Table):
    """Rows that a function yields.

    Args:
        origin: The name of the data set, which rows have as their file.
        match: The columns of a row.
        generate: Yields the values of all rows; called once per reading.
    """

    def __init__(
        self, origin: str, match: ColumnMatch, generate: Callable[[], Iterator[tuple[str, ...]]]
    ) -> None:
        self.origin, self.match = origin, match
        self.columns, self.unread = match.names, match.unread
        self._generate = generate

    def rows(self) -> Iterator[Row]:
        """Yield all rows; raise a DataError if there are none."""
        number = 0
        for number, values in enumerate(self._generate(), 1):
            yield Row(values, number, self.origin)
        if not number:
            raise DataError(f"{self.origin} has no rows; choose another data set or split")

    def digest(self) -> str:
        """Return a text that depends on every value."""
        digest = hashlib.sha256()
        for row in self.rows():
            for value in row.values:
                data = value.encode()
                digest.update(len(data).to_bytes(8, "little") + data)
        return "made " + digest.hexdigest()

    def describe(self) -> str:
        """Return the name of the data set."""
        return self.origin

    def meaning(self) -> str:
        """Return a text such as: source = column "en", target = column "de"."""
        return self.match.describe()


def builtin_tables(name: str, request: ColumnRequest) -> dict[str, GeneratedTable]:
    """Return the splits of a built-in data set with the requested columns."""
    dataset, origin = builtin.load(name), f"{builtin.PREFIX}{name}"
    advice = f"Its columns are {', '.join(map(quoted, dataset.COLUMNS))}."
    match = match_names(dataset.COLUMNS, request, origin, advice)

    def rows(split: str) -> Iterator[tuple[str, ...]]:
        for values in dataset.rows(split):
            yield tuple([values[place] for place in match.places])

    return {split: GeneratedTable(origin, match, partial(rows, split)) for split in SPLITS}
