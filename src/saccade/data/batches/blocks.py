"""Text as blocks of tokens of which each is predicted from those before it.

A piece is a run of tokens that are predicted, each from the one before it. A block holds one piece
of a text that just goes on (`in_stream`), or pieces of several documents (`packed`). Together the
pieces hold every token once; only the very first of a stream is predicted from nothing, and left.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]
Tokens = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class Taken:
    """The tokens of some blocks, one after the other, and how many are in each block.

    `document` numbers the pieces of each block from 0.
    """

    tokens: Numbers
    following: Numbers
    document: Numbers
    sizes: Numbers


@dataclass(frozen=True, eq=False)
class Blocks:
    """Where in `tokens` the pieces lie, in the order of the blocks they are of.

    starts    the place of the first token that a piece predicts
    lengths   how many it predicts
    opens     whether it begins a document: its first token is predicted from `start`
    bounds    the pieces of block i are those from bounds[i] to bounds[i + 1]
    """

    tokens: Tokens
    starts: Numbers
    lengths: Numbers
    opens: npt.NDArray[np.bool_]
    bounds: Numbers
    start: int = 0

    def __len__(self) -> int:
        return len(self.bounds) - 1

    @property
    def sizes(self) -> Numbers:
        """The tokens of each block."""
        ends = np.concatenate(([0], np.cumsum(self.lengths)))
        return np.diff(ends[self.bounds])

    def take(
        self, rows: Sequence[int] | Numbers, shifts: Sequence[int] | Numbers | int = 0
    ) -> Taken:
        """These blocks; `shifts` moves the window of each on, as far as the text goes."""
        chosen = np.asarray(rows, dtype=np.int64)
        counts = self.bounds[chosen + 1] - self.bounds[chosen]
        pieces = _runs(self.bounds[chosen], counts)
        lengths = self.lengths[pieces]
        moved = self.starts[pieces] + np.repeat(np.broadcast_to(shifts, chosen.shape), counts)
        places = _runs(np.minimum(moved, len(self.tokens) - lengths), lengths)
        tokens = self.tokens[places - 1].astype(np.int64)
        tokens[(np.cumsum(lengths) - lengths)[self.opens[pieces]]] = self.start
        numbers = _runs(np.zeros_like(counts), counts)
        block = np.repeat(np.arange(len(chosen)), counts)
        return Taken(
            tokens=tokens,
            following=self.tokens[places].astype(np.int64),
            document=np.repeat(numbers, lengths),
            sizes=np.bincount(block, lengths, len(chosen)).astype(np.int64),
        )


def in_stream(tokens: Tokens, size: int) -> Blocks:
    """One text, cut into blocks of `size` tokens and a last one of what is left."""
    starts = np.arange(1, len(tokens), size)
    return Blocks(
        tokens=tokens,
        starts=starts,
        lengths=np.minimum(size, len(tokens) - starts),
        opens=np.zeros(len(starts), dtype=bool),
        bounds=np.arange(len(starts) + 1),
    )


def packed(tokens: Tokens, size: int, *, start: int, stop: int) -> Blocks:
    """Documents, each of which ends with `stop`, cut into pieces and these packed into blocks.

    A piece has at most `size` tokens, and so has a block. `start` stands before each document.
    """
    ends = np.flatnonzero(tokens == stop) + 1
    if len(tokens) and (not len(ends) or ends[-1] < len(tokens)):  # the last may go on
        ends = np.append(ends, len(tokens))
    begins = np.concatenate(([0], ends))[:-1]
    counts = -(-(ends - begins) // size)
    number = _runs(np.zeros_like(counts), counts)
    starts = np.repeat(begins, counts) + number * size
    lengths = np.minimum(size, np.repeat(ends, counts) - starts)
    block = pack(lengths, size)
    order = np.argsort(block, kind="stable")
    return Blocks(
        tokens=tokens,
        starts=starts[order],
        lengths=lengths[order],
        opens=(number == 0)[order],
        bounds=np.concatenate(([0], np.cumsum(np.bincount(block)))),
        start=start,
    )


def pack(sizes: Numbers, room: int) -> Numbers:
    """The bin of each thing, bins having `room`: first-fit decreasing (Johnson 1973).

    From the largest on, and of equals from the first, each goes into the first bin that has room
    for it. So things of one size fill bins in their order, and are dealt with at once.

    >>> pack(np.array([3, 5, 2, 6, 4]), 10)
    array([1, 1, 1, 0, 0])
    """
    bins = np.empty(len(sizes), np.int64)
    free = np.full(len(sizes), room, np.int64)
    used = 0
    order = np.argsort(-sizes, kind="stable")
    distinct, firsts = np.unique(-sizes[order], return_index=True)
    for size, things in zip(-distinct, np.split(order, firsts)[1:], strict=True):
        fitting = np.flatnonzero(free[: used - (-len(things) // (room // size))] >= size)
        filled = np.minimum(np.cumsum(free[fitting] // size), len(things))
        taken = np.diff(filled, prepend=0)
        bins[things] = np.repeat(fitting, taken)
        free[fitting] -= taken * size
        used = max(used, int(bins[things[-1]]) + 1)
    return bins


def _runs(starts: Numbers, lengths: Numbers) -> Numbers:
    """start, start + 1 … for each, one after the other."""
    before = np.cumsum(lengths) - lengths
    return np.arange(lengths.sum()) + np.repeat(starts - before, lengths)
