"""Where the bytes of images lie: in files, in zips and in IDX files, which are never unpacked.

    photos/cat.jpg                       a file
    photos.zip/pets/cat.jpg              a file inside a zip
    train-images-idx3-ubyte.gz/17        the image of that number, from 0, in an IDX file (MNIST's)

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
from typing import Any

import numpy as np
import numpy.typing as npt

from saccade.data.sources.text_files import DAMAGE, file_digest, open_bytes
from saccade.data.threads import in_threads
from saccade.errors import DataError

Pixels = npt.NDArray[np.uint8]

MOST_BYTES = 200_000_000  # in the file of one image
MOST_VALUES = 2**30  # in an IDX file, which is held in memory
ENDINGS = (
    *(".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".gif", ".bmp", ".webp", ".tif", ".tiff"),
    *(".ppm", ".pgm", ".pbm", ".pnm"),
)
"""How files of images end."""
ZIP = ".zip"
IDX = re.compile(r"idx\d-ubyte(\.gz|\.xz)?$", re.IGNORECASE)
CONTAINERS = re.compile(r"\.zip[/\\]|idx\d-ubyte(\.gz|\.xz)?[/\\]", re.IGNORECASE)
ENCRYPTED = 0x1  # the bit of a zip's member
SETTLED = 2_000_000_000  # nanoseconds after which a file that changes has another time
BUILTIN = "builtin:"


def is_idx(path: str | Path) -> bool:
    """Whether the name is that of an IDX file: `train-images-idx3-ubyte.gz`."""
    return IDX.search(str(path)) is not None


def place_of(where: str) -> tuple[str, str]:
    """The file, and the name of what is meant inside it; "" is the file itself."""
    if CONTAINERS.search(where) and not os.path.exists(where):
        outer = os.path.dirname(where)
        while outer and not os.path.exists(outer) and os.path.dirname(outer) != outer:
            outer = os.path.dirname(outer)
        if os.path.isfile(outer):
            return outer, where[len(outer) + 1 :].replace("\\", "/")
    return where, ""


def is_there(where: str) -> bool:
    """Whether there is such a file, or such a name inside one."""
    file, inner = place_of(where)
    if not inner:
        return os.path.isfile(file)
    if file.lower().endswith(ZIP):
        return inner in open_zip(file)
    return is_idx(file) and _number(inner) < len(read_idx(file, 3))


def bytes_of(where: str) -> bytes:
    """The bytes of an image's file, on the disk or in a zip."""
    file, inner = place_of(where)
    if inner:
        if not file.lower().endswith(ZIP):
            raise DataError(f"there is no {where}: {file} is a file, neither a folder nor a .zip")
        return open_zip(file).read(inner)
    try:
        about = os.stat(file)
        if stat.S_ISDIR(about.st_mode):
            raise DataError(f"{where} is a folder; an image is expected")
        if not stat.S_ISREG(about.st_mode):
            raise DataError(f"{where} is neither a file nor a folder; an image is expected")
        if about.st_size > MOST_BYTES:
            raise DataError(_too_many(where, about.st_size))
        with open(file, "rb") as stream:
            return stream.read(MOST_BYTES)
    except FileNotFoundError as error:
        raise DataError(f"there is no {where}") from error
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        if isinstance(error, DataError):
            raise
        raise DataError(f"{where} cannot be read: {getattr(error, 'strerror', error)}") from error


def idx_image(file: str, inner: str) -> Pixels:
    """The image (h, w) of that number in an IDX file."""
    images = read_idx(file, 3)
    number = _number(inner)
    if number >= len(images):
        raise DataError(f"there is no {file}/{inner}; it holds images from 0 to {len(images) - 1}")
    return images[number]


