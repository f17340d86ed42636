"""Many arrays of one shape in one file that is mapped into memory, not read.

NAME.stack holds the numbers of all rows one after the other. Such files may have gigabytes, so what
tells a damaged one is its size and some of its blocks, which are read in a moment.
"""

import hashlib
import math
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from saccade.errors import DataError

Array = npt.NDArray[Any]
ALLOWED = ("uint8", "float16", "float32")
BLOCK = 2**20
SAMPLES = 64  # blocks that are read to tell whether a file is whole


class StackedArrays:
    """Arrays by their index, all of one shape; as light as a list of them would be heavy."""

    def __init__(self, rows: Array) -> None:
        self.rows = rows

    @classmethod
    def open(cls, folder: Path, name: str, dtype: str, shape: Sequence[int]) -> "StackedArrays":
        """Map what `StackedWriter` wrote: the type of the numbers, and the shape of one row."""
        path, kind = _file(folder, name), np.dtype(dtype)
        width = math.prod(shape) * kind.itemsize
        count, over = divmod(path.stat().st_size, width)
        if over or not count:
            raise DataError(f"{path} does not hold whole rows of {tuple(shape)} {dtype}")
        return cls(np.asarray(np.memmap(path, kind, mode="r", shape=(count, *shape))))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one row."""
        return self.rows.shape[1:]

    @property
    def dtype(self) -> str:
        """The type of the numbers."""
        return self.rows.dtype.name

    def take(self, rows: npt.ArrayLike) -> Array:
        """These rows, stacked, in memory."""
        return self.rows[np.asarray(rows, dtype=np.int64)]


class StackedWriter:
    """Writes arrays one after the other; the first says the shape and the type of all."""

    def __init__(self, folder: Path, name: str) -> None:
        self.shape: tuple[int, ...] | None = None
        self.dtype = ""
        self._stream = open(_file(folder, name), "wb")  # noqa: SIM115  (closed by `close`)

    def add(self, array: Array, name: str) -> None:
        """Append this array; `name` says whose it is, for a message."""
        if self.shape is None:
            if array.dtype.name not in ALLOWED or not array.size:
                raise DataError(
                    f"rows hold numbers of {', '.join(ALLOWED)}, those of {name} are "
                    f"{array.shape} {array.dtype.name}"
                )
            self.shape, self.dtype = array.shape, array.dtype.name
        if (array.shape, array.dtype.name) != (self.shape, self.dtype):
            raise DataError(
                f"all rows must have the shape {self.shape} and the type {self.dtype}; those of "
                f"{name} are {array.shape} {array.dtype.name}"
            )
        self._stream.write(array.tobytes())

    def close(self) -> None:
        """Put all on the disk; then the file is whole."""
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._stream.close()

    def abandon(self) -> None:
        """Let go of the file, whatever it holds."""
        with suppress(OSError):  # a full disk refuses the last bytes again
            self._stream.close()


def sampled_digest(path: Path) -> str:
    """SHA-256 of the size and of at most 64 blocks of 1 MiB: the first, the last, some between.

    So a file of up to 64 MiB counts wholly, and of a larger one no more is read.
    """
    size = path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    last = max(size - 1, 0) // BLOCK
    with open(path, "rb") as stream:
        for number in dict.fromkeys(i * last // (SAMPLES - 1) for i in range(SAMPLES)):
            stream.seek(number * BLOCK)
            digest.update(stream.read(BLOCK))
    return digest.hexdigest()


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name}.stack"
