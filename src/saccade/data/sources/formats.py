"""Files of rows: tab-separated, comma-separated, JSON Lines, Parquet and plain lines of text.

A format is one class of this module. Its `suffixes` are the file names it reads. A format whose
records have names, such as JSON objects, derives from `KeyedTable`; one whose records are lists of
fields, with or without a header, from `SeparatedTable`.
"""

import csv
import importlib
import json
import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from io import BufferedIOBase
from pathlib import Path
from types import ModuleType
from typing import ClassVar

from saccade.data.corpus import Row, Table
from saccade.data.sources.archives import digest_of_files
from saccade.data.sources.columns import (
    ColumnMatch,
    ColumnRequest,
    counted,
    listed,
    match_names,
    match_numbers,
    quoted,
)
from saccade.data.sources.image_tables import ImageFinder
from saccade.data.sources.plain_text import open_document
from saccade.data.sources.text_files import (
    DAMAGE,
    LONGEST,
    file_digest,
    first_line,
    open_bytes,
    read_lines,
    suffix_of,
)
from saccade.errors import DataError

Record = Mapping[str, object]
FORMATS: dict[str, type["FileTable"]] = {}
"""The class of each suffix; defining a subclass of `FileTable` adds its suffixes."""


class FileTable(Table):
    """The requested columns of one file. The first row is read at once, the rest on demand.

    kind       name of the format for people
    suffixes   ends of the names of such files
    """

    kind: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        FORMATS.update(dict.fromkeys(cls.__dict__.get("suffixes", ()), cls))

    def __init__(self, path: Path, request: ColumnRequest) -> None:
        self.path, self.header = path, not request.numbered
        self.match = self._match(request)
        self.columns, self.unread = self.match.names, self.match.unread
        self._images = [i for i, column in enumerate(self.match.columns) if column.image]
        self._finder = ImageFinder(path.parent) if self._images else None
        if self._finder and 0 in self._images:
            self.base = self._finder.base

    @classmethod
    def open(cls, path: Path, request: ColumnRequest) -> Table:
        """Open a file of this format."""
        return cls(path, request)

    def rows(self) -> Iterator[Row]:
        """Yield all rows; raise a DataError if there are none, or if an image is missing."""
        file, empty = str(self.path), True
        for line, values in self._records():
            empty = False
            yield Row(self._with_images(values, line), line, file)
        if empty:
            raise DataError(f"{self.path} has no rows; at least one example is expected")

    def digest(self) -> str:
        """Return a text that depends on the format, the columns, the bytes and the images."""
        places = " ".join(map(str, self.match.places))
        images = f" {self._image_digest}" if self._images else ""
        return f"{self.kind} {self.header} {places} {file_digest(self.path)}{images}"

    def meaning(self) -> str:
        """Return a text such as: source = column "en", target = column "de"."""
        return self.match.describe()

    def describe(self) -> str:
        """Return a text such as: pairs.tsv (tab-separated, no header)."""
        return f"{self.path.name} ({self.kind}{'' if self.header else ', no header'})"

    def _with_images(self, values: tuple[str, ...], line: int) -> tuple[str, ...]:
        """Return the values with the paths of images in place of their names."""
        if self._finder is None:
            return values
        where, completed = f"{self.path}:{line}", list(values)
        for i in self._images:
            completed[i] = self._finder.find(values[i], where)
        return tuple(completed)

    @cached_property
    def _image_digest(self) -> str:
        """The digest of the images, in the order of their first mention."""
        return digest_of_files(
            dict.fromkeys(row.values[i] for row in self.rows() for i in self._images)
        )

    @abstractmethod
    def _match(self, request: ColumnRequest) -> ColumnMatch:
        """Find the requested columns."""

    @abstractmethod
    def _records(self) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Yield the line and the requested values of every row."""


class SeparatedTable(FileTable):
    """A file whose records are lists of fields; the first record may be a header.

    advice   what to do if a record has too many fields
    """

    advice: ClassVar[str]

    def _match(self, request: ColumnRequest) -> ColumnMatch:
        first = first_line(self.path)
        self._first = next((fields for _, fields in self._fields()), [])
        if request.numbered:
            return match_numbers(len(self._first), request, str(self.path))
        advice = f"The first line is {quoted(first)}. {request.advice()}"
        return match_names(self._first, request, str(self.path), advice)

    def _records(self) -> Iterator[tuple[int, tuple[str, ...]]]:
        width, places = self.match.width, self.match.places
        records = self._fields()
        if self.header:
            next(records)
        blank = 0
        for line, fields in records:
            if len(fields) == width:
                if blank:
                    raise self._wrong_width(blank, 0)
                yield line, tuple([fields[place] for place in places])
            elif not any(fields) and len(fields) < 2:
                blank = blank or line  # blank lines at the end of the file do not matter
            else:
                raise self._wrong_width(line, len(fields))

    def _wrong_width(self, line: int, width: int) -> DataError:
        names = f" ({listed(self._first)})" if self.header else ", as in line 1"
        actual = str(width) if width else "a blank line"
        advice = self.advice if width > self.match.width else "Complete the line or remove it."
        return DataError(
            f"{self.path}:{line}: expected {counted(self.match.width, 'column')}{names}, found "
            f"{actual}. {advice}"
        )

    @abstractmethod
    def _fields(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the line and all fields of every record, including the header."""


