"""Running text: a file of plain text is a document, given in parts that end at line ends."""

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

from saccade.data.corpus import Row
from saccade.data.sources.columns import Column, counted, some
from saccade.data.sources.text_files import PACKED, file_digest, read_lines
from saccade.errors import DataError

PARTS = 50  # at least about as many, so that a small text too can be divided
SMALLEST, LARGEST = 256, 4096  # bytes in a part
log = logging.getLogger(__name__)


class Document:
    """The text of one file; its parts joined are the text, with \\n for \\r\\n.

    A part holds whole lines, together at most `size` bytes, or one line that is longer.
    """

    running = True

    def __init__(self, path: Path, column: Column, size: int) -> None:
        self.path, self.size, self.columns = path, size, (column.name,)

    def rows(self) -> Iterator[Row]:
        """Every part, with its first line; only one part is in memory."""
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
        """Of the size of the parts and of the bytes of the file."""
        return f"document {self.size} {file_digest(self.path)}"

    def describe(self) -> str:
        """As in: book.txt (plain text, one document)."""
        return f"{self.path.name} (plain text, one document)"

    def meaning(self) -> str:
        """As in: text = running text."""
        return f"{self.columns[0]} = running text"


class Documents:
    """The text of several files of a folder, in their order; empty files are left out."""

    running = True

    def __init__(self, folder: Path, files: Sequence[Path], column: Column) -> None:
        empty = {path for path in files if _is_empty(path)}
        full = [path for path in files if path not in empty]
        names = some(sorted(path.name for path in empty))
        said = f"{names} {'is' if len(empty) == 1 else 'are'} empty"
        if not full:
            raise DataError(f"{folder} holds no text: {said}")
        if empty:
            log.warning("left out of %s: %s", folder, said)
        size = _part_size(full)
        self.folder, self.columns = folder, (column.name,)
        self.documents = [Document(path, column, size) for path in full]

    def rows(self) -> Iterator[Row]:
        """Every part of every document."""
        for document in self.documents:
            yield from document.rows()

    def digest(self) -> str:
        """Of the names in the folder and of the documents."""
        return "\0".join(f"{each.path.name} {each.digest()}" for each in self.documents)

    def describe(self) -> str:
        """As in: 12 files of text in corpus/train."""
        return f"{counted(len(self.documents), 'file')} of text in {self.folder}"

    def meaning(self) -> str:
        """As in: text = running text, a document a file."""
        return f"{self.columns[0]} = running text, a document a file"


def open_document(path: Path, column: Column) -> Document:
    """One file alone; an empty one is an error."""
    if _is_empty(path):
        raise DataError(f"{path} is empty; text is expected")
    return Document(path, column, _part_size([path]))


def _part_size(files: Sequence[Path]) -> int:
    """Bytes in a part: small for little text. What is packed in a file is not known."""
    if any(path.suffix in PACKED for path in files):
        return LARGEST
    total = sum(path.stat().st_size for path in files)
    return min(max(total // PARTS, SMALLEST), LARGEST)


def _is_empty(path: Path) -> bool:
    """Whether the file has no text, not even a blank line."""
    return not any(_lines(path))


def _lines(path: Path) -> Iterator[str]:
    """Every line with its end, which is always \\n."""
    for line in read_lines(path, keep_ends=True):
        yield line.replace("\r\n", "\n")
