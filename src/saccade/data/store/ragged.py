"""Many sequences of numbers in one file that is mapped into memory, not read.

NAME.tokens holds all numbers one after the other (uint16, or uint32 where one needs it),
NAME.offsets where each sequence begins (int64), and in the end where the last one ends.
"""

from array import array
from collections.abc import Sequence
from contextlib import suppress
from io import BufferedWriter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from saccade.errors import DataError

Numbers = npt.NDArray[np.int64]
BLOCK = 2**20
WIDEST = 2**32 - 1


class Ragged:
    """Sequences by their index; as light as a list of them would be heavy."""

    def __init__(self, tokens: npt.NDArray[np.unsignedinteger[Any]], offsets: Numbers) -> None:
        self.tokens, self.offsets = tokens, offsets

    @classmethod
    def open(cls, folder: Path, name: str, dtype: str) -> "Ragged":
        """Map what `RaggedWriter` wrote."""
        return cls(
            _mapped(folder / f"{name}.tokens", np.dtype(dtype)),
            _mapped(folder / f"{name}.offsets", np.dtype(np.int64)),
        )

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
        """These sequences: all their numbers one after the other, and the length of each."""
        chosen = np.asarray(rows, dtype=np.int64)
        starts = self.offsets[chosen]
        lengths = self.offsets[chosen + 1] - starts
        before = np.cumsum(lengths) - lengths
        places = np.arange(lengths.sum()) + np.repeat(starts - before, lengths)
        return self.tokens[places].astype(np.int64), np.asarray(lengths)


class RaggedWriter:
    """Writes sequences one after the other; holds nothing of them but their ends."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self._dtype: np.dtype[np.unsignedinteger[Any]] = np.dtype(np.uint16)
        self._offsets = array("q", [0])
        self._stream: BufferedWriter = open(self._tokens, "wb")  # noqa: SIM115  (closed by `close`)

    @property
    def _tokens(self) -> Path:
        return self._folder / f"{self._name}.tokens"

    @property
    def dtype(self) -> str:
        """What the numbers are written as so far."""
        return self._dtype.name

    def add(self, sequences: Sequence[Sequence[int]]) -> None:
        """Append these sequences."""
        joined = np.fromiter((x for sequence in sequences for x in sequence), np.int64)
        if len(joined):
            if joined.min() < 0 or joined.max() > WIDEST:
                wrong = joined.min() if joined.min() < 0 else joined.max()
                raise DataError(f"token numbers go from 0 to {WIDEST}, got {wrong}")
            if joined.max() > np.iinfo(self._dtype).max:
                self._widen()
            self._stream.write(joined.astype(self._dtype).tobytes())
        for sequence in sequences:
            self._offsets.append(self._offsets[-1] + len(sequence))

    def close(self) -> None:
        """Write the ends; then the files are whole."""
        self._stream.close()
        with open(self._folder / f"{self._name}.offsets", "wb") as stream:
            self._offsets.tofile(stream)

    def abandon(self) -> None:
        """Let go of the file, whatever it holds."""
        with suppress(OSError):  # a full disk refuses the last bytes again
            self._stream.close()

    def _widen(self) -> None:
        """The first large number has come: what was written narrow is written again."""
        self._stream.close()
        narrow, wide = self._tokens.with_suffix(".narrow"), np.dtype(np.uint32)
        self._tokens.rename(narrow)
        self._stream = open(self._tokens, "wb")  # noqa: SIM115
        with open(narrow, "rb") as stream:
            while block := stream.read(BLOCK):
                self._stream.write(np.frombuffer(block, self._dtype).astype(wide).tobytes())
        narrow.unlink()
        self._dtype = wide


def _mapped(path: Path, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    if path.stat().st_size == 0:  # which cannot be mapped
        return np.empty(0, dtype)
    return np.memmap(path, dtype, mode="r")
