"""One file of rows: tab-separated, comma-separated, JSON lines, Parquet, or plain lines of text."""

import csv
import importlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from saccade.data.corpus import Row, Table
from saccade.data.sources.archives import digest_of_files
from saccade.data.sources.columns import (
    Asked,
    Taken,
    by_name,
    by_number,
    counted,
    how_to_say,
    quoted,
)
from saccade.data.sources.documents import open_document
from saccade.data.sources.image_tables import Finder
from saccade.data.sources.text_files import (
    DAMAGE,
    LONGEST,
    file_digest,
    first_line,
    open_bytes,
    read_lines,
    unpacked_name,
)
from saccade.errors import DataError


class FileTable(ABC):
    """The wanted columns of one file. Its first row is read at once, the rest when asked."""

    kind: str
    running = False

    def __init__(self, path: Path, asked: Asked) -> None:
        self.path, self.header = path, not asked.numbered
        self.taken = self._take(asked)
        self.columns = self.taken.names
        self._images = [i for i, column in enumerate(self.taken.columns) if column.image]
        self._finder = Finder(path.parent) if self._images else None

    @property
    def base(self) -> str:
        """What the first value of each row begins with that says only where the images lie."""
        return self._finder.base if self._finder and 0 in self._images else ""

    def rows(self) -> Iterator[Row]:
        """All rows; a file with none is an error, and so is an image that is not there."""
        file, empty = str(self.path), True
        for line, values in self._records():
            empty = False
            yield Row(self._found(values, line), line, file)
        if empty:
            raise DataError(f"{self.path} has no rows; at least one example is expected")

    def digest(self) -> str:
        """Of the format, the columns and the bytes of the file, and of the images it names."""
        places = " ".join(map(str, self.taken.places))
        images = f" {self._content}" if self._images else ""
        return f"{self.kind} {self.header} {places} {file_digest(self.path)}{images}"

    def meaning(self) -> str:
        """As in: source = column "en", target = column "de"."""
        return self.taken.describe()

    def describe(self) -> str:
        """As in: pairs.tsv (tab-separated, no header)."""
        return f"{self.path.name} ({self.kind}{'' if self.header else ', no header'})"

    def _found(self, values: tuple[str, ...], line: int) -> tuple[str, ...]:
        """The values, with the images' places instead of their names."""
        if self._finder is None:
            return values
        where, found = f"{self.path}:{line}", list(values)
        for i in self._images:
            found[i] = self._finder.find(values[i], where)
        return tuple(found)

    @cached_property
    def _content(self) -> str:
        """The digest of the images, in the order in which they are first named."""
        return digest_of_files(
            dict.fromkeys(row.values[i] for row in self.rows() for i in self._images)
        )

    @abstractmethod
    def _take(self, asked: Asked) -> Taken:
        """Find the wanted columns."""

    @abstractmethod
    def _records(self) -> Iterator[tuple[int, tuple[str, ...]]]:
        """The line and the wanted values of every row."""


class _Separated(FileTable):
    """A line or record is a list of fields; the first may be the header."""

    def _take(self, asked: Asked) -> Taken:
        first = first_line(self.path)
        fields = next((fields for _, fields in self._fields()), [])
        if asked.numbered:
            return by_number(len(fields), asked, str(self.path))
        advice = f"Its first line is {quoted(first)}; say what is what: {how_to_say(asked)}"
        return by_name(fields, asked, str(self.path), advice)

    def _records(self) -> Iterator[tuple[int, tuple[str, ...]]]:
        width, places = self.taken.width, self.taken.places
        records = self._fields()
        if self.header:
            next(records)
        blank = 0
        for line, fields in records:
            if len(fields) == width:
                if blank:
                    raise self._wrong(blank, 0)
                yield line, tuple([fields[place] for place in places])
            elif not any(fields) and len(fields) < 2:
                blank = blank or line  # blank lines at the end are nothing
            else:
                raise self._wrong(line, len(fields))

    def _wrong(self, line: int, width: int) -> DataError:
        found = counted(width, "column") if width else "a blank line"
        rule = "the header" if self.header else "line 1"
        return DataError(
            f"{self.path}:{line}: {found}, {rule} has {self.taken.width} ({self.kind})"
        )

    @abstractmethod
    def _fields(self) -> Iterator[tuple[int, list[str]]]:
        """The line and all fields of every record, the header too."""


class Tsv(_Separated):
    """Tabs between fields and nothing else: a quotation mark is a character like any other."""

    kind = "tab-separated"

    def _fields(self) -> Iterator[tuple[int, list[str]]]:
        for number, line in enumerate(read_lines(self.path), 1):
            yield number, line.split("\t")


class Csv(_Separated):
    """Commas between fields; a field in quotation marks may hold commas and line ends."""

    kind = "comma-separated"

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
                f"{self.path}:{line}: not comma-separated values ({error}); a field with "
                'commas, line ends or quotation marks stands in "…", a quotation mark in it twice'
            ) from error


