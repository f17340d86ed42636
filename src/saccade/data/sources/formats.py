"""Files of rows: separated values, JSON, Parquet, spreadsheets, CoNLL and plain lines of text.

A format is one class of this module. Its `suffixes` are the file names it reads. A format whose
records have names, such as JSON objects, derives from `KeyedTable`; one whose records are lists of
fields, with or without a header, from `SeparatedTable`.
"""

import csv
import importlib
import json
import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from io import BufferedIOBase, BytesIO
from itertools import chain, dropwhile, islice
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

from saccade.data.corpus import Row, Table
from saccade.data.sources.archives import digest_of_files
from saccade.data.sources.columns import (
    Column,
    ColumnMatch,
    ColumnRequest,
    counted,
    join_elements,
    listed,
    match_names,
    match_numbers,
    match_order,
    quoted,
)
from saccade.data.sources.image_tables import FileFinder
from saccade.data.sources.json_arrays import (
    columns_instead_of_rows,
    is_array_of_objects,
    read_objects,
)
from saccade.data.sources.plain_text import open_document
from saccade.data.sources.text_files import (
    DAMAGE,
    LONGEST,
    empty_file,
    file_digest,
    first_line,
    open_bytes,
    read_lines,
    require_line_ends,
    suffix_of,
    unpacked_name,
)
from saccade.data.sources.vectors import inline, is_inline
from saccade.errors import BrokenImagesError, BrokenRowsError, DataError, WrongTaskError

Record = Mapping[str, object]
SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
"""The separators of .csv files, the usual one first."""
SNIFFED = 50  # records that show the separator
OTHER_FORMATS = {
    ".xls": "Save it as .xlsx or .csv",
    ".ods": "Save it as .xlsx or .csv",
    ".zip": "Unpack it: a .zip may hold images or vector files, not tables",
    ".tar": "Unpack it",
    ".tgz": "Unpack it",
    ".bz2": "Unpack it, or pack it with gzip",
    ".zst": "Unpack it, or pack it with gzip",
    ".pkl": "Save it as .parquet or .csv: pickled objects are never loaded",
    ".pickle": "Save it as .parquet or .csv: pickled objects are never loaded",
    ".feather": "Save it as .parquet",
    ".arrow": "Save it as .parquet",
    ".db": "Export the table as .csv",
    ".sqlite": "Export the table as .csv",
    ".docx": "Save its text as .txt",
    ".pdf": "Save its text as .txt",
}
"""Advice about files of other formats, by suffix."""
FORMATS: dict[str, type["FileTable"]] = {}
"""The class of each suffix; defining a subclass of `FileTable` adds its suffixes."""


