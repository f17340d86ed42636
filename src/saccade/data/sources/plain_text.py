"""Plain text: two parallel files whose lines are pairs, and files that are documents."""

import logging
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

from saccade.data.corpus import Row, Table
from saccade.data.sources.columns import ColumnRequest, counted, listed
from saccade.data.sources.languages import language_code
from saccade.data.sources.text_files import (
    PACKED,
    file_digest,
    first_line,
    read_lines,
    unpacked_name,
)
from saccade.errors import DataError

PARTS = 50  # least number of parts, so that a small text can also be split
SMALLEST, LARGEST = 256, 4096  # bytes of a part
log = logging.getLogger(__name__)


class ParallelText(Table):
    """Two files of the same length whose lines are pairs."""

    def __init__(self, first: Path, second: Path, request: ColumnRequest) -> None:
        self.paths, self.columns = (first, second), request.required_pair
        codes = [language_code(unpacked_name(path).rpartition(".")[2]) for path in self.paths]
        self.languages = (codes[0], codes[1]) if all(codes) else None
        for path in self.paths:
            first_line(path)

    def rows(self) -> Iterator[Row]:
        """Yield all pairs; an empty line is an empty value."""
        first, second = self.paths
        file = str(first)
        pairs = zip_longest(read_lines(first), read_lines(second))
        for number, (source, target) in enumerate(pairs, 1):
            if source is None or target is None:
                longer = number + sum(1 for _ in pairs)
                lines = (number - 1, longer) if source is None else (longer, number - 1)
                raise DataError(
                    f"{first} has {counted(lines[0], 'line')}, {second.name} has "
                    f"{counted(lines[1], 'line')}; parallel text needs the same number of lines "
                    "in both files, with line i of one translating line i of the other"
                )
            yield Row((source, target), number, file)

    def digest(self) -> str:
        """Return a text that depends on the bytes of both files."""
        return "parallel " + " ".join(map(file_digest, self.paths))

    def describe(self) -> str:
        """Return a text such as: train.en + train.de (parallel text)."""
        return " + ".join(path.name for path in self.paths) + " (parallel text)"

    def meaning(self) -> str:
        """Return a text such as: source = en, target = de, and how to swap them."""
        languages = [unpacked_name(path).rpartition(".")[2] for path in self.paths]
        pairs = zip(self.columns, languages, strict=True)
        assignments = ", ".join(f"{name} = {language}" for name, language in pairs)
        return f"{assignments} (the other way: --pair {languages[1]}-{languages[0]})"


class Document(Table):
    """The text of one file, in parts that end at line ends.

    The parts joined are the text, with \\n for \\r\\n. A part holds complete lines of together at
    most `size` bytes, or one line that is longer.
    """

    running = True

    def __init__(self, path: Path, request: ColumnRequest, size: int) -> None:
        self.path, self.size, self.columns = path, size, (request.required[0].name,)

    def rows(self) -> Iterator[Row]:
        """Yield every part with its first line; only one part is in memory."""
        file = str(self.path)
        part: list[str] = []
        first, filled = 1, 0
        for number, line in enumerate(_lines(self.path), 1):
            width = len(line.encode())
            if part and filled + width > self.size:
                yield Row(("".join(part),), first, file)
                part, first, filled = [], number, 0
            part.append(line)
            filled += width
        yield Row(("".join(part),), first, file)

    def digest(self) -> str:
        """Return a text that depends on the size of the parts and the bytes of the file."""
        return f"document {self.size} {file_digest(self.path)}"

    def describe(self) -> str:
        """Return a text such as: book.txt (plain text, one document)."""
        return f"{self.path.name} (plain text, one document)"

    def meaning(self) -> str:
        """Return a text such as: text = running text."""
        return f"{self.columns[0]} = running text"


class Documents(Table):
    """The texts of several files of a folder, in order; empty files are left out."""

    running = True

    def __init__(self, folder: Path, files: Sequence[Path], request: ColumnRequest) -> None:
        empty = {path for path in files if _is_empty(path)}
        full = [path for path in files if path not in empty]
        names = listed(sorted(path.name for path in empty))
        reason = f"{names} {'is' if len(empty) == 1 else 'are'} empty"
        if not full:
            raise DataError(f"{folder} holds no text: {reason}; add a file with text")
        if empty:
            log.warning("left out of %s: %s", folder, reason)
        size = _part_size(full)
        self.folder, self.columns = folder, (request.required[0].name,)
        self.documents = [Document(path, request, size) for path in full]

    def rows(self) -> Iterator[Row]:
        """Yield every part of every document."""
        for document in self.documents:
            yield from document.rows()

    def digest(self) -> str:
        """Return a text that depends on the names in the folder and on the documents."""
        return "\0".join(f"{document.path.name} {document.digest()}" for document in self.documents)

    def describe(self) -> str:
        """Return a text such as: 12 files of text in corpus/train."""
        return f"{counted(len(self.documents), 'file')} of text in {self.folder}"

    def meaning(self) -> str:
        """Return a text such as: text = running text, one document per file."""
        return f"{self.columns[0]} = running text, one document per file"


def open_document(path: Path, request: ColumnRequest) -> Document:
    """Open one file as a document; raise a DataError if it is empty."""
    if _is_empty(path):
        raise DataError(f"{path} is empty; text is expected")
    return Document(path, request, _part_size([path]))


def _part_size(files: Sequence[Path]) -> int:
    """Return the bytes of a part, fewer for little text; packed files count as large."""
    if any(path.suffix in PACKED for path in files):
        return LARGEST
    total = sum(path.stat().st_size for path in files)
    return min(max(total // PARTS, SMALLEST), LARGEST)


def _is_empty(path: Path) -> bool:
    return not any(_lines(path))


def _lines(path: Path) -> Iterator[str]:
    """Yield every line with its end, which is always \\n."""
    for line in read_lines(path, keep_ends=True):
        yield line.replace("\r\n", "\n")
