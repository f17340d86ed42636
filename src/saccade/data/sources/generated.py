"""Tables that no file holds: rows from a generator, a built-in set or a Hugging Face data set."""

import hashlib
from collections.abc import Callable, Iterator

from saccade.data.corpus import Row
from saccade.data.sources.columns import Taken
from saccade.errors import DataError


class Made:
    """Rows of the taken columns that `make` gives, anew at each call; `origin` is their "file"."""

    running = False

    def __init__(
        self, origin: str, taken: Taken, make: Callable[[], Iterator[tuple[str, ...]]]
    ) -> None:
        self.origin, self.taken, self.columns = origin, taken, taken.names
        self._make = make

    def rows(self) -> Iterator[Row]:
        """All rows; none at all is an error."""
        number = 0
        for number, values in enumerate(self._make(), 1):
            yield Row(values, number, self.origin)
        if not number:
            raise DataError(f"{self.origin} has no rows")

    def digest(self) -> str:
        """Of every value."""
        digest = hashlib.sha256()
        for row in self.rows():
            for value in row.values:
                data = value.encode()
                digest.update(len(data).to_bytes(8, "little") + data)
        return "made " + digest.hexdigest()

    def describe(self) -> str:
        """Where the rows come from."""
        return self.origin

    def meaning(self) -> str:
        """As in: source = column "en", target = column "de"."""
        return self.taken.describe()