class Zip:
    """The files inside a zip, by their names with /."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._file = zipfile.ZipFile(path)
        except Exception as error:  # what is broken in a zip decides which
            raise DataError(f"{path} is not a whole zip: {error}") from error
        self._members = {
            info.filename.replace("\\", "/"): info
            for info in self._file.infolist()
            if not info.is_dir() and not leads_out(info.filename)
        }

    @property
    def names(self) -> tuple[str, ...]:
        """The name of every file."""
        return tuple(self._members)

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def read(self, name: str) -> bytes:
        """The bytes of one file."""
        where, info = f"{self.path}/{name}", self._members.get(name)
        if leads_out(name):
            raise DataError(f"{where}: names inside a zip neither begin with / nor have .. in them")
        if info is None:
            inner = " (a zip inside a zip is not read)" if f"{ZIP}/" in name.lower() else ""
            raise DataError(f"there is no {name} in {self.path}{inner}")
        if info.flag_bits & ENCRYPTED:
            raise DataError(f"{where} is encrypted; unpack it with its password")
        if info.file_size > MOST_BYTES:
            raise DataError(_too_many(where, info.file_size))
        try:
            with self._file.open(info) as stream:
                return stream.read(MOST_BYTES)
        except Exception as error:  # each way of packing has its own errors
            raise DataError(f"{where} cannot be unpacked: {error}") from error


def leads_out(name: str) -> bool:
    """Whether a name is absolute or has .. in it."""
    parts = name.replace("\\", "/").split("/")
    return parts[0] == "" or ".." in parts


def open_zip(path: str | Path) -> Zip:
    """The zip, which stays open: its list of names is read once."""
    with _lock:
        return _open_zip(str(path), os.getpid(), *_version(path))


def read_idx(path: str | Path, axes: int) -> Pixels:
    """All values of an IDX file, which stay in memory."""
    with _lock:
        return _read_idx(str(path), axes, *_version(path))


def digest_of_files(names: Iterable[str | Path], *, workers: int = 4) -> str:
    """SHA-256 of the contents of images in this order, wherever they lie.

    Of a zip or an IDX file: of its bytes and of the name inside; built-in images: of their names
    and the code that makes them.
    """
    listed = map(str, names)
    places = [("", name) if name.startswith(BUILTIN) else place_of(name) for name in listed]
    files = list(dict.fromkeys(file for file, _ in places))
    digests = dict(zip(files, in_threads(_content, files, workers), strict=True))
    digest = hashlib.sha256()
    for file, inner in places:
        digest.update(f"{digests[file]}\0{inner}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()


_lock = Lock()  # else two threads would unpack the same file


@lru_cache(maxsize=8)
def _open_zip(path: str, process: int, size: int, changed: int) -> Zip:
    return Zip(path)


@lru_cache(maxsize=4)
def _read_idx(path: str, axes: int, size: int, changed: int) -> Pixels:
    try:
        with open_bytes(Path(path)) as stream:
            head = stream.read(4 + 4 * axes)
            if head[:4] != bytes((0, 0, 8, axes)) or len(head) < 4 + 4 * axes:
                raise DataError(f"{path} is not an IDX file of bytes with {axes} axes")
            shape: tuple[int, ...] = struct.unpack(f">{axes}I", head[4:])
            total = math.prod(shape)
            if total > MOST_VALUES:
                raise DataError(f"{path} has {total:,} values; at most {MOST_VALUES:,} are read")
            values = np.empty(total, np.uint8)
            filled, view = 0, values.data
            while filled < total and (more := stream.readinto(view[filled:])):
                filled += more
            if filled < total or stream.read(1):
                found = f"only {filled:,}" if filled < total else "more"
                raise DataError(
                    f"{path} is damaged or was not copied whole: {total:,} values are "
                    f"announced, there are {found}"
                )
    except (OSError, *DAMAGE) as error:
        raise DataError(f"{path} is damaged or cannot be read: {error}") from error
    return values.reshape(shape)


def _content(file: str) -> str:
    """The digest of a file's bytes; of one that has not changed since, from memory."""
    if not file:
        return _builtin_code()
    size, changed = _version(file)
    if time.time_ns() - changed < SETTLED:
        return file_digest(Path(file))
    return _known_content(file, size, changed)


@lru_cache(maxsize=2**18)
def _known_content(file: str, size: int, changed: int) -> str:
    return file_digest(Path(file))


@lru_cache(maxsize=1)
def _builtin_code() -> str:
    folder = Path(__file__).parent / "builtin"
    digests = [file_digest(path) for path in sorted(folder.glob("*.py"))]
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def _version(path: str | Path) -> tuple[int, int]:
    """Its size and the last time when it or its place changed."""
    try:
        about: Any = os.stat(path)
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read: {getattr(error, 'strerror', error)}") from error
    return about.st_size, max(about.st_mtime_ns, about.st_ctime_ns)


def _number(inner: str) -> int:
    """The number of an image, or one that no file holds."""
    return int(inner) if inner.isascii() and inner.isdecimal() and len(inner) < 12 else MOST_VALUES


def _too_many(where: str, size: int) -> str:
    return f"{where} has {size:,} bytes; the file of an image has at most {MOST_BYTES:,}"
