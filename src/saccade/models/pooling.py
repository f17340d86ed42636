"""Pooling: one vector for a complete input, as classifiers need it."""

from typing import Literal

from torch import nn

from saccade.encoders.transformer import TransformerEncoder
from saccade.interfaces import Memory
from saccade.shapes import Float, Tensor

Pooling = Literal["first", "mean", "summary"]


def pool(memory: Memory, kind: Pooling) -> Float[Tensor, "b d"]:
    """Return one vector per input.

    Args:
        memory: Output of an encoder.
        kind: "first": the first state, that of a class token; "mean": the mean of the real states;
            "summary": the encoder's own summary, or the mean if it has none.
    """
    if kind == "first":
        return memory.states[:, 0]
    if kind == "mean":
        return Memory(memory.states, memory.mask).pooled()
    return memory.pooled()


def encode_pooled(
    encoder: nn.Module, pooling: Pooling, *inputs: Tensor | None, **options: Tensor | None
) -> Float[Tensor, "b d"]:
    """Encode inputs and return one vector per input.

    If it is that of the first token, the last layer of a Transformer computes no others: that saves
    7 % of the work with 12 layers, 14 % with 6.
    """
    if pooling == "first" and isinstance(encoder, TransformerEncoder):
        return pool(encoder(*inputs, **options, num_states=1), pooling)
    return pool(encoder(*inputs, **options), pooling)
