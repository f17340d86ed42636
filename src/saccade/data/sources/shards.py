"""One table in several files, which are read one after another: `train-00000-of-00008.parquet` …"""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from saccade.data.corpus import Row, Table
from saccade.data.sources.columns import ColumnRequest, counted, listed
from saccade.data.sources.formats import FORMATS, open_table
from saccade.data.sources.text_files import suffix_of, unpacked_name
from saccade.data.threads import in_threads
from saccade.errors import DataError

DIGITS, MARKS, LONGEST_NUMBER = "0123456789", "-_.", 18


class ShardedTable(Table):
    """The rows of several files with the same columns, in the order of the files.

    Args:
        paths: The files, at least one.
        request: The columns to read.

    Raises:
        DataError: A file cannot be opened, or its columns differ from those of the first.
    """

    def __init__(self, paths: Sequence[Path], request: ColumnRequest) -> None:
        self._paths = paths
        self._tables = [open_table(path, request) for path in paths]
        first = self._tables[0]
        for path, table in zip(paths, self._tables, strict=True):
            if (table.columns, table.meaning()) != (first.columns, first.meaning()):
                raise DataError(
                    f"{path} has other columns than {paths[0].name}: {table.meaning()} instead of "
                    f"{first.meaning()}. Give all files of a split the same columns"
                )
        self.columns, self.unread, self.running = first.columns, first.unread, first.running
        self.names, self.assumed, self.languages = first.names, first.assumed, first.languages
        bases = {table.base for table in self._tables}
        self.base = first.base if len(bases) == 1 else ""

    @property
    def missing(self) -> Sequence[str]:  # type: ignore[override]
        """One sentence per row that was left out because its image or vector file is missing."""
        return [*chain.from_iterable(table.missing for table in self._tables)]

    @property
    def broken(self) -> Sequence[str]:  # type: ignore[override]
        """One sentence per row that could not be read, if such rows are left out."""
        return [*chain.from_iterable(table.broken for table in self._tables)]

    def rows(self) -> Iterator[Row]:
        """Yield the rows of all files."""
        return chain.from_iterable(table.rows() for table in self._tables)

    def digest(self) -> str:
        """Return a digest of those of the files, which are read in parallel."""
        digests = in_threads(lambda table: table.digest(), self._tables, os.cpu_count() or 1)
        return hashlib.sha256("\0".join(digests).encode()).hexdigest()

    def describe(self) -> str:
        """Return a text such as: train-0.tsv (tab-separated) to train-7.tsv, 8 files."""
        return (
            f"{self._tables[0].describe()} to {self._paths[-1].name}, "
            f"{counted(len(self._paths), 'file')}"
        )

    def meaning(self) -> str:
        """Return which columns were chosen."""
        return self._tables[0].meaning()


def in_order(paths: Iterable[Path]) -> list[Path]:
    """Return paths sorted by their names, in which numbers count as numbers.

    Example:
        >>> [path.name for path in in_order(map(Path, ["part-10.tsv", "part-9.tsv"]))]
        ['part-9.tsv', 'part-10.tsv']
    """

    def key(path: Path) -> list[tuple[int, str]]:
        parts = re.split(r"(\d+)", str(path))
        return [(int(part), part) if part.isdecimal() else (-1, part) for part in parts]

    return sorted(paths, key=key)


def numbered_tables(paths: Iterable[Path]) -> list[tuple[str, list[Path]]]:
    """Return the tables whose files are numbered, with their names without the numbers.

    The numbers of a table's files are 0 to n - 1 or 1 to n, or the names announce how many there
    are, as in train-00000-of-00008.
    """
    tables: dict[tuple[str, str, str], list[tuple[int, Path]]] = {}
    for path in in_order(paths):
        if (name := _numbered(path)) and path.is_file():
            key = name.stem, suffix_of(path), name.announced
            tables.setdefault(key, []).append((int(name.number), path))
    named = []
    for (stem, _, count), numbered in tables.items():
        numbers, many = [number for number, _ in numbered], len(numbered)
        in_a_row = many > 1 and numbers in ([*range(many)], [*range(1, many + 1)])
        if count or in_a_row:
            named.append((stem, [path for _, path in numbered]))
    return named


def require_complete(paths: Sequence[Path]) -> None:
    """Raise a DataError unless there are as many files as their names announce."""
    name = _numbered(paths[0])
    if name and name.announced and len(paths) != int(name.announced):
        raise DataError(
            f"{paths[0].parent} has {counted(len(paths), 'file')} of {name.stem}, but their "
            f"names announce {int(name.announced)}: {listed([path.name for path in paths])}. Add "
            "the missing ones, or rename the others"
        )


class _Numbered(NamedTuple):
    """The parts of the name of a shard; `announced` is empty if it does not end in a count."""

    stem: str
    number: str
    announced: str


def _numbered(path: Path) -> _Numbered | None:
    """Return the parts of a name such as train-00000-of-00008, part_3 or train.0001."""
    suffix = suffix_of(path)
    if not _is_table(suffix):
        return None
    head, number = _without_number(unpacked_name(path)[: -len(suffix)])
    middle, count = head[-4:], ""
    if middle[1:3] == "of" and middle[0] in MARKS and middle[3:] in (*MARKS,):
        rest, before = _without_number(head[:-4])
        head, number, count = (rest, before, number) if before else (head, number, "")
    if not number or len(number) > LONGEST_NUMBER:
        return None
    return _Numbered(head[:-1] if head[-1:] in MARKS else head, number, count)


def _without_number(text: str) -> tuple[str, str]:
    """Return a text without the digits at its end, and these digits."""
    head = text.rstrip(DIGITS)
    return head, text[len(head) :]


def _is_table(suffix: str) -> bool:
    """Return whether files of a format may be parts of a table; .txt files are documents."""
    return suffix in FORMATS and suffix != ".txt"


def only_tables(folder: Path) -> list[Path]:
    """Return the files of a folder that holds nothing but tables of one format."""
    files = [path for path in folder.iterdir() if not path.name.startswith((".", "_"))]
    suffixes = {suffix_of(path) if path.is_file() else "" for path in files}
    return in_order(files) if len(suffixes) == 1 and all(map(_is_table, suffixes)) else []
