"""Reading for one vector: what a classifier asks of a reader."""

from torch import nn

from saccade.encoders.transformer import TransformerEncoder
from saccade.layers.pooling import Pooling, pool
from saccade.shapes import Float, Tensor


def read_as_one(
    encoder: nn.Module, pooling: Pooling, *inputs: Tensor | None, **options: Tensor | None
) -> Float[Tensor, "b d"]:
    """One vector for all that is read.

    Where it is the first token's, the last layer of a Transformer need not make the others: with
    12 layers that saves 7 % of the work, with 6 layers 14 %.
    """
    if pooling == "first" and isinstance(encoder, TransformerEncoder):
        return pool(encoder(*inputs, **options, wanted=1), pooling)
    return pool(encoder(*inputs, **options), pooling)
