"""The residual connection around each part of a block, with its norm and its dropout."""

from collections.abc import Callable
from typing import Literal

import torch
from torch import nn

from saccade.cancellation import raise_if_cancelled
from saccade.errors import ShapeError
from saccade.layers.dropout import Dropout
from saccade.layers.norms import Norm, norm
from saccade.shapes import Float, Tensor

NormOrder = Literal["pre", "post"]


class StochasticDepth(nn.Module):
    """Leaves out what a part of a block adds, for a share `p` of the examples of a batch.

    Only in training (Huang et al. 2016). What stays is scaled by 1 / (1 - p), so that nothing need
    be scaled when the model answers.
    """

    def __init__(self, p: float = 0.0) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise ShapeError(f"stochastic depth is a share from 0 up to, not including, 1; got {p}")
        self.p = p

    def forward(self, x: Float[Tensor, "b n d"]) -> Float[Tensor, "b n d"]:
        """In training zeros for some examples, else x."""
        if not self.training or self.p == 0.0:
            return x
        stays = torch.rand(len(x), 1, 1, device=x.device) >= self.p
        return x * (stays.to(x.dtype) / (1 - self.p))

    def extra_repr(self) -> str:
        """Shown in the print of a model."""
        return f"p={self.p}"


class Residual(nn.Module):
    """x + f(norm(x)) ("pre", Xiong et al. 2020) or norm(x + f(x)) ("post", Vaswani et al. 2017).

    Pre-norm leaves a path from the output to the input that no norm touches, and trains with
    larger learning rates and without warm-up. `skip` is the share of examples for which f is left
    out in training, see `StochasticDepth`.
    """

    def __init__(
        self,
        dim: int,
        order: NormOrder = "pre",
        dropout: float = 0.0,
        kind: Norm = "layer",
        eps: float = 1e-5,
        skip: float = 0.0,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.order = order
        self.norm = norm(kind, dim, eps, bias=bias)
        self.dropout = Dropout(dropout)
        self.skip = StochasticDepth(skip) if skip else nn.Identity()

    def forward(
        self,
        x: Float[Tensor, "b n d"],
        part: Callable[[Tensor], Tensor],
        wanted: int | None = None,
    ) -> Float[Tensor, "b m d"]:
        """x, or the first `wanted` of it, with what `part` makes of x for these added.

        Cancelled work ends here, before the part.
        """
        raise_if_cancelled()
        kept = x if wanted is None else x[:, :wanted]
        if self.order == "pre":
            return kept + self.skip(self.dropout(part(self.norm(x))))
        return self.norm(kept + self.skip(self.dropout(part(x))))

    def extra_repr(self) -> str:
        """Shown in the print of a model."""
        return repr(self.order)
