"""What reading gives: rows in splits in a corpus, and the items of an evaluation.

A split can be read again and again and holds no row: a file of a million lines is never in memory.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from saccade.data.validation_split import Side
from saccade.errors import DataError


class Row(NamedTuple):
    """One example: its values in the order of the split's columns, and where it stands."""

    values: tuple[str, ...]
    line: int
    file: str

    @property
    def where(self) -> str:
        """For a message: file and line."""
        return f"{self.file}:{self.line}"


@runtime_checkable
class Table(Protocol):
    """Rows that lie somewhere: a file, two parallel files, a generator."""

    @property
    def columns(self) -> tuple[str, ...]:
        """What the values of each row are."""
        ...

    @property
    def running(self) -> bool:
        """Whether rows are parts of a running text, instead of examples by themselves."""
        ...

    def rows(self) -> Iterator[Row]:
        """All rows, from the first; each call reads anew."""
        ...

    def digest(self) -> str:
        """Depends on the content and on how it is read, not on where it lies."""
        ...

    def describe(self) -> str:
        """Where the rows lie and in which format, in a few words."""
        ...

    def meaning(self) -> str:
        """Which columns were taken for the wanted ones."""
        ...


class Split:
    """The rows for one purpose (train, valid, test): a table, or one side of it."""

    def __init__(self, name: str, table: Table, side: Side | None = None) -> None:
        self.name, self.columns, self.running = name, table.columns, table.running
        self._table, self._side = table, side
        self._count: int | None = None if side is None else side.count
        self._digest: str | None = None

    def __iter__(self) -> Iterator[Row]:
        if self._side is None:
            return self._table.rows()
        side = self._side
        return (row for row in self._table.rows() if side.holds(row.values[0]))

    def count(self) -> int:
        """The number of rows; the first call may read them all."""
        if self._count is None:
            self._count = sum(1 for _ in self)
        return self._count

    def digest(self) -> str:
        """SHA-256 of the content and of how it is read; equal wherever the files lie."""
        if self._digest is None:
            side = "whole" if self._side is None else self._side.key
            parts = (self._table.digest(), *self.columns, side)
            self._digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
        return self._digest

    def __repr__(self) -> str:
        return f"Split({self.name!r}, columns={self.columns})"


@dataclass(frozen=True)
class Corpus:
    """The splits that were found, and in plain words what was understood."""

    splits: Mapping[str, Split]
    summary: str


@dataclass(frozen=True)
class Item:
    """One question of an evaluation: its inputs, every right answer, the line of the first."""

    inputs: tuple[str, ...]
    references: tuple[str, ...]
    line: int


def items(split: Split, *, inputs: int | None = None) -> Iterator[Item]:
    """Rows with the same first `inputs` columns become one item; the next column is its answer.

    Without `inputs` the last column is the answer. Items come in the order of first appearance.
    """
    width = len(split.columns) - 1 if inputs is None else inputs
    if not 0 < width < len(split.columns):
        raise DataError(
            f"an evaluation needs inputs and an answer, {split.name} has the columns "
            f"{', '.join(split.columns)}"
        )
    references: dict[tuple[str, ...], list[str]] = {}
    lines: list[int] = []
    for row in split:
        found = references.setdefault(row.values[:width], [])
        if not found:
            lines.append(row.line)
        found.append(row.values[width])
    for (asked, answers), line in zip(references.items(), lines, strict=True):
        yield Item(asked, tuple(answers), line)