class Tsv(SeparatedTable):
    """Tab-separated values without quoting: a quotation mark is a character like any other."""

    kind = "tab-separated"
    suffixes = (".tsv",)
    advice = "If the text contains tabs, use CSV."

    def _fields(self) -> Iterator[tuple[int, list[str]]]:
        for number, line in enumerate(read_lines(self.path), 1):
            yield number, line.split("\t")


class Csv(SeparatedTable):
    """Comma-separated values; a field in quotation marks may contain commas and line ends."""

    kind = "comma-separated"
    suffixes = (".csv",)
    advice = 'If the text contains commas, put it in "…".'

    def _fields(self) -> Iterator[tuple[int, list[str]]]:
        if csv.field_size_limit() < LONGEST:
            csv.field_size_limit(LONGEST)
        reader = csv.reader(read_lines(self.path, keep_ends=True), strict=True)
        line = 1
        try:
            for fields in reader:
                yield line, fields or [""]
                line = reader.line_num + 1
        except csv.Error as error:
            raise DataError(
                f"{self.path}:{line}: expected comma-separated values ({error}). Put a field that "
                'contains commas, line ends or quotation marks in "…", and double each quotation '
                "mark in it"
            ) from error


class KeyedTable(FileTable):
    """A file whose records have names. A subclass defines `_names` and `_objects`."""

    def _match(self, request: ColumnRequest) -> ColumnMatch:
        names = self._names()
        advice = f"Its columns are {', '.join(map(quoted, names)) or 'without names'}."
        if request.numbered:
            raise DataError(
                f"{self.path}: the columns of {self.kind} have names, not numbers. {advice} Assign "
                "them: --columns source=NAME"
            )
        return match_names(names, request, str(self.path), advice)

    def _records(self) -> Iterator[tuple[int, tuple[str, ...]]]:
        for number, record in self._objects():
            yield number, texts_of(record, self.match, f"{self.path}:{number}")

    @abstractmethod
    def _names(self) -> tuple[str, ...]:
        """Return the names of the columns."""

    @abstractmethod
    def _objects(self) -> Iterator[tuple[int, Record]]:
        """Yield the line or number of every record, from 1, and its values by name."""


class Jsonl(KeyedTable):
    """JSON Lines: one JSON object per line."""

    kind = "JSON lines"
    suffixes = (".jsonl", ".ndjson")

    def _names(self) -> tuple[str, ...]:
        first_line(self.path)
        return tuple(next((record for _, record in self._objects()), ()))

    def _objects(self) -> Iterator[tuple[int, Record]]:
        blank = 0
        for number, line in enumerate(read_lines(self.path), 1):
            if not line.strip():
                blank = blank or number
                continue
            if blank:
                raise DataError(
                    f"{self.path}:{blank}: expected a JSON object, found a blank line. Remove it."
                )
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise DataError(
                    f"{self.path}:{number}: not valid JSON ({error}). Write one object per line."
                ) from error
            if not isinstance(record, dict):
                raise DataError(
                    f'{self.path}:{number}: expected a JSON object such as {{"text": "…"}}, found '
                    f"{quoted(line)}"
                )
            yield number, record

    def digest(self) -> str:
        """Return a text that also depends on the keys: their order in line 1 does not suffice."""
        return f"{super().digest()} {json.dumps(self.match.found_as)}"


