"""Files that may be damaged or hostile, read; files and folders that a crash cannot tear, written.

Reading: only regular files are opened, since opening a pipe blocks and a device has no end. A file
that is read in one piece has a largest size. Every fault is an `OSError` or a `ValueError` with its
reason.

Writing: `atomic_file`, `atomic_folder` and `write_file` write under a temporary name, sync, rename
and sync the parent folder. A reader sees the old content or the new, never a part. A full disk
raises `DiskFullError`, any other fault of the disk `WriteError`.
"""

import errno
import glob
import hashlib
import json
import os
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from saccade.errors import DiskFullError, WriteError

LARGEST = 128 * 2**20
"""Bytes of a file that is read in one piece: twice the largest vocabularies there are."""
PIECE = 2**20
"""Bytes that are read at a time where a file is read in pieces."""
PARTIAL = ".partial-"
"""Prefix of the names of files and folders that are not complete yet."""
WAITING = ".waiting-"
"""Prefix of the name of a folder while another takes its place."""
KEPT = "what was there before is kept"
"""Part of an error about the old content, unless the caller knows better."""

Content = bytes | Iterable[bytes | memoryview]
"""The content of a file, in one piece or in several."""

_TOKEN = secrets.token_hex(4)
_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@dataclass(frozen=True)
class Fingerprint:
    """The size and SHA-256 of a file, by which damage is detected."""

    bytes: int
    sha256: str

    @classmethod
    def from_json(cls, table: Any) -> "Fingerprint":
        """Return the fingerprint that a manifest holds; a ValueError or KeyError if it is not one.

        >>> Fingerprint.from_json({"bytes": 3, "sha256": "ba78"})
        Fingerprint(bytes=3, sha256='ba78')
        """
        size, digest = table["bytes"], table["sha256"]
        if type(size) is not int or type(digest) is not str or len(table) != 2:
            raise ValueError(f"{table!r:.80} is not a size and a SHA-256")
        return cls(size, digest)

    def to_json(self) -> dict[str, int | str]:
        """Return the table that a manifest holds."""
        return asdict(self)


def open_file(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file for reading; an OSError for anything else, without blocking."""
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
    """Return the content of a regular file; an OSError if it has more than `largest` bytes."""
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        content = file.read(largest + 1) if size <= largest else b""
    if size > largest or len(content) > largest:
        raise OSError(
            errno.EFBIG, f"it has {size:,} bytes, at most {largest:,} are read", os.fspath(path)
        )
    return content


def read_text(path: str | os.PathLike[str], largest: int = LARGEST) -> str:
    """Return the text of a regular file in UTF-8."""
    return read_file(path, largest).decode()


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text; a ValueError also if it is nested too deeply for Python."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_json(path: str | os.PathLike[str], largest: int = LARGEST) -> Any:
    """Return the value in a JSON file."""
    return parse_json(read_file(path, largest))


def fingerprint(path: str | os.PathLike[str]) -> Fingerprint:
    """Return the size and SHA-256 of a regular file, which is read in pieces."""
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


def user_cache() -> Path:
    """Return the user's folder of encoded data and of engines whose run is not writable."""
    return Path.home() / ".cache" / "saccade"


def disk_full(error: OSError) -> bool:
    """Return whether an error means that the disk, or the user's quota of it, is full."""
    return error.errno in _FULL


@contextmanager
def disk_errors(path: Path, kept: str = KEPT) -> Iterator[None]:
    """Raise errors of the disk as `DiskFullError` or `WriteError`.

    Args:
        path: the file or folder that is being written, for the message.
        kept: part of the error, about the old content.
    """
    try:
        yield
    except WriteError:
        raise
    except OSError as error:
        if disk_full(error):
            raise DiskFullError(
                errno.ENOSPC,
                f"the disk is full: {path} could not be written; {kept}. Free some space and try "
                "again",
            ) from error
        raise WriteError(
            error.errno, f"{path} could not be written ({error.strerror or error}); {kept}"
        ) from error


@contextmanager
def atomic_file(path: Path, kept: str = KEPT) -> Iterator[Path]:
    """Give a temporary path to write a file at; it becomes `path` when the block ends.

    If the block raises, `path` stays as it was.

    Args:
        path: where the file is to be.
        kept: part of an error, about the old content.

    Raises:
        DiskFullError: if the disk is full.
        WriteError: if the disk fails in another way.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> with atomic_file(folder / "x.txt") as partial:
        ...     _ = partial.write_text("all of it")
        >>> [path.name for path in folder.iterdir()]
        ['x.txt']
    """
    partial = _partial(path)
    try:
        with disk_errors(path, kept):
            yield partial
            _sync(partial)
            os.replace(partial, path)
            sync_folder(path.parent)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path, kept: str = KEPT) -> Iterator[Path]:
    """Give an empty temporary folder; with all its files it becomes `path` when the block ends.

    A folder that was there is replaced. A process that dies in between leaves it under another
    name, from which `clean_up` restores it. If the block raises, `path` stays as it was.

    Args:
        path: where the folder is to be.
        kept: part of an error, about the old content.

    Raises:
        DiskFullError: if the disk is full.
        WriteError: if the disk fails in another way.
    """
    partial, waiting = _partial(path), path.with_name(f"{WAITING}{path.name}")
    try:
        with disk_errors(path, kept):
            _settle(waiting)
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            yield partial
            for folder, _, names in os.walk(partial, topdown=False):
                for name in names:
                    _sync(Path(folder, name))
                sync_folder(Path(folder))
            if path.exists():
                os.replace(path, waiting)
            os.replace(partial, path)
            sync_folder(path.parent)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        _settle(waiting)


def write_file(path: Path, content: Content, kept: str = KEPT) -> Fingerprint:
    """Write a file as `atomic_file` does."""
    with atomic_file(path, kept) as partial:
        return write_pieces(partial, content)


def write_pieces(path: Path, content: Content) -> Fingerprint:
    """Write a file that needs no temporary name, because its folder or itself has one."""
    digest, size = hashlib.sha256(), 0
    with path.open("wb") as file:
        for piece in [content] if isinstance(content, bytes) else content:
            size += file.write(piece)
            digest.update(piece)
    return Fingerprint(size, digest.hexdigest())


def sync_folder(folder: Path) -> None:
    """Wait until the disk has the names in a folder (left out on Windows, which cannot)."""
    if os.name != "nt":
        _sync(folder)


def clean_up(folder: Path, name: str | None = None) -> None:
    """Remove what interrupted writes left in a folder, and restore what they were replacing.

    Only for the process that holds the folder's lock: it removes what others are writing, too.

    Args:
        folder: where files and folders are written.
        name: clean up after this file or folder only.
    """
    ending = "*" if name is None else f"*-{glob.escape(name)}"
    for path in folder.glob(f"{PARTIAL}{ending}"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    for waiting in folder.glob(f"{WAITING}{'*' if name is None else glob.escape(name)}"):
        _settle(waiting)


def _settle(waiting: Path) -> None:
    """Remove a folder that was replaced; if the new one never came, restore it."""
    if not waiting.exists():
        return
    final = waiting.with_name(waiting.name.removeprefix(WAITING))
    if final.exists():
        shutil.rmtree(waiting, ignore_errors=True)
    else:
        os.replace(waiting, final)


def _partial(path: Path) -> Path:
    # the token differs between machines, whose processes may have the same number
    return path.with_name(f"{PARTIAL}{os.getpid()}-{_TOKEN}-{path.name}")


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
