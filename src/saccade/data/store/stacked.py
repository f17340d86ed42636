"""Arrays of one shape, or sequences of such arrays, in one memory-mapped file.

NAME.stack holds the values of all rows one after the other; of sequences, NAME.offsets holds the
start of each (int64), and finally the end of the last one. Such files may be gigabytes long, so
damage is detected by the size and a sample of blocks, which are read in a moment.
"""

import hashlib
import math
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt

from saccade.errors import DataError

Array = npt.NDArray[np.generic]
TYPES = ("uint8", "float16", "float32")
BLOCK = 2**20
SAMPLES = 64  # blocks that are read to detect damage


class StackedArrays:
    """Arrays of one shape by index, mapped from a file."""

    def __init__(self, rows: Array) -> None:
        self.rows = rows

    @classmethod
    def open(cls, folder: Path, name: str, dtype: str, shape: Sequence[int]) -> "StackedArrays":
        """Map the file that a `StackedWriter` wrote; `shape` is that of one row."""
        path, kind = _file(folder, name), np.dtype(dtype)
        width = math.prod(shape) * kind.itemsize
        count, rest = divmod(path.stat().st_size, width)
        if rest or not count:
            raise DataError(
                f"{path} does not hold complete rows of {tuple(shape)} {dtype}; "
                "remove the cache entry, and it is written again"
            )
        return cls(np.asarray(np.memmap(path, kind, mode="r", shape=(count, *shape))))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one row."""
        return self.rows.shape[1:]

    @property
    def dtype(self) -> str:
        """The type of the values."""
        return self.rows.dtype.name

    def take(self, rows: npt.ArrayLike) -> Array:
        """Return these rows, stacked, in memory."""
        return self.rows[np.asarray(rows, dtype=np.int64)]


class StackedSequences:
    """Sequences of vectors by index, mapped from a file.

    Args:
        steps: The vectors of all sequences, one after the other.
        offsets: The start of each sequence in `steps`, and the end of the last one.
    """

    def __init__(self, steps: Array, offsets: npt.NDArray[np.int64]) -> None:
        self.steps, self.offsets = steps, offsets

    @classmethod
    def open(cls, folder: Path, name: str, dtype: str, shape: Sequence[int]) -> "StackedSequences":
        """Map the files that a `SequenceWriter` wrote; `shape` is that of one step."""
        steps = StackedArrays.open(folder, name, dtype, shape).rows
        return cls(steps, np.fromfile(folder / f"{name}.offsets", np.int64))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> Array:
        return self.steps[self.offsets[index] : self.offsets[index + 1]]

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """The number of steps of every sequence."""
        return np.diff(self.offsets)


class StackedWriter:
    """Write arrays to a file; the first one sets the shape and the type of all."""

    def __init__(self, folder: Path, name: str) -> None:
        self.shape: tuple[int, ...] | None = None
        self.dtype = ""
        self._stream = open(_file(folder, name), "wb")  # noqa: SIM115  (closed by `close`)

    def add(self, array: Array, name: str) -> None:
        """Append an array; `name` identifies it in error messages."""
        shape = self._row_shape(array)
        if self.shape is None:
            if array.dtype.name not in TYPES or not array.size:
                raise DataError(
                    f"arrays must hold values of {', '.join(TYPES)}; that of {name} is "
                    f"{array.shape} {array.dtype.name}"
                )
            self.shape, self.dtype = shape, array.dtype.name
        if (shape, array.dtype.name) != (self.shape, self.dtype):
            raise DataError(
                f"all arrays must have the shape {self.shape} and the type {self.dtype}; that of "
                f"{name} is {shape} {array.dtype.name}"
            )
        self._stream.write(array.tobytes())

    def close(self) -> None:
        """Write everything to the disk, which completes the file."""
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._stream.close()

    def _row_shape(self, array: Array) -> tuple[int, ...]:
        return array.shape

    def abandon(self) -> None:
        """Close the file, complete or not."""
        with suppress(OSError):  # a full disk rejects the last bytes again
            self._stream.close()


class SequenceWriter(StackedWriter):
    """Write sequences of vectors to a file; the first one sets the width and the type of all."""

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(folder, name)
        self._offsets, self._lengths = folder / f"{name}.offsets", [0]

    def add(self, array: Array, name: str) -> None:
        """Append a sequence (steps, width); `name` identifies it in error messages."""
        super().add(array, name)
        self._lengths.append(len(array))

    def close(self) -> None:
        """Write the offsets as well."""
        super().close()
        np.cumsum(self._lengths, dtype=np.int64).tofile(self._offsets)

    def _row_shape(self, array: Array) -> tuple[int, ...]:
        return array.shape[1:]


def sampled_digest(path: Path) -> str:
    """Return the SHA-256 of the size and of at most 64 blocks of 1 MiB, spread over the file.

    A file of up to 64 MiB is hashed completely; of a larger one only the sampled blocks are.
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
