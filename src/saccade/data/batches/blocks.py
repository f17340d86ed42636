"""Text as blocks of tokens, each predicted from those before it.

A piece is a run of tokens that are predicted, each from the one before it. A block holds one piece
of a continuous text (`in_stream`), or pieces of several documents (`packed`). Together the pieces
hold every token once, except the very first token of a stream, which has nothing before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from saccade.data.store.ragged import Integers, Numbers, runs


@dataclass(frozen=True, eq=False)
class BlockTokens:
    """The tokens of some blocks, one block after the other.

    tokens      the token before each prediction
    following   the token to predict
    document    number of the piece within its block, from 0
    sizes       number of tokens of each block
    """

    tokens: Numbers
    following: Numbers
    document: Numbers
    sizes: Numbers


@dataclass(frozen=True, eq=False)
class Blocks:
    """The places of the pieces in `tokens`, in the order of their blocks.

    tokens    the text as token ids
    starts    place of the first token that each piece predicts
    lengths   number of tokens that each piece predicts
    opens     whether a piece begins a document: its first token is predicted from `start`
    bounds    block i has the pieces from bounds[i] to bounds[i + 1]
    start     the token before each document
    """

    tokens: Integers
    starts: Numbers
    lengths: Numbers
    opens: npt.NDArray[np.bool_]
    bounds: Numbers
    start: int = 0

    def __len__(self) -> int:
        return len(self.bounds) - 1

    @property
    def sizes(self) -> Numbers:
        """The number of tokens of each block."""
        ends = np.concatenate(([0], np.cumsum(self.lengths)))
        return np.diff(ends[self.bounds])

    def take(
        self, rows: Sequence[int] | Numbers, shifts: Sequence[int] | Numbers | int = 0
    ) -> BlockTokens:
        """Return the tokens of these blocks, each moved on by `shifts` as far as the text goes."""
        chosen = np.asarray(rows, dtype=np.int64)
        counts = self.bounds[chosen + 1] - self.bounds[chosen]
        pieces = runs(self.bounds[chosen], counts)
        lengths = self.lengths[pieces]
        moved = self.starts[pieces] + np.repeat(np.broadcast_to(shifts, chosen.shape), counts)
        places = runs(np.minimum(moved, len(self.tokens) - lengths), lengths)
        tokens = self.tokens[places - 1].astype(np.int64)
        tokens[(np.cumsum(lengths) - lengths)[self.opens[pieces]]] = self.start
        numbers = runs(np.zeros_like(counts), counts)
        block = np.repeat(np.arange(len(chosen)), counts)
        return BlockTokens(
            tokens=tokens,
            following=self.tokens[places].astype(np.int64),
            document=np.repeat(numbers, lengths),
            sizes=np.bincount(block, lengths, len(chosen)).astype(np.int64),
        )


def in_stream(tokens: Integers, size: int) -> Blocks:
    """Cut one text into blocks of `size` tokens; the last block holds the rest."""
    starts = np.arange(1, len(tokens), size)
    return Blocks(
        tokens=tokens,
        starts=starts,
        lengths=np.minimum(size, len(tokens) - starts),
        opens=np.zeros(len(starts), dtype=bool),
        bounds=np.arange(len(starts) + 1),
    )


def packed(tokens: Integers, size: int, *, start: int, stop: int) -> Blocks:
    """Cut documents into pieces of at most `size` tokens, and pack these into blocks of `size`.

    Args:
        tokens: The documents, each ended by `stop`; the last may be incomplete.
        size: The maximum number of tokens in a piece and in a block.
        start: The token before each document.
        stop: The token that ends each document.
    """
    ends = np.flatnonzero(tokens == stop) + 1
    if len(tokens) and (not len(ends) or ends[-1] < len(tokens)):  # the last has no end
        ends = np.append(ends, len(tokens))
    begins = np.concatenate(([0], ends))[:-1]
    counts = -(-(ends - begins) // size)
    number = runs(np.zeros_like(counts), counts)
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
    """Return the bin of each object: first-fit decreasing bin packing (Johnson 1973).

    From the largest object to the smallest, each goes into the first bin with enough room. Objects
    of one size fill the bins in order, so they are placed together.

    Args:
        sizes: The size of each object, from 1 to `room`.
        room: The capacity of a bin.

    Example:
        >>> pack(np.array([3, 5, 2, 6, 4]), 10)
        array([1, 1, 1, 0, 0])
    """
    bins = np.empty(len(sizes), np.int64)
    free = np.full(len(sizes), room, np.int64)
    used = 0
    order = np.argsort(-sizes, kind="stable")
    distinct, firsts = np.unique(-sizes[order], return_index=True)
    for size, objects in zip(-distinct, np.split(order, firsts)[1:], strict=True):
        fitting = np.flatnonzero(free[: used - (-len(objects) // (room // size))] >= size)
        filled = np.minimum(np.cumsum(free[fitting] // size), len(objects))
        added = np.diff(filled, prepend=0)
        bins[objects] = np.repeat(fitting, added)
        free[fitting] -= added * size
        used = max(used, int(bins[objects[-1]]) + 1)
    return bins
