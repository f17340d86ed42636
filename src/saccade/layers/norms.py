"""Normalisation of token vectors.

Layer norm (Ba et al. 2016) normalises each token over its own features, so a sentence comes out the
same alone or in a batch. RMS norm (Zhang and Sennrich 2019) divides by the root mean square alone
and leaves the mean where it is. Batch norm (Ioffe and Szegedy 2015) normalises each feature over
all tokens of the batch, which ties the sentences of a batch together; it is here for comparison.
"""

from typing import Literal

from torch import nn

from saccade.shapes import Float, Tensor

Norm = Literal["layer", "rms", "batch"]


def norm(kind: Norm, dim: int, eps: float = 1e-5, *, bias: bool = True) -> nn.Module:
    """The norm of that kind for tokens of width `dim`; only a layer norm can be without a bias."""
    match kind:
        case "layer":
            return nn.LayerNorm(dim, eps=eps, bias=bias)
        case "rms":
            return nn.RMSNorm(dim, eps=eps)
        case "batch":
            return BatchNorm(dim, eps=eps)


class BatchNorm(nn.Module):
    """Each feature normalised over all tokens of the batch, padding included."""

    def __init__(self, dim: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.over_tokens = nn.BatchNorm1d(dim, eps=eps)

    def forward(self, x: Float[Tensor, "b n d"]) -> Float[Tensor, "b n d"]:
        """The tokens, normalised."""
        return self.over_tokens(x.transpose(1, 2)).transpose(1, 2)
