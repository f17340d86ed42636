"""Sequences of different lengths in one memory-mapped file.

NAME.tokens holds all numbers in sequence (uint16, or uint32 if needed);
NAME.offsets holds the start of each sequence (int64), and last the end of the final one.
"""

from array import array
from collections.abc import Sequence
from contextlib import suppress
from io import BufferedWriter
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from saccade.errors import DataError

Numbers = npt.NDArray[np.int64]
Integers = npt.NDArray[np.integer[Any]]
Scalar = TypeVar("Scalar", bound=np.generic)
BLOCK = 2**20
LARGEST = 2**32 - 1


class Ragged:
    """Sequences of numbers by index, held in one array.

    Args:
        tokens: The numbers of all sequences, one after the other.
        offsets: The begin of each sequence in `tokens`, and the end of the last one.
    """

    def __init__(self, tokens: Integers, offsets: Numbers) -> None:
        self.tokens, self.offsets = tokens, offsets

    @classmethod
    def open(cls, folder: Path, name: str, dtype: str) -> "Ragged":
        """Map the files that a `RaggedWriter` wrote."""
        tokens, offsets = folder / f"{name}.tokens", folder / f"{name}.offsets"
        return cls(_mapped(tokens, np.dtype(dtype)), _mapped(offsets, np.dtype(np.int64)))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> Numbers:
        if not -len(self) <= index < len(self):
            raise IndexError(f"sequence {index} of {len(self)}")
        index %= len(self)
        return self.tokens[self.offsets[index] : self.offsets[index + 1]].astype(np.int64)

    @property
    def lengths(self) -> Numbers:
        """The length of every sequence."""
        return np.diff(self.offsets)

    def take(self, rows: npt.ArrayLike) -> tuple[Numbers, Numbers]:
        """Return the numbers of these sequences, one after the other, and their lengths."""
        chosen = np.asarray(rows, dtype=np.int64)
        starts = self.offsets[chosen]
        lengths = self.offsets[chosen + 1] - starts
        places = runs(starts, lengths)
        return self.tokens[places].astype(np.int64), np.asarray(lengths)


def runs(starts: Numbers, lengths: Numbers) -> Numbers:
    """Return start, start + 1, … of each run, one after the other.

    >>> runs(np.array([3, 7]), np.array([2, 3])).tolist()
    [3, 4, 7, 8, 9]
    """
    before = np.cumsum(lengths) - lengths
    return np.arange(lengths.sum()) + np.repeat(starts - before, lengths)


class RaggedWriter:
    """Write sequences to a file; only their offsets stay in memory."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self.dtype = "uint16"
        self._offsets = array("q", [0])
        self._stream: BufferedWriter = open(self._tokens, "wb")  # noqa: SIM115  (closed by `close`)

    @property
    def _tokens(self) -> Path:
        return self._folder / f"{self._name}.tokens"

    def add(self, sequences: Sequence[Sequence[int]]) -> None:
        """Append sequences."""
        joined = np.fromiter((x for sequence in sequences for x in sequence), np.int64)
        if len(joined):
            if joined.min() < 0 or joined.max() > LARGEST:
                wrong = joined.min() if joined.min() < 0 else joined.max()
                raise DataError(f"token ids must be from 0 to {LARGEST}, got {wrong}")
            if joined.max() > np.iinfo(self.dtype).max:
                self._widen()
            self._stream.write(joined.astype(self.dtype).tobytes())
        for sequence in sequences:
            self._offsets.append(self._offsets[-1] + len(sequence))

    def close(self) -> None:
        """Write the offsets, which completes the files."""
        self._stream.close()
        with open(self._folder / f"{self._name}.offsets", "wb") as stream:
            self._offsets.tofile(stream)

    def abandon(self) -> None:
        """Close the file, complete or not."""
        with suppress(OSError):  # a full disk rejects the last bytes again
            self._stream.close()

    def _widen(self) -> None:
        """Write the numbers so far again as uint32, because a large one follows."""
        self._stream.close()
        narrow = self._tokens.with_suffix(".narrow")
        self._tokens.rename(narrow)
        self._stream = open(self._tokens, "wb")  # noqa: SIM115
        with open(narrow, "rb") as stream:
            while block := stream.read(BLOCK):
                numbers = np.frombuffer(block, self.dtype)
                self._stream.write(numbers.astype(np.uint32).tobytes())
        narrow.unlink()
        self.dtype = "uint32"


def _mapped(path: Path, dtype: np.dtype[Scalar]) -> npt.NDArray[Scalar]:
    if path.stat().st_size == 0:  # an empty file cannot be mapped
        return np.empty(0, dtype)
    return np.memmap(path, dtype, mode="r")