class Jsonl(FileTable):
    """One JSON object a line."""

    kind = "JSON lines"

    def _take(self, asked: Asked) -> Taken:
        first_line(self.path)
        _, record = next(self._objects(), (0, {}))
        advice = f"The first line has the keys {', '.join(map(quoted, record)) or 'of nothing'}."
        if asked.numbered:
            raise DataError(f"{self.path}: JSON has keys, not numbered columns. {advice}")
        return by_name(tuple(record), asked, str(self.path), advice)

    def _records(self) -> Iterator[tuple[int, tuple[str, ...]]]:
        for line, record in self._objects():
            yield line, texts_of(record, self.taken, f"{self.path}:{line}")

    def _objects(self) -> Iterator[tuple[int, dict[str, Any]]]:
        blank = 0
        for number, line in enumerate(read_lines(self.path), 1):
            if not line.strip():
                blank = blank or number
                continue
            if blank:
                raise DataError(f"{self.path}:{blank}: blank; a JSON object is expected")
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise DataError(f"{self.path}:{number}: not JSON ({error})") from error
            if not isinstance(record, dict):
                raise DataError(
                    f"{self.path}:{number}: a JSON object with keys is expected, got "
                    f"{quoted(line)}"
                )
            yield number, record

    def digest(self) -> str:
        """Of the keys too: their order in the first line says nothing of the others."""
        return f"{super().digest()} {json.dumps(self.taken.found_as)}"


class Parquet(FileTable):
    """A Parquet file, read a thousand rows at a time."""

    kind = "Parquet"

    def _take(self, asked: Asked) -> Taken:
        with self._opened() as file:
            names = tuple(file.schema_arrow.names)
        if asked.numbered:
            raise DataError(f"{self.path}: Parquet has names, not numbered columns: {names}")
        advice = f"Its columns are {', '.join(map(quoted, names))}."
        return by_name(names, asked, str(self.path), advice)

    def _records(self) -> Iterator[tuple[int, tuple[str, ...]]]:
        for line, record in enumerate(self._read(), 1):
            yield line, texts_of(record, self.taken, f"{self.path}:{line}")

    def _read(self) -> Iterator[dict[str, Any]]:
        with self._opened() as file:
            for batch in file.iter_batches(batch_size=1024, columns=list(self.taken.found_as)):
                yield from batch.to_pylist()

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        try:
            parquet = importlib.import_module("pyarrow.parquet")
        except ImportError as error:
            raise DataError(
                f'{self.path} needs pyarrow to be read: pip install "saccade[parquet]"'
            ) from error
        try:
            with open_bytes(self.path) as stream:
                yield parquet.ParquetFile(stream)
        except (OSError, ValueError, NotImplementedError, *DAMAGE) as error:
            raise DataError(f"{self.path} is not a whole Parquet file: {error}") from error


class Lines(FileTable):
    """Plain text, an example a line."""

    kind = "plain text"

    def _take(self, asked: Asked) -> Taken:
        first_line(self.path)
        if len(asked.required) != 1:
            names = " and ".join(column.name for column in asked.required)
            raise DataError(
                f"{self.path} is plain text, one column, but {names} are wanted; for tab-separated "
                f"text use the ending .tsv or say {how_to_say(asked).split(' if it is')[0]}"
            )
        return Taken(asked.required, (0,), ("1",), 1)

    def _records(self) -> Iterator[tuple[int, tuple[str, ...]]]:
        for number, line in enumerate(read_lines(self.path), 1):
            yield number, (line,)


FORMATS: Mapping[str, type[FileTable]] = {
    ".tsv": Tsv,
    ".csv": Csv,
    ".jsonl": Jsonl,
    ".ndjson": Jsonl,
    ".parquet": Parquet,
    ".txt": Lines,
}


def ending(path: Path) -> str:
    """The ending that names the format, without .gz or .xz: `.tsv`."""
    return Path(unpacked_name(path)).suffix.lower()


def open_table(path: Path, asked: Asked) -> Table:
    """The file as rows, by its ending.

    .txt is a line an example, or running text if that is asked; with columns given by hand it is
    tab-separated.
    """
    kind = FORMATS.get(ending(path))
    if kind is None:
        raise DataError(
            f"{path} ends in none of {' '.join(FORMATS)} (also .gz or .xz after it), so its format "
            "is not known; rename it, or give the folder or the common beginning of parallel files"
        )
    if kind is Lines and asked.running:
        return open_document(path, asked.required[0])
    return (Tsv if kind is Lines and asked.renamed else kind)(path, asked)


def texts_of(record: Mapping[str, Any], taken: Taken, where: str) -> tuple[str, ...]:
    """The wanted values of a record with keys, each of them text."""
    columns = zip(taken.found_as, taken.columns, strict=True)
    return tuple([_text(record, key, where, numbers=column.numbers) for key, column in columns])


def _text(record: Mapping[str, Any], key: str, where: str, *, numbers: bool) -> str:
    if key not in record:
        raise DataError(f"{where}: no {quoted(key)}; the keys are {', '.join(map(quoted, record))}")
    value = record[key]
    if isinstance(value, str):
        if not value.isascii():
            _require_whole(value, key, where)
        return value
    if numbers and isinstance(value, (bool, int)):
        return str(int(value))
    if numbers and isinstance(value, float) and math.isfinite(value):
        return str(value)
    allowed = "text or a number" if numbers else "text"
    found = "null" if value is None else f"{type(value).__name__} {quoted(str(value), 30)}"
    raise DataError(f"{where}: {quoted(key)} must be {allowed}, got {found}")


def _require_whole(value: str, key: str, where: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        half = ord(value[error.start])
        raise DataError(
            f"{where}: {quoted(key)} holds half a character (\\u{half:04x} alone)"
        ) from error