class FileTable(Table):
    """The requested columns of one file. The first row is read at once, the rest on demand.

    kind       name of the format for people
    suffixes   ends of the names of such files
    """

    kind: str
    suffixes: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        FORMATS.update(dict.fromkeys(cls.__dict__.get("suffixes", ()), cls))

    def __init__(self, path: Path, request: ColumnRequest) -> None:
        self.path, self.header = path, not request.numbered
        self.broken: list[str] = []
        self._skip_broken, self._tolerant = request.skip_broken, request.tolerant
        self.match = self._match(request)
        self.columns, self.unread = self.match.names, self.match.unread
        self.names, self.assumed = self.match.found_as, self.match.assumed
        self.languages = self.match.languages
        columns = self.match.columns
        self._files = [i for i, column in enumerate(columns) if column.names_files]
        self._finder = FileFinder(path.parent, columns[self._files[0]]) if self._files else None
        if self._finder and 0 in self._files:
            self.base = self._finder.base

    @classmethod
    def open(cls, path: Path, request: ColumnRequest) -> Table:
        """Open a file of this format."""
        return cls(path, request)

    def rows(self) -> Iterator[Row]:
        """Yield all rows; at the end, raise a DataError that lists the broken ones, if any are.

        Raise one also if there are no rows, or if files that they name are missing.
        """
        file, number = str(self.path), 0
        missing: list[str] = []
        self.broken = []
        for line, values in self._records():
            number += 1
            try:
                completed = self._with_files(values, line)
            except DataError as error:
                missing.append(str(error))
            else:
                yield Row(completed, line, file)
        if self.broken and not self._tolerant:
            raise BrokenRowsError(self.broken, number + len(self.broken))
        if not number:
            raise DataError(
                f"{self.path} has no rows; at least one example is expected. Check the path, or "
                "write the file again"
            )
        if missing and not self._skip_broken:
            noun = self._finder.noun if self._finder else "image"
            raise BrokenImagesError(missing, number, noun)
        self.missing = missing

    def digest(self) -> str:
        """Return a text that depends on the format, the columns, the bytes and the files named."""
        places = " ".join(map(str, self.match.places))
        files = f" {self._files_digest}" if self._files else ""
        return f"{self.kind} {self.header} {places} {file_digest(self.path)}{files}"

    def meaning(self) -> str:
        """Return a text such as: source = column "en", target = column "de"."""
        return self.match.describe()

    def describe(self) -> str:
        """Return a text such as: pairs.tsv (tab-separated, no header)."""
        return f"{self.path.name} ({self.kind}{'' if self.header else ', no header'})"

    def _with_files(self, values: tuple[str, ...], line: int) -> tuple[str, ...]:
        """Return the values with the paths of files in place of their names."""
        if self._finder is None:
            return values
        where, completed = f"{self.path}:{line}", list(values)
        for i in self._files:
            completed[i] = self._finder.find(values[i], where)
        return tuple(completed)

    def _leave_out(self, error: DataError) -> None:
        """List a row that cannot be read."""
        self.broken.append(str(error))

    @cached_property
    def _files_digest(self) -> str:
        """The digest of the files, in the order of their first mention."""
        names = dict.fromkeys(row.values[i] for row in self.rows() for i in self._files)
        return digest_of_files(name for name in names if not is_inline(name))

    @abstractmethod
    def _match(self, request: ColumnRequest) -> ColumnMatch:
        """Find the requested columns."""

    @abstractmethod
    def _records(self) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Yield the line and the requested values of every row."""


class SeparatedTable(FileTable):
    """A file whose records are lists of fields; the first record may be a header.

    advice        what to do if a record has too many fields
    separator     text between the fields of a record, for messages
    skips_blank   whether blank lines between records are ignored
    """

    advice: str
    separator: str
    skips_blank: ClassVar[bool] = False

    def _match(self, request: ColumnRequest) -> ColumnMatch:
        self._first = next((fields for _, fields in self._fields()), [])
        if not self._first:
            raise empty_file(self.path)
        if self.broken and not self._tolerant:  # the header may be among them
            raise DataError(self.broken[0])
        return self._match_fields(self._first, request)

    def _match_fields(self, fields: list[str], request: ColumnRequest) -> ColumnMatch:
        """Match the columns by the fields of the first record."""
        if request.numbered:
            return match_numbers(len(fields), request, str(self.path))
        shown = quoted(self.separator.join(fields))
        advice = f"The first line is {shown}. {self._hint(request)}{request.advice()}"
        try:
            return match_names(fields, request, str(self.path), advice)
        except DataError:
            match = match_order(fields, request)
            if match is None or not self._has_sentences():
                raise
            return match

    def _has_sentences(self) -> bool:
        """Return whether a column has more words than a name has, in the records after the first.

        A file of single words may have no header.
        """
        records = [fields for _, fields in islice(self._fields(), 1, SNIFFED)]
        words = [
            sum(len(field.split()) for field in column) for column in zip(*records, strict=False)
        ]
        return max(words, default=0) > 2 * len(records)

    def _hint(self, request: ColumnRequest) -> str:
        """Return a sentence about a likely mistake in the format; "" if there is none."""
        return ""

    def _records(self) -> Iterator[tuple[int, tuple[str, ...]]]:
        width, places = self.match.width, self.match.places
        records = self._fields()
        if self.header:
            next(records)
        blank = 0
        for line, fields in records:
            if len(fields) == width:
                if blank and not self.skips_blank:
                    self._leave_out(self._wrong_width(blank, 0))
                blank = 0
                yield line, tuple([fields[place] for place in places])
            elif not any(fields) and len(fields) < 2:
                blank = blank or line  # blank lines at the end of the file do not matter
            else:
                self._leave_out(self._wrong_width(line, len(fields)))

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
    separator = "\t"

    def __init__(self, path: Path, request: ColumnRequest) -> None:
        require_line_ends(path)
        super().__init__(path, request)

    def _fields(self) -> Iterator[tuple[int, list[str]]]:
        for number, line in enumerate(read_lines(self.path), 1):
            yield number, line.split("\t")

    def _hint(self, request: ColumnRequest) -> str:
        other = Csv.sniffed(self.path, request)
        names = [name for name, separator in SEPARATORS.items() if separator == other]
        if other == "\t" or len(self._first) > 1 or other not in self._first[0]:
            return ""
        return f"The file is {names[0]}-separated: rename it to .csv. "


class Csv(SeparatedTable):
    """Values separated by commas, semicolons, tabs or pipes, which the first records show.

    A field in quotation marks may contain separators and line ends. Blank lines are ignored.
    """

    suffixes = (".csv",)
    skips_blank = True

    def __init__(self, path: Path, request: ColumnRequest) -> None:
        require_line_ends(path)
        self.separator = self.sniffed(path, request)
        name = next(name for name, text in SEPARATORS.items() if text == self.separator)
        self.kind = f"{name}-separated"
        self.advice = f'If the text contains {name}s, put it in "…".'
        super().__init__(path, request)

    @classmethod
    def sniffed(cls, path: Path, request: ColumnRequest) -> str:
        """Return the separator that the first records have.

        It divides the first record into the requested columns, and all others into as many fields.
        If no separator does both, the first one counts more. A file of one column has commas.
        """
        numbers = [int(number) for number in request.renamed.values() if number.isdecimal()]
        least = max([2, *numbers]) if max(numbers, default=2) > 1 else LONGEST
        ranking: list[tuple[bool, bool, str]] = []
        for separator in SEPARATORS.values():
            records, complete = _beginning(path, separator)
            widths = [len(fields) for fields in records if fields != [""]]
            if widths and widths[0] >= least:
                matches = request.numbered or _has_columns(records[0], request)
                ranking.append((matches, complete and len(set(widths)) == 1, separator))
        best = max(ranking, key=lambda entry: entry[:2], default=(True, True, ","))
        return best[2] if best[0] or best[1] else ","

    def _fields(self) -> Iterator[tuple[int, list[str]]]:
        return _parsed(self.path, self.separator, self._leave_out)


def _raise(error: DataError) -> None:
    raise error


def _parsed(
    path: Path, separator: str, report: Callable[[DataError], None] = _raise
) -> Iterator[tuple[int, list[str]]]:
    """Yield the line and the fields of every record with this separator."""
    if csv.field_size_limit() < LONGEST:
        csv.field_size_limit(LONGEST)
    lines = read_lines(path, keep_ends=True)
    reader = csv.reader(lines, delimiter=separator, strict=True)
    line = 1
    while True:
        try:
            fields = next(reader, None)
        except csv.Error as error:
            name = next(name for name, text in SEPARATORS.items() if text == separator)
            report(
                DataError(
                    f"{path}:{line}: expected {name}-separated values ({error}). Put a field that "
                    f'contains {name}s, line ends or quotation marks in "…", and double each '
                    "quotation mark in it"
                )
            )
        else:
            if fields is None:
                return
            yield line, fields or [""]
        line = reader.line_num + 1


def _beginning(path: Path, separator: str) -> tuple[list[list[str]], bool]:
    """Return the fields of the first records, and whether they could be read without an error."""
    records: list[list[str]] = []
    try:
        records.extend(fields for _, fields in islice(_parsed(path, separator), SNIFFED))
    except DataError:  # reading the file reports it
        return records, False
    return records, True


def _has_columns(header: list[str], request: ColumnRequest) -> bool:
    try:
        match_names(header, request, "", "")
    except DataError:
        return False
    return True


class Spreadsheet(SeparatedTable):
    """The first sheet of an Excel workbook that has cells."""

    suffixes = (".xlsx",)
    advice = "Remove the cells beside the table."
    separator = " | "

    def __init__(self, path: Path, request: ColumnRequest) -> None:
        self._sheet, self.kind = self._first_sheet(path)
        super().__init__(path, request)

    @staticmethod
    def _first_sheet(path: Path) -> tuple[str, str]:
        """Return the name of the sheet to read, and the description of the format."""
        with _workbook(path) as workbook:
            names = workbook.sheet_names
            full = [name for name in names if workbook.get_sheet_by_name(name).height]
        if not full:
            raise DataError(f"{path} has no cells; at least one example is expected")
        others = f", the first of {len(full)}" if len(full) > 1 else ""
        return full[0], f"Excel, sheet {quoted(full[0])}{others}"

    def _fields(self) -> Iterator[tuple[int, list[str]]]:
        with _workbook(self.path) as workbook:
            sheet = workbook.get_sheet_by_name(self._sheet)
            records = ((n, list(map(_cell, cells))) for n, cells in enumerate(sheet.iter_rows(), 1))
            yield from dropwhile(lambda record: not any(record[1]), records)


@contextmanager
def _workbook(path: Path) -> Iterator[Any]:
    try:
        calamine = importlib.import_module("python_calamine")
    except ImportError as error:
        raise DataError(
            f"{path} needs python-calamine to be read; install it with pip install "
            '"saccade-attention[excel]", or save the sheet as .csv'
        ) from error
    try:
        with open_bytes(path) as stream:
            workbook = calamine.load_workbook(BytesIO(stream.read()))
        yield workbook
    except (OSError, calamine.CalamineError, *DAMAGE) as error:
        raise DataError(
            f"{path} is not a complete .xlsx file: {error}; save it again, or as .csv"
        ) from error


def _cell(value: object) -> str:
    """Return the text of a cell; 3.0, the only kind of number that Excel has, is 3."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


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
            try:
                values = texts_of(record, self.match, f"{self.path}:{number}")
            except DataError as error:
                self._leave_out(error)
            else:
                yield number, values

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
        require_line_ends(self.path)
        first_line(self.path)
        return tuple(next((record for _, record in self._objects()), ()))

    def _objects(self) -> Iterator[tuple[int, Record]]:
        blank = 0
        for number, line in enumerate(read_lines(self.path), 1):
            if not line.strip():
                blank = blank or number
                continue
            if blank:
                where = f"{self.path}:{blank}"
                self._leave_out(
                    DataError(f"{where}: expected a JSON object, found a blank line. Remove it.")
                )
                blank = 0
            try:
                record = _json_object(line, f"{self.path}:{number}")
            except DataError as error:
                self._leave_out(error)
            else:
                yield number, record

    def digest(self) -> str:
        """Return a text that also depends on the keys: their order in line 1 does not suffice."""
        return f"{super().digest()} {json.dumps(self.match.found_as)}"


