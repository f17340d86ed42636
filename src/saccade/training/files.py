"""Writing so that a crash at any moment leaves the old file or the new one, never half of one."""

import contextlib
import errno
import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from saccade.errors import DiskFullError, RunError
from saccade.files import Fingerprint

PARTIAL = ".partial-"
"""What is not yet whole has a name that begins with this."""
FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))


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
