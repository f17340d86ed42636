"""Pooling: one vector for all that was read."""

from typing import Literal

from saccade.interfaces import Memory
from saccade.shapes import Float, Tensor

Pooling = Literal["first", "mean", "summary"]


def pool(memory: Memory, kind: Pooling) -> Float[Tensor, "b d"]:
    """The first state (a class token's), the mean of the real ones, or the reader's own summary."""
    if kind == "first":
        return memory.states[:, 0]
    if kind == "mean":
        return Memory(memory.states, memory.mask).pooled()
    return memory.pooled()
