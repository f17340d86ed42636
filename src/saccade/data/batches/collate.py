"""Pad sequences of different lengths into one tensor. Only this module knows about padding."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from saccade.data.store.ragged import Numbers, Ragged
from saccade.shapes import Bool, Int, Tensor

Padded = tuple[Int[Tensor, "b n"], Bool[Tensor, "b n"]]


def pad(
    sequences: Sequence[Sequence[int] | Numbers],
    value: int = 0,
    *,
    start: int | None = None,
    end: int | None = None,
) -> Padded:
    """Pad sequences to the length of the longest.

    Args:
        sequences: b sequences of token ids.
        value: The token id of the padding.
        start: A token id to put before each sequence.
        end: A token id to put after each sequence.

    Returns:
        The tokens (b, n), and a mask (b, n) that is True for real tokens.
    """
    lengths = np.fromiter(map(len, sequences), np.int64, len(sequences))
    parts = [np.asarray(sequence, np.int64) for sequence in sequences]
    flat = np.concatenate(parts) if parts else np.empty(0, np.int64)
    return _filled(flat, lengths, value, start, end)


def pad_rows(
    ragged: Ragged,
    rows: npt.ArrayLike,
    value: int = 0,
    *,
    start: int | None = None,
    end: int | None = None,
) -> Padded:
    """Pad rows of a `Ragged` as `pad` does, without copying each sequence.

    Args:
        ragged: The sequences.
        rows: The rows to take, in the order of the batch.
        value: The token id of padding.
        start: A token to put before each sequence; None for none.
        end: A token to put after each sequence; None for none.
    """
    flat, lengths = ragged.take(rows)
    return _filled(flat, lengths, value, start, end)


def mask_of(lengths: Numbers) -> Bool[Tensor, "b n"]:
    """Return a mask (b, n) that is True for the first `length` places of each row."""
    return torch.from_numpy(_real(lengths))


def _filled(
    flat: Numbers, lengths: Numbers, value: int, start: int | None, end: int | None
) -> Padded:
    before, after = int(start is not None), int(end is not None)
    real = _real(lengths + before + after)
    padded = np.full(real.shape, value, np.int64)
    inner = _real(lengths)
    padded[:, before : before + inner.shape[1]][inner] = flat
    if start is not None:
        padded[:, :1] = start
    if end is not None:
        padded[np.arange(len(lengths)), lengths + before] = end
    return torch.from_numpy(padded), torch.from_numpy(real)


def _real(lengths: Numbers) -> npt.NDArray[np.bool_]:
    longest = int(lengths.max()) if len(lengths) else 0
    return np.arange(longest) < lengths[:, None]
