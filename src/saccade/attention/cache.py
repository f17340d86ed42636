"""Caches of keys and values for generation, kept in the state of the caller.

`KeyValueCache` grows: self-attention appends the keys and values of the new token at each step.
`Projected` is fixed: cross-attention reads the same memory at each step.
"""

from dataclasses import dataclass

import torch

from saccade.shapes import Float, Int, Tensor


class KeyValueCache:
    """The keys and values of all tokens so far, in buffers that double when they are full.

    For generation without gradients: `append` writes in place.

    Args:
        capacity: Number of tokens that the first buffers hold.

    Examples:
        >>> import torch
        >>> from saccade.attention import KeyValueCache, MultiHeadAttention
        >>> attention, cache = MultiHeadAttention(8, num_heads=2), KeyValueCache()
        >>> with torch.no_grad():
        ...     for step in range(3):
        ...         context = attention(torch.randn(1, 1, 8), cache=cache)
        >>> cache.length
        3
    """

    def __init__(self, capacity: int = 32) -> None:
        self.length = 0
        self._capacity = capacity
        self._keys: Tensor | None = None
        self._values: Tensor | None = None

    def append(
        self, keys: Float[Tensor, "b h n d"], values: Float[Tensor, "b h n w"]
    ) -> tuple[Float[Tensor, "b h k d"], Float[Tensor, "b h k w"]]:
        """Append the keys and values of new tokens; return those of all tokens."""
        end = self.length + keys.shape[2]
        self._capacity = _doubled(self._capacity, end)
        self._keys = _with_room(self._keys, keys, self.length, self._capacity)
        self._values = _with_room(self._values, values, self.length, self._capacity)
        self._keys[:, :, self.length : end] = keys
        self._values[:, :, self.length : end] = values
        self.length = end
        return self._keys[:, :, :end], self._values[:, :, :end]

    def select(self, rows: Int[Tensor, " n"]) -> "KeyValueCache":
        """Return a cache of these rows of the batch, in this order; rows may be repeated."""
        chosen = KeyValueCache(self._capacity)
        chosen.length = self.length
        if self._keys is not None and self._values is not None:
            # copy complete rows with their spare capacity: one copy of contiguous memory
            chosen._keys = self._keys.index_select(0, rows)
            chosen._values = self._values.index_select(0, rows)
        return chosen


@dataclass(frozen=True)
class Projected:
    """The keys and values of a memory, split into heads, computed once for many queries.

    If there are n times as many rows of queries as of memory, n neighbouring rows share one row of
    memory: the n beams of an input read the same memory, which is kept once.
    """

    keys: Float[Tensor, "b h k d"]
    values: Float[Tensor, "b h k w"]

    def select(self, rows: Int[Tensor, " n"]) -> "Projected":
        """Return the keys and values of these rows of the batch."""
        return Projected(self.keys.index_select(0, rows), self.values.index_select(0, rows))


def _doubled(capacity: int, needed: int) -> int:
    while capacity < needed:
        capacity *= 2
    return capacity


def _with_room(buffer: Tensor | None, like: Tensor, length: int, capacity: int) -> Tensor:
    if buffer is not None and buffer.shape[2] >= capacity:
        return buffer
    b, h, _, width = like.shape
    grown = torch.empty(b, h, capacity, width, dtype=like.dtype, device=like.device)
    if buffer is not None:
        grown[:, :, :length] = buffer[:, :, :length]
    return grown
