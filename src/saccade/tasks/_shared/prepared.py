"""Inputs that are files: prepared once as arrays in the cache, and looked up by their names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from saccade.data.corpus import Row, Split
from saccade.data.store.cache import Encoded, encode_once
from saccade.data.store.stacked import StackedArrays, StackedSequences
from saccade.errors import DataError
from saccade.tasks._shared.base import Progress, Rows

ResultT = TypeVar("ResultT")
ArraysT = TypeVar("ArraysT", StackedArrays, StackedSequences)


def located(read: Callable[[str], ResultT], first: Mapping[str, Row]) -> Callable[[str], ResultT]:
    """Return `read` with the place of the first row that names a file in its errors."""

    def placed(name: str) -> ResultT:
        try:
            return read(name)
        except DataError as error:
            raise DataError(first[name].located(str(error))) from error

    return placed


@dataclass(frozen=True)
class EncodedFiles(Encoded, Generic[ArraysT]):
    """Rows whose first field is the number of a file, and the arrays of the files."""

    arrays: ArraysT

    def numbers(self, rows: Rows) -> list[int]:
        """Return the numbers of the files of these rows."""
        return [int(self.fields[0][int(row)][0]) for row in rows]


class PreparedFiles(ABC, Generic[ArraysT]):
    """The prepared files of a task, from data through the cache or directly from a user.

    Files of data other than training data are kept by name, so validation during training reads
    no files.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[ArraysT, int]] = {}

    @abstractmethod
    def prepare(
        self, first: dict[str, Row], *, split: Split, folder: Path, progress: Progress | None
    ) -> ArraysT:
        """Return the arrays of the files of a split, from the cache in `folder` if it has them.

        Args:
            first: The first row of each file, by its name, in the order of the arrays.
            split: The split.
            folder: The folder of the cache.
            progress: Called with the number of files that are done.
        """

    def encode(
        self,
        split: Split,
        others: Callable[[list[Row]], list[list[int]]],
        *,
        key: str,
        folder: Path,
        limits: Sequence[int] | None = None,
        may_be_empty: Collection[str] = (),
        progress: Progress | None = None,
    ) -> EncodedFiles[ArraysT]:
        """Encode a split whose first column names files; `others` encodes the other field."""
        first: dict[str, Row] = {}
        for row in split:
            first.setdefault(row.values[0], row)
        arrays = self.prepare(first, split=split, folder=folder, progress=progress)
        places = {name: place for place, name in enumerate(first)}

        def numbers(rows: list[Row]) -> list[tuple[list[int], ...]]:
            files = [[places[row.values[0]]] for row in rows]
            return list(zip(files, others(rows), strict=True))

        encoded = encode_once(
            split,
            numbers,
            key=key,
            folder=folder,
            limits=limits,
            may_be_empty=may_be_empty,
            progress=progress,
        )
        if split.name != "train":
            self._known |= {name: (arrays, place) for name, place in places.items()}
        return EncodedFiles(encoded.fields, encoded.skipped, encoded.key, arrays)
