"""The records that the parts of `data` exchange: rows, tables, splits, a corpus, and items.

A split can be read any number of times and holds no rows: a file of a million lines is never in
memory.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from saccade.data.validation_split import RowSelection, SplitRecord
from saccade.errors import DataError

REPORTED = 10_000  # rows between two calls of `progress`
INLINE = ";npy,"
"""The mark between a description of vectors that a table holds, and the vectors themselves."""


class Row(NamedTuple):
    """One example: its values in the order of the split's columns, and its file and line."""

    values: tuple[str, ...]
    line: int
    file: str

    @property
    def where(self) -> str:
        """The place of the row for error messages: `file:line`."""
        return f"{self.file}:{self.line}"

    def located(self, problem: str) -> str:
        """Return a problem of the file that the first value names, after the place of the row.

        A file in a folder of classes has no row of a table: its name is its place.
        """
        inside = self.values[0].startswith(f"{self.file}/")
        return problem if inside else f"{self.where}: {problem}"


class Table(ABC):
    """A source of rows: a file, two parallel files, a folder of images, a data set.

    columns   names of a row's values
    running   whether rows are parts of a running text, not examples by themselves
    base      beginning of every first value that depends on the place of the files alone
    unread    names of the source's other columns
    missing   one sentence per row that was left out because its image or vector file is missing
    broken    one sentence per row that could not be read, if such rows are left out
    names     names of the columns in the source, if it is a file of rows
    assumed   whether the order of the columns decided what they are, not their names
    languages   codes of the source and the target language, if the source names them
    """

    columns: tuple[str, ...]
    unread: tuple[str, ...] = ()
    running: bool = False
    base: str = ""
    missing: Sequence[str] = ()
    broken: Sequence[str] = ()
    names: tuple[str, ...] = ()
    assumed: bool = False
    languages: tuple[str, str] | None = None

    @abstractmethod
    def rows(self) -> Iterator[Row]:
        """Yield all rows; every call reads the source again."""

    @abstractmethod
    def digest(self) -> str:
        """Return a text that depends on the content and on how it is read, not on its place."""

    @abstractmethod
    def describe(self) -> str:
        """Return a few words about the place and the format of the rows."""

    @abstractmethod
    def meaning(self) -> str:
        """Return which columns of the source were chosen, as in: source = column "en"."""


class Split:
    """The rows for one purpose: all rows of a table, or some of them.

    Iterating a split yields `Row` tuples and reads its files again each time.

    Args:
        name: `train`, `valid` or `test`.
        table: The source of the rows.
        selection: The rows of the table that belong to the split; all by default.

    Attributes:
        companions: The other splits of the same training, whose labels are known as well.
    """

    def __init__(self, name: str, table: Table, selection: RowSelection | None = None) -> None:
        self.name, self.columns, self.running = name, table.columns, table.running
        self.unread, self.names, self.assumed = table.unread, table.names, table.assumed
        self._table, self._selection = table, selection
        self.companions: tuple[Split, ...] = ()
        self._count: int | None = None if selection is None else selection.count
        self._digest: str | None = None

    @property
    def broken(self) -> Sequence[str]:
        """One sentence per row of the table that the last reading left out.

        If two splits come from one table, they are listed with the training set.
        """
        return () if self._selection is not None and self.name != "train" else self._table.broken

    def __iter__(self) -> Iterator[Row]:
        if self._selection is None:
            return self._table.rows()
        selection = self._selection
        return (row for row in self._table.rows() if selection.contains(row.values))

    def read(self, progress: Callable[[int], None] | None = None) -> Iterator[Row]:
        """Yield the rows and report their number to `progress`, repeatedly and at the end."""
        number = 0
        for number, row in enumerate(self, 1):
            yield row
            if progress is not None and number % REPORTED == 0:
                progress(number)
        if progress is not None:
            progress(number)

    def count(self) -> int:
        """Return the number of rows; the first call may read them all."""
        if self._count is None:
            self._count = sum(1 for _ in self)
        return self._count

    def digest(self) -> str:
        """Return a SHA-256 of the content and of how it is read, equal wherever the files are."""
        if self._digest is None:
            part = "whole" if self._selection is None else self._selection.key
            parts = (self._table.digest(), *self.columns, part)
            self._digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
        return self._digest

    def __repr__(self) -> str:
        return f"Split({self.name!r}, columns={self.columns})"


@dataclass(frozen=True)
class Corpus:
    """A data set as `open_corpus` returns it.

    Attributes:
        splits: The splits by name, in the order train, valid, test.
        summary: The files and columns that were recognised, in one sentence.
        record: How the validation set came about; None if nothing is trained.
        remarks: Sentences about the data that a user should know.
        skipped: The number of images or vector files that were left out, by split.
        languages: The codes of the source and the target language, if the data names them.
    """

    splits: Mapping[str, Split]
    summary: str
    record: SplitRecord | None = None
    remarks: tuple[str, ...] = ()
    skipped: Mapping[str, int] = field(default_factory=dict)
    languages: tuple[str, str] | None = None


@dataclass(frozen=True)
class Item:
    """One input of an evaluation with all its references.

    Attributes:
        inputs: The values of the input columns.
        references: Every right answer.
        line: The line of the first row with these inputs.
    """

    inputs: tuple[str, ...]
    references: tuple[str, ...]
    line: int

    @property
    def shown(self) -> str:
        """The inputs for people, without vectors that a table holds."""
        return " | ".join(value.partition(INLINE)[0] for value in self.inputs)


def items(split: Split, *, inputs: int | None = None) -> Iterator[Item]:
    """Group rows with the same inputs into items, in the order of first appearance.

    Args:
        split: The rows.
        inputs: The number of leading columns that are inputs; the next column is the answer. By
            default the last column is the answer.

    Yields:
        One item per distinct input.

    Raises:
        DataError: The split has no column for the answer.
    """
    width = len(split.columns) - 1 if inputs is None else inputs
    if not 0 < width < len(split.columns):
        raise DataError(
            f"{split.name} has the columns {', '.join(split.columns)}; an evaluation needs columns "
            "for the input and one for the answer"
        )
    answers_by_input: dict[tuple[str, ...], list[str]] = {}
    lines: list[int] = []
    for row in split:
        answers = answers_by_input.setdefault(row.values[:width], [])
        if not answers:
            lines.append(row.line)
        answers.append(row.values[width])
    for (question, answers), line in zip(answers_by_input.items(), lines, strict=True):
        yield Item(question, tuple(answers), line)