class Parquet(KeyedTable):
    """A Parquet file, read a thousand rows at a time."""

    kind = "Parquet"
    suffixes = (".parquet",)

    def _names(self) -> tuple[str, ...]:
        with self._opened() as (parquet, stream):
            return tuple(parquet.ParquetFile(stream).schema_arrow.names)

    def _objects(self) -> Iterator[tuple[int, Record]]:
        with self._opened() as (parquet, stream):
            file, columns = parquet.ParquetFile(stream), list(self.match.found_as)
            batches = file.iter_batches(batch_size=1024, columns=columns)
            yield from enumerate((row for batch in batches for row in batch.to_pylist()), 1)

    @contextmanager
    def _opened(self) -> Iterator[tuple[ModuleType, BufferedIOBase]]:
        try:
            parquet = importlib.import_module("pyarrow.parquet")
        except ImportError as error:
            raise DataError(
                f'{self.path} needs pyarrow to be read: pip install "saccade-attention[parquet]"'
            ) from error
        try:
            with open_bytes(self.path) as stream:
                yield parquet, stream
        except (OSError, ValueError, NotImplementedError, *DAMAGE) as error:
            raise DataError(
                f"{self.path} is not a complete Parquet file: {error}; copy or write it again"
            ) from error


class Lines(FileTable):
    """Plain text, one example per line."""

    kind = "plain text"
    suffixes = (".txt",)

    @classmethod
    def open(cls, path: Path, request: ColumnRequest) -> Table:
        """Open a document if running text is requested; a TSV file if columns are assigned."""
        if request.running:
            return open_document(path, request)
        return (Tsv if request.renamed else cls)(path, request)

    def _match(self, request: ColumnRequest) -> ColumnMatch:
        first_line(self.path)
        if len(request.required) != 1:
            names = " and ".join(column.name for column in request.required)
            raise DataError(
                f"{self.path} is plain text with one column, but {names} are needed. If it is "
                f"tab-separated, rename it to .tsv or add {request.by_numbers()}"
            )
        return ColumnMatch(request.required, (0,), ("1",), 1)

    def _records(self) -> Iterator[tuple[int, tuple[str, ...]]]:
        for number, line in enumerate(read_lines(self.path), 1):
            yield number, (line,)


def open_table(path: Path, request: ColumnRequest) -> Table:
    """Open a file of rows in the format that its suffix names.

    Raises:
        DataError: The suffix is unknown, or the file does not have the requested columns.
    """
    kind = FORMATS.get(suffix_of(path))
    if kind is None:
        raise DataError(
            f"{path} has an unknown suffix; expected one of {' '.join(FORMATS)} (also followed by "
            ".gz or .xz). Rename the file, or give the folder or the common beginning of two "
            "parallel files"
        )
    return kind.open(path, request)


def texts_of(record: Record, match: ColumnMatch, where: str) -> tuple[str, ...]:
    """Return the requested values of a record as text; `where` names it in error messages."""
    columns = zip(match.found_as, match.columns, strict=True)
    return tuple([_text(record, key, where, numbers=column.numbers) for key, column in columns])


def _text(record: Record, key: str, where: str, *, numbers: bool) -> str:
    if key not in record:
        keys = ", ".join(map(quoted, record)) or "none"
        raise DataError(f"{where}: expected the key {quoted(key)}, found {keys}. Add it.")
    value = record[key]
    if isinstance(value, str):
        if not value.isascii():
            _require_complete(value, key, where)
        return value
    if numbers and isinstance(value, (bool, int)):
        return str(int(value))
    if numbers and isinstance(value, float) and math.isfinite(value):
        return str(value)
    expected = "text or a number" if numbers else "text"
    actual = "null" if value is None else f"{type(value).__name__} {quoted(str(value), 30)}"
    raise DataError(
        f"{where}: expected {expected} in {quoted(key)}, found {actual}. Correct or remove the row."
    )


def _require_complete(value: str, key: str, where: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        half = ord(value[error.start])
        raise DataError(
            f"{where}: {quoted(key)} contains half a character (\\u{half:04x} alone). Write both "
            "halves or neither."
        ) from error
