"""The bytes of images and vectors: in files, zip and IDX files, which are never unpacked.

    photos/cat.jpg                       a file
    photos.zip/pets/cat.jpg              a file inside a zip
    train-images-idx3-ubyte.gz/17        image 17, from 0, of an IDX file (the format of MNIST)

IDX: two zero bytes, 8 for unsigned bytes, the number of axes, each axis as four bytes, the values.
"""

import hashlib
import math
import os
import re
import stat
import struct
import time
import zipfile
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from threading import Lock

import numpy as np
import numpy.typing as npt

from saccade.data import builtin
from saccade.data.sources.text_files import DAMAGE, file_digest, open_bytes, unreadable
from saccade.data.threads import in_threads
from saccade.errors import DataError

Pixels = npt.NDArray[np.uint8]

MOST_BYTES = 200_000_000  # of the file of one image, or of one inside a zip
MOST_VALUES = 2**30  # of an IDX file, which is held in memory
ZIP, NPZ = ".zip", ".npz"
IDX = re.compile(r"idx\d-ubyte(\.gz|\.xz)?$", re.IGNORECASE)
CONTAINERS = re.compile(r"\.(?:zip|npz)[/\\]|idx\d-ubyte(\.gz|\.xz)?[/\\]", re.IGNORECASE)
ENCRYPTED = 0x1  # flag of a zip member
SETTLED = 2_000_000_000  # nanoseconds after which a change of a file shows in its time


def is_idx(path: str | Path) -> bool:
    """Return whether a name is that of an IDX file, such as `train-images-idx3-ubyte.gz`."""
    return IDX.search(str(path)) is not None


def locate(where: str) -> tuple[str, str]:
    """Return the file, and the name inside it; "" means the file itself."""
    if CONTAINERS.search(where) and not os.path.exists(where):
        outer = os.path.dirname(where)
        while outer and not os.path.exists(outer) and os.path.dirname(outer) != outer:
            outer = os.path.dirname(outer)
        if os.path.isfile(outer):
            return outer, where[len(outer) + 1 :].replace("\\", "/")
    return where, ""


def exists(where: str) -> bool:
    """Return whether there is such a file, or such a name inside one."""
    file, inner = locate(where)
    if not inner:
        return os.path.isfile(file)
    if file.lower().endswith((ZIP, NPZ)):
        names = open_zip(file)
        return inner in names or (file.lower().endswith(NPZ) and f"{inner}.npy" in names)
    return is_idx(file) and _number(inner) < len(read_idx(file, 3))


def read_bytes(where: str) -> bytes:
    """Return the bytes of an image or vector file, on the disk or in a zip.

    Raises:
        DataError: The file is missing, too large, not a regular file, or cannot be read.
    """
    file, inner = locate(where)
    if inner:
        if not file.lower().endswith((ZIP, NPZ)):
            raise DataError(
                f"{where} does not exist: {file} is a file, neither a folder nor a .zip; "
                "correct the path"
            )
        return open_zip(file).read(inner)
    try:
        about = os.stat(file)
        if stat.S_ISDIR(about.st_mode):
            raise DataError(f"{where} is a folder; a file is expected")
        if not stat.S_ISREG(about.st_mode):
            raise DataError(f"{where} is neither a file nor a folder; a file is expected")
        if about.st_size > MOST_BYTES:
            raise _too_large(where, about.st_size)
        with open(file, "rb") as stream:
            return stream.read(MOST_BYTES)
    except DataError:
        raise
    except FileNotFoundError as error:
        raise DataError(f"{where} does not exist; check the path") from error
    except (OSError, ValueError) as error:  # ValueError: an impossible file name
        raise unreadable(where, error) from error


def idx_image(file: str, inner: str) -> Pixels:
    """Return the image (h, w) of this number in an IDX file."""
    images = read_idx(file, 3)
    number = _number(inner)
    if number >= len(images):
        raise DataError(f"{file}/{inner} does not exist; its images are 0 to {len(images) - 1}")
    return images[number]


