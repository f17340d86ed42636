"""Sequences of different lengths in one memory-mapped file.

NAME.tokens holds all numbers in sequence (uint16, or uint32 if needed);
NAME.offsets holds the start of each sequence (int64), and last the end of the final one.
"""

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
BLOCK = 2**16
LARGEST = 2**32 - 1


class Ragged:
    """Sequences of numbers by index, held in one array.

    Args:
        tokens: The numbers of all sequences, one after the other.
        offsets: The start of each sequence in `tokens`, and the end of the last one.
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


def sizes_of(fields: Sequence[Ragged], more: int = 0) -> Integers:
    """Return the lengths (rows, fields) of sequences plus `more`, in 16 bits if they fit.

    They are computed in pieces, so the result is the only array as long as the fields.

    >>> sizes_of([Ragged(np.arange(5), np.array([0, 2, 5]))], more=1).tolist()
    [[3], [4]]
    """
    count = len(fields[0]) if fields else 0
    starts = range(0, count, BLOCK)

    def lengths(field: Ragged, start: int) -> Numbers:
        return np.diff(field.offsets[start : start + BLOCK + 1])

    most = (int(lengths(field, start).max()) for field in fields for start in starts)
    longest = more + max(most, default=0)
    sizes = np.empty((count, len(fields)), np.uint16 if longest < 2**15 else np.int64)
    for i, field in enumerate(fields):
        for start in starts:
            sizes[start : start + BLOCK, i] = lengths(field, start)
    sizes += np.array(more, sizes.dtype)
    return sizes


def runs(starts: Numbers, lengths: Numbers) -> Numbers:
    """Return start, start + 1, … of each run, one after the other.

    >>> runs(np.array([3, 7]), np.array([2, 3])).tolist()
    [3, 4, 7, 8, 9]
    """
    before = np.cumsum(lengths) - lengths
    return np.arange(lengths.sum()) + np.repeat(starts - before, lengths)


class RaggedWriter:
    """Write sequences to files; none of them stays in memory."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self.dtype = "uint16"
        self._end = 0
        self._stream: BufferedWriter = open(self._tokens, "wb")  # noqa: SIM115  (closed by `close`)
        self._offsets = open(folder / f"{name}.offsets", "wb")  # noqa: SIM115
        self._offsets.write(np.zeros(1, np.int64).tobytes())

    @property
    def _tokens(self) -> Path:
        return self._folder / f"{self._name}.tokens"

    def add(self, sequences: Sequence[Sequence[int]]) -> None:
        """Append sequences."""
        joined = np.fromiter((x for sequence in sequences for x in sequence), np.int64)
        if len(joined) and (joined.min() < 0 or joined.max() > LARGEST):
            wrong = joined.min() if joined.min() < 0 else joined.max()
            raise DataError(
                f"token ids must be from 0 to {LARGEST}, got {wrong}; check the vocabulary that "
                "encoded them"
            )
        self._append(joined, np.fromiter(map(len, sequences), np.int64, len(sequences)))

    def add_joined(self, tokens: Integers, lengths: Numbers) -> None:
        """Append sequences of valid numbers that follow each other in one array."""
        self._append(tokens, lengths)

    def close(self) -> None:
        """Complete the files."""
        self._stream.close()
        self._offsets.close()

    def abandon(self) -> None:
        """Close the files, complete or not."""
        for stream in (self._stream, self._offsets):
            with suppress(OSError):  # a full disk rejects the last bytes again
                stream.close()

    def _append(self, tokens: Integers, lengths: Numbers) -> None:
        if len(tokens):
            if tokens.max() > np.iinfo(self.dtype).max:
                self._widen()
            self._stream.write(tokens.astype(self.dtype, copy=False).tobytes())
        if len(lengths):
            ends = self._end + np.cumsum(lengths)
            self._offsets.write(ends.tobytes())
            self._end = int(ends[-1])

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
