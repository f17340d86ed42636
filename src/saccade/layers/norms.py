"""Normalisation of token vectors.

Layer norm (Ba et al. 2016) normalises each token over its own features, so a sentence gives the
same result alone and in a batch. RMS norm (Zhang and Sennrich 2019) divides by the root mean square
and does not subtract the mean. Batch norm (Ioffe and Szegedy 2015) normalises each feature over all
tokens of the batch, which makes the sentences of a batch depend on each other; it is here for
comparison.
"""

from typing import Literal

from torch import nn

from saccade.shapes import Float, Tensor

Norm = Literal["layer", "rms", "batch"]


def norm(kind: Norm, dim: int, eps: float = 1e-5, *, bias: bool = True) -> nn.Module:
    """Build a norm for tokens of width `dim`; `bias` concerns layer norms only.

    Args:
        kind: The kind of norm.
        dim: The width of the tokens.
        eps: The number added to the variance.
        bias: Whether a layer norm has a bias.
    """
    match kind:
        case "layer":
            return nn.LayerNorm(dim, eps=eps, bias=bias)
        case "rms":
            return nn.RMSNorm(dim, eps=eps)
        case "batch":
            return BatchNorm(dim, eps=eps)


class BatchNorm(nn.Module):
    """Batch norm of each feature over all tokens of the batch, padding included."""

    def __init__(self, dim: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.over_tokens = nn.BatchNorm1d(dim, eps=eps)

    def forward(self, x: Float[Tensor, "b n d"]) -> Float[Tensor, "b n d"]:
        """Return the normalised tokens."""
        return self.over_tokens(x.transpose(1, 2)).transpose(1, 2)
