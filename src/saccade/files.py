"""Read files that may be damaged or hostile; write files that a crash never leaves half done.

Only regular files are read: opening a pipe waits for ever, and a device has no end. What is read
as a whole has a largest size. Every fault is an `OSError` or a `ValueError` with its reason.
"""

import contextlib
import errno
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from saccade.errors import DiskFullError, RunError

LARGEST = 128 * 2**20
"""Bytes of a file that is read as a whole: twice the largest vocabularies there are."""
PIECE = 2**20
"""Bytes that are read at a time where a file is not needed as a whole."""
PARTIAL = ".partial-"
"""Prefix of the names of files and folders that are not complete yet."""
FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@dataclass(frozen=True)
class Fingerprint:
    """The size and SHA-256 of a file, by which damage is found."""

    bytes: int
    sha256: str

    @classmethod
    def of(cls, table: Any) -> "Fingerprint":
        """From plain values, as a manifest holds them."""
        size, digest = table["bytes"], table["sha256"]
        if type(size) is not int or not isinstance(digest, str) or len(table) != 2:
            raise ValueError(f"{table!r:.80} is not a size and a SHA-256")
        return cls(size, digest)

    def plain(self) -> dict[str, Any]:
        """As a manifest holds it."""
        return asdict(self)


def open_file(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file for reading; an OSError for anything else, without waiting."""
    _require_regular(os.stat(path).st_mode, path)
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags)
    try:
        _require_regular(os.fstat(handle).st_mode, path)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_file(path: str | os.PathLike[str], largest: int = LARGEST) -> bytes:
    """The content of a regular file of at most `largest` bytes."""
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        content = file.read(largest + 1) if size <= largest else b""
    if size > largest or len(content) > largest:
        raise OSError(
            errno.EFBIG, f"it has {size:,} bytes, at most {largest:,} are read", os.fspath(path)
        )
    return content


def read_text(path: str | os.PathLike[str], largest: int = LARGEST) -> str:
    """The text of a regular file in UTF-8."""
    return read_file(path, largest).decode()


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text; a ValueError also if it is nested deeper than Python can follow."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_json(path: str | os.PathLike[str], largest: int = LARGEST) -> Any:
    """The value in a JSON file."""
    return parse_json(read_file(path, largest))


def fingerprint(path: str | os.PathLike[str]) -> Fingerprint:
    """The size and SHA-256 of a regular file, which is read in pieces."""
    digest, size = hashlib.sha256(), 0
    with open_file(path) as file:
        while piece := file.read(PIECE):
            digest.update(piece)
            size += len(piece)
    return Fingerprint(size, digest.hexdigest())


def _require_regular(mode: int, path: str | os.PathLike[str]) -> None:
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        raise OSError(errno.EINVAL, f"it is {kind}, not a regular file", os.fspath(path))


@contextlib.contextmanager
def room_on_disk(path: Path, kept: str) -> Iterator[None]:
    """A full disk, or one that refuses, becomes an error that says what was `kept`."""
    try:
        yield
    except DiskFullError:
        raise
    except OSError as error:
        if error.errno in FULL:
            raise DiskFullError(
                errno.ENOSPC, f"the disk is full: {path} could not be written; {kept}"
            ) from error
        raise RunError(
            f"{path} could not be written ({error.strerror or error}); {kept}"
        ) from error


def write_file(path: Path, content: bytes) -> None:
    """Put `content` there in one go: a temporary file, synced, renamed, the folder synced."""
    partial = path.with_name(f"{PARTIAL}{os.getpid()}-{path.name}")
    try:
        write_synced(partial, content)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    sync_folder(path.parent)


def write_synced(path: Path, content: bytes | Iterable[bytes | memoryview]) -> Fingerprint:
    """Write a new file, as a whole or in pieces, and wait until the disk has it."""
    digest, size = hashlib.sha256(), 0
    with path.open("wb") as file:
        for piece in [content] if isinstance(content, bytes) else content:
            size += file.write(piece)
            digest.update(piece)
        file.flush()
        os.fsync(file.fileno())
    return Fingerprint(size, digest.hexdigest())


def sync_folder(folder: Path) -> None:
    """Wait until the disk has the names in a folder (Windows cannot; it is left out there)."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_partial(folder: Path) -> None:
    """Clear what an interrupted write left behind."""
    for path in folder.glob(f"{PARTIAL}*"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