class ZipReader:
    """The files inside a zip, by their names with /."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._file = zipfile.ZipFile(path)
        except Exception as error:  # the damage decides which
            raise DataError(
                f"{path} is not a complete zip file: {error}; copy or pack it again"
            ) from error
        self._members = {
            info.filename.replace("\\", "/"): info
            for info in self._file.infolist()
            if not info.is_dir() and not _escapes(info.filename)
        }

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all files."""
        return tuple(self._members)

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def read(self, name: str) -> bytes:
        """Return the bytes of one file."""
        where, info = f"{self.path}/{name}", self._members.get(name)
        if _escapes(name):
            raise DataError(
                f"{where}: a name inside a zip must not begin with / or contain ..; "
                "give the name as the zip lists it"
            )
        if info is None:
            inner = " (a zip inside a zip is not read)" if f"{ZIP}/" in name.lower() else ""
            raise DataError(f"{self.path} contains no {name}{inner}; check the name")
        if info.flag_bits & ENCRYPTED:
            raise DataError(f"{where} is encrypted; unpack it with its password")
        if info.file_size > MOST_BYTES:
            raise _too_large(where, info.file_size)
        try:
            with self._file.open(info) as stream:
                return stream.read(MOST_BYTES)
        except Exception as error:  # each compression has its own errors
            raise DataError(f"{where} cannot be unpacked: {error}; pack the zip again") from error


def open_zip(path: str | Path) -> ZipReader:
    """Return the zip, which stays open: its list of names is read once."""
    with _lock:
        return _open_zip(str(path), os.getpid(), *_version(path))


def read_idx(path: str | Path, axes: int) -> Pixels:
    """Return all values of an IDX file with this number of axes; they stay in memory."""
    with _lock:
        return _read_idx(str(path), axes, *_version(path))


def digest_of_files(names: Iterable[str | Path], *, workers: int = 4) -> str:
    """Return a SHA-256 of the contents of images or vector files in this order, wherever they are.

    A file in a zip or an IDX file counts by the bytes of that file and its name inside; a
    built-in one by its name and the code that generates it.
    """
    paths = map(str, names)
    places = [("", path) if path.startswith(builtin.PREFIX) else locate(path) for path in paths]
    files = list(dict.fromkeys(file for file, _ in places))
    digests = dict(zip(files, in_threads(_content, files, workers), strict=True))
    digest = hashlib.sha256()
    for file, inner in places:
        digest.update(f"{digests[file]}\0{inner}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()


_lock = Lock()  # otherwise two threads would unpack the same file


@lru_cache(maxsize=8)
def _open_zip(path: str, process: int, size: int, changed: int) -> ZipReader:
    return ZipReader(path)


@lru_cache(maxsize=4)
def _read_idx(path: str, axes: int, size: int, changed: int) -> Pixels:
    try:
        with open_bytes(Path(path)) as stream:
            head = stream.read(4 + 4 * axes)
            if head[:4] != bytes((0, 0, 8, axes)) or len(head) < 4 + 4 * axes:
                raise DataError(
                    f"{path} is not an IDX file of bytes with {axes} axes; "
                    "download or copy it again"
                )
            shape: tuple[int, ...] = struct.unpack(f">{axes}I", head[4:])
            total = math.prod(shape)
            if total > MOST_VALUES:
                raise DataError(f"{path} has {total:,} values; the limit is {MOST_VALUES:,}")
            values = np.empty(total, np.uint8)
            filled, view = 0, values.data
            while filled < total and (more := stream.readinto(view[filled:])):
                filled += more
            if filled < total or stream.read(1):
                actual = f"only {filled:,}" if filled < total else "more"
                raise DataError(
                    f"{path} is damaged or incomplete: it announces {total:,} values and holds "
                    f"{actual}; copy it again"
                )
    except (OSError, *DAMAGE) as error:
        raise DataError(f"{path} is damaged or cannot be read: {error}; copy it again") from error
    return values.reshape(shape)


def _content(file: str) -> str:
    """Return the digest of a file's bytes, from memory if it has not changed since."""
    if not file:
        return builtin.code_digest()
    size, changed = _version(file)
    if time.time_ns() - changed < SETTLED:
        return file_digest(Path(file))
    return _settled_content(file, size, changed)


@lru_cache(maxsize=2**18)
def _settled_content(file: str, size: int, changed: int) -> str:
    return file_digest(Path(file))


def _version(path: str | Path) -> tuple[int, int]:
    """Return the size of a file, and the last time when its content or place changed."""
    try:
        about = os.stat(path)
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error
    return about.st_size, max(about.st_mtime_ns, about.st_ctime_ns)


def _escapes(name: str) -> bool:
    """Return whether a name leads out of its folder: it is absolute or contains `..`."""
    parts = name.replace("\\", "/").split("/")
    return parts[0] == "" or ".." in parts


def _number(inner: str) -> int:
    """Return the number of an image, or one that no file holds."""
    return int(inner) if inner.isascii() and inner.isdecimal() and len(inner) < 12 else MOST_VALUES


def _too_large(where: str, size: int) -> DataError:
    return DataError(f"{where} has {size:,} bytes; such a file may have at most {MOST_BYTES:,}")