def _json_object(line: str, where: str) -> Record:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: not valid JSON ({error}). Write one object per line.") from error
    if not isinstance(record, dict):
        raise DataError(
            f'{where}: expected a JSON object such as {{"text": "…"}}, found {quoted(line)}. '
            "Write one object per line."
        )
    return record


class Json(KeyedTable):
    """A JSON array of objects, or an object with such an array: {"data": [{…}, …]}."""

    kind = "JSON"
    suffixes = (".json",)

    @classmethod
    def open(cls, path: Path, request: ColumnRequest) -> Table:
        """Open an array; JSON lines if the first line is an object without an array of objects."""
        try:
            record = json.loads(first_line(path))
        except (ValueError, RecursionError):  # also a line that is too long
            record = None
        lines = isinstance(record, dict) and not any(map(is_array_of_objects, record.values()))
        if isinstance(record, dict) and lines and _holds_columns(record, request):
            raise columns_instead_of_rows(path)
        return (Jsonl if lines else cls)(path, request)

    def _names(self) -> tuple[str, ...]:
        return tuple(next((record for _, record in self._objects()), ()))

    def _objects(self) -> Iterator[tuple[int, Record]]:
        return read_objects(self.path)

    def digest(self) -> str:
        """Return a text that also depends on the keys."""
        return f"{super().digest()} {json.dumps(self.match.found_as)}"


