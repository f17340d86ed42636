"""Normalisation of token vectors.

Layer norm (Ba et al. 2016) normalises each token over its own features, so a sentence comes out the
same alone or in a batch. Batch norm (Ioffe and Szegedy 2015) normalises each feature over all
tokens of the batch, which ties the sentences of a batch together; it is here for comparison.
"""

from typing import Literal

from torch import nn

from saccade.shapes import Float, Tensor

Norm = Literal["layer", "batch"]


def norm(kind: Norm, dim: int, eps: float = 1e-5) -> nn.Module:
    """The norm of that kind for tokens of width `dim`."""
    return nn.LayerNorm(dim, eps=eps) if kind == "layer" else BatchNorm(dim, eps=eps)


class BatchNorm(nn.Module):
    """Each feature normalised over all tokens of the batch, padding included."""

    def __init__(self, dim: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.over_tokens = nn.BatchNorm1d(dim, eps=eps)

    def forward(self, x: Float[Tensor, "b n d"]) -> Float[Tensor, "b n d"]:
        """The tokens, normalised."""
        return self.over_tokens(x.transpose(1, 2)).transpose(1, 2)
