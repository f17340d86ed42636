"""Text files line by line: plain, .gz or .xz, in UTF-8, with errors that name file and line.

Only \\n and \\r\\n end a line. (`str.splitlines` would also split at U+2028, \\x0b and others, and
parallel files would get out of step.)
"""

import gzip
import lzma
import zlib
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path

from saccade.errors import DataError
from saccade.files import fingerprint

LONGEST = 2**24  # bytes of a line: a longer one is hardly text and would fill the memory
PACKED = (".gz", ".xz")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # some editors put it before UTF-8
UTF_16_CHECKED = 64  # bytes in which every second one is zero
DAMAGE = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError)
OTHER_KINDS = {
    b"\x1f\x8b": "compressed with gzip; its name must end in .gz",
    b"\xfd7zXZ\x00": "compressed with xz; its name must end in .xz",
    b"PK\x03\x04": "a zip archive or a spreadsheet; unpack it, or let its name end in .xlsx",
    b"\x28\xb5\x2f\xfd": "compressed with zstd; use gzip or xz",
    b"BZh": "compressed with bzip2; use gzip or xz",
    b"PAR1": "a Parquet file; its name must end in .parquet",
    b"\x89PNG": "an image; use a file of text",
    b"\xff\xd8\xff": "an image; use a file of text",
    b"%PDF-": "a PDF document; save its text as .txt",
    b"\x7fELF": "a program; use a file of text",
    b"\xff\xfe": "UTF-16 text; save it as UTF-8",
    b"\xfe\xff": "UTF-16 text; save it as UTF-8",
}


def unpacked_name(path: Path) -> str:
    """Return the name of a file without .gz or .xz."""
    return path.stem if path.suffix in PACKED else path.name


def suffix_of(path: Path) -> str:
    """Return the suffix that names the format, without .gz or .xz: `.tsv`."""
    return Path(unpacked_name(path)).suffix.lower()


def open_bytes(path: Path) -> BufferedIOBase:
    """Open a file for reading bytes, unpacked if its name ends in .gz or .xz."""
    if path.suffix == ".gz":
        return gzip.open(path, "rb")
    if path.suffix == ".xz":
        return lzma.open(path, "rb")
    return open(path, "rb")


def read_lines(path: Path, *, keep_ends: bool = False) -> Iterator[str]:
    """Yield the lines of a text file.

    Args:
        path: The file, which may be packed (.gz, .xz).
        keep_ends: Whether lines keep their line end.

    Raises:
        DataError: The file cannot be read, is not UTF-8, or is not text; names the line.
    """
    with _opened(path) as (stream, count):
        for raw in iter(lambda: stream.readline(LONGEST + 1), b""):
            count(1)
            if len(raw) > LONGEST:
                raise DataError(
                    f"{path}:{count(0)}: longer than {LONGEST:,} bytes; a text file with one "
                    "example per line is expected"
                )
            if count(0) == 1:
                _require_text(path, raw)
                raw = raw.removeprefix(BYTE_ORDER_MARK)  # noqa: PLW2901
            if not keep_ends:
                raw = raw[:-2] if raw.endswith(b"\r\n") else raw.removesuffix(b"\n")  # noqa: PLW2901
            yield raw.decode()


def read_chunks(path: Path, size: int = 2**16) -> Iterator[str]:
    """Yield the text of a file in parts that end anywhere; raise as `read_lines` does."""
    decoder = getincrementaldecoder("utf-8-sig")()
    with _opened(path) as (stream, count):
        for raw in iter(lambda: stream.read(size), b""):
            if not count(0):
                count(1)
                _require_text(path, raw)
            yield decoder.decode(raw)
            count(raw.count(b"\n"))
        yield decoder.decode(b"", final=True)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[BufferedIOBase, Callable[[int], int]]]:
    """Open a file, with a counter of lines by which errors of reading are reported."""
    number = 0

    def count(lines: int) -> int:
        nonlocal number
        number += lines
        return number

    try:
        with open_bytes(path) as stream:
            yield stream, count
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}:{number}: not UTF-8 at byte offset {error.start} of the line "
            f"(0x{error.object[error.start]:02x}); save the file as UTF-8 (in Excel: CSV UTF-8) "
            f"or convert it: iconv -f WINDOWS-1252 -t UTF-8 {path.name} > utf8-{path.name}"
        ) from error
    except DAMAGE as error:
        raise DataError(
            f"{path}:{number}: damaged or incomplete: it can be unpacked up to line {number} only "
            f"({error}); copy or pack it again"
        ) from error
    except OSError as error:
        raise unreadable(path, error) from error


def first_line(path: Path) -> str:
    """Return the first line; raise a DataError if the file is empty."""
    for line in read_lines(path):
        return line
    raise empty_file(path)


def require_line_ends(path: Path) -> None:
    """Raise a DataError if a table has carriage returns in place of line ends, as on old Macs."""
    line = next(read_lines(path, keep_ends=True), "")
    if line.count("\r") > 1 and "\n" not in line:
        raise DataError(
            f"{path} ends its lines with carriage returns (\\r) alone; save it with line feeds "
            "(\\n)"
        )


def empty_file(path: Path) -> DataError:
    """Return the error of a file without content."""
    return DataError(
        f"{path} is empty; at least one example is expected. Check the path, or write the file "
        "again"
    )


def file_digest(path: Path) -> str:
    """Return the SHA-256 of the bytes on disk."""
    try:
        return fingerprint(path).sha256
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: str | Path, error: OSError | ValueError) -> DataError:
    """Return the error to raise for a file that the system refuses to read."""
    if isinstance(error, FileNotFoundError):
        return DataError(f"{path} does not exist; check the path")
    return DataError(
        f"{path} cannot be read: {getattr(error, 'strerror', None) or error}; "
        "check the path and its permissions"
    )


def _require_text(path: Path, raw: bytes) -> None:
    for beginning, kind in OTHER_KINDS.items():
        if raw.startswith(beginning):
            raise DataError(f"{path} is not plain text but {kind}; give a text file")
    halves = raw[:UTF_16_CHECKED]
    if len(halves) > 1 and max(halves[::2].count(0), halves[1::2].count(0)) > len(halves) // 4:
        raise DataError(f"{path} is not plain text but UTF-16 without a mark; save it as UTF-8")