def _holds_columns(record: Record, request: ColumnRequest) -> bool:
    """Return whether an object holds columns, not one row: {"text": ["…", …], "label": […]}."""
    values = list(record.values())
    if values and all(isinstance(value, dict) for value in values):
        return True
    lists = not request.sequences and all(isinstance(value, list) for value in values)
    return len(values) > 1 and lists


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
                f'{self.path} needs pyarrow to be read: pip install "saccade-attention[parquet]"; '
                "or save the file as .csv"
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


class Conll(FileTable):
    """CoNLL columns: a word per line with its tag, and a blank line between sentences.

    Columns are separated by tabs, or by spaces if the first word has no tab. Without `--columns`
    the words are in the first column and the tags in the last one. A line that begins with "# " and
    has not as many columns as a word is a comment.
    """

    kind = "CoNLL columns"
    suffixes: ClassVar[tuple[str, ...]] = (".conll", ".bio", ".iob", ".iob2")
    words, tags = 0, -1
    comment = "# "

    def _match(self, request: ColumnRequest) -> ColumnMatch:
        names = [column.name for column in request.required]
        if not request.sequences:
            raise WrongTaskError(
                f"{self.path} has one word per line ({self.kind}), which is for tagging, but "
                f"{' and '.join(names)} are needed. Use .tsv for a table with one example per line"
            )
        first_line(self.path)
        self._tabs, self._width = False, 1
        number, word = self._first_word()
        if not word:
            raise DataError(f"{self.path} has no words; at least one sentence is expected")
        self._tabs = "\t" in word
        self._width = width = len(self._split(word))
        if width < len(names) and not request.renamed:
            raise DataError(
                f"{self.path}:{number}: expected at least {len(names)} columns "
                f"({', '.join(names)}), found {width}. Write each word with its tag after a tab."
            )
        if request.numbered:
            return match_numbers(width, request, str(self.path))
        if request.renamed:
            raise DataError(
                f"{self.path}: the columns of {self.kind} have no names; assign numbers: "
                f"{request.by_numbers()}"
            )
        places = (self.words % width, self.tags % width)
        found_as = tuple(str(place + 1) for place in places)
        return ColumnMatch(request.required, places, found_as, width)

    def _records(self) -> Iterator[tuple[int, tuple[str, ...]]]:
        sentence: list[list[str]] = []
        start = 0
        for number, fields in chain(self._fields(), [(0, [])]):
            if fields:
                start = start or number
                sentence.append(self._values(number, fields))
            elif sentence:
                columns = zip(*sentence, strict=True)
                yield start, tuple(join_elements(column) for column in columns)
                sentence, start = [], 0

    def _values(self, number: int, fields: list[str]) -> list[str]:
        """Return the requested fields of a word, none of which may be empty."""
        if len(fields) != self.match.width:
            advice = "Add the tag" if len(fields) < self.match.width else "Remove the rest"
            raise DataError(
                f"{self.path}:{number}: expected {counted(self.match.width, 'column')}, as in the "
                f"first line, found {len(fields)} in {quoted(' '.join(fields))}. {advice}, and "
                "leave a blank line between sentences only."
            )
        values = [fields[place] for place in self.match.places]
        for name, value in zip(self.columns, values, strict=True):
            if not value.strip():
                raise DataError(
                    f"{self.path}:{number}: {name} is empty in {quoted(' '.join(fields))}. Every "
                    "word needs a tag; write it, or remove the sentence."
                )
        return values

    def _fields(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the line and the fields of every word; of a blank line, none."""
        for number, line in enumerate(read_lines(self.path), 1):
            fields = self._split(line)
            if not line.strip():
                yield number, []
            elif not self._is_skipped(line, len(fields)) and self._is_word(fields):
                yield number, fields

    def _first_word(self) -> tuple[int, str]:
        """Return the number and the text of the first line of a word; (0, "") without one."""
        lines = enumerate(read_lines(self.path), 1)
        words = (one for one in lines if one[1].strip() and not self._is_skipped(one[1]))
        return next(words, (0, ""))

    def _split(self, line: str) -> list[str]:
        return line.split("\t") if self._tabs else line.split()

    def _is_skipped(self, line: str, width: int = 0) -> bool:
        """Return whether a line with so many fields is the beginning of a document or a comment."""
        is_comment = line.startswith(self.comment) and width != self._width
        return is_comment or line.startswith("-DOCSTART-")

    def _is_word(self, fields: list[str]) -> bool:
        return True


class ConllU(Conll):
    """CoNLL-U, as in Universal Dependencies: words in column 2, parts of speech in column 4.

    Comments, ranges of words that are written together (3-4) and empty nodes (3.1) are left out.
    """

    kind = "CoNLL-U"
    suffixes = (".conllu",)
    words, tags = 1, 3
    comment = "#"

    def _is_word(self, fields: list[str]) -> bool:
        return fields[0].isdecimal()


def open_table(path: Path, request: ColumnRequest) -> Table:
    """Open a file of rows in the format that its suffix names.

    Raises:
        DataError: The suffix is unknown, or the file does not have the requested columns.
    """
    kind = FORMATS.get(suffix_of(path))
    if kind is None:
        raise DataError(
            f"{path} has an unknown suffix; expected one of {' '.join(FORMATS)} (also followed by "
            f".gz or .xz). {_other_format(path)}"
        )
    return kind.open(path, request)


def _other_format(path: Path) -> str:
    """Return what to do about a file whose suffix is unknown."""
    if advice := OTHER_FORMATS.get(suffix_of(path)):
        return advice
    beginning = unpacked_name(path).removesuffix(suffix_of(path))
    siblings = sorted(
        file.name
        for file in path.parent.iterdir()
        if file.name.startswith(f"{beginning}.") and file != path and file.is_file()
    )
    if len(siblings) == 1:
        return (
            f"For parallel text, give the common beginning of {path.name} and {siblings[0]}: "
            f"{path.parent / beginning}"
        )
    return "Rename the file, or give the folder or the common beginning of two parallel files"


def texts_of(record: Record, match: ColumnMatch, where: str) -> tuple[str, ...]:
    """Return the requested values of a record as text; `where` names it in error messages."""
    columns = zip(match.found_as, match.columns, strict=True)
    return tuple([_value(record, key, where, column) for key, column in columns])


def _value(record: Record, key: str, where: str, column: Column) -> str:
    """Return a value as text; a list, where a column holds lists, with spaces in between."""
    value = record.get(key)
    if column.label and isinstance(value, list):
        return _labels(value, key, where, column)
    if not column.sequence or not isinstance(value, list):
        return _text(record, key, where, column)
    elements = [
        _text({key: element}, key, f"{where}, element {number}", column)
        for number, element in enumerate(value, 1)
    ]
    for number, element in enumerate(elements, 1):
        if not element.strip():
            raise DataError(
                f"{where}: element {number} of {quoted(key)} is empty. Write it or remove it from "
                "all lists of the row."
            )
    return join_elements(elements)


def _labels(values: list[object], key: str, where: str, column: Column) -> str:
    """Return several labels of a row as one text."""
    if not column.separator:
        raise DataError(
            f"{where}: {quoted(key)} holds a list. For several labels per row, add --set "
            "labels.kind=several; otherwise write one label."
        )
    labels = [_text({key: value}, key, where, column) for value in values]
    for label in labels:
        if column.separator in label:
            raise DataError(
                f"{where}: the label {quoted(label, 30)} contains {quoted(column.separator)}, "
                "which separates labels. Set another separator, such as --set labels.separator='|'"
            )
    return column.separator.join(labels)


def _text(record: Record, key: str, where: str, column: Column) -> str:
    if key not in record:
        keys = ", ".join(map(quoted, record)) or "none"
        raise DataError(f"{where}: expected the key {quoted(key)}, found {keys}. Add it.")
    value, numbers = record[key], column.numbers
    if column.vectors and isinstance(value, list):
        return inline(value, f"{where}: {quoted(key)}")
    if isinstance(value, str):
        if not value.isascii():
            _require_complete(value, key, where)
        return value
    if numbers and isinstance(value, (bool, int)):
        return str(int(value))
    if numbers and isinstance(value, float) and math.isfinite(value):
        return str(value)
    expected = "text or a number" if numbers else "text"
    if column.vectors:
        expected = "a list of vectors or the path of a vector file"
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
