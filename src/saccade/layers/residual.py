"""The residual connection around each part of a block, with its norm and its dropout."""

from collections.abc import Callable
from typing import Literal

from torch import nn

from saccade.layers.dropout import Dropout
from saccade.layers.norms import Norm, norm
from saccade.shapes import Float, Tensor

NormOrder = Literal["pre", "post"]


class Residual(nn.Module):
    """x + f(norm(x)) ("pre", Xiong et al. 2020) or norm(x + f(x)) ("post", Vaswani et al. 2017).

    Pre-norm leaves a path from the output to the input that no norm touches, and trains with
    larger learning rates and without warm-up.
    """

    def __init__(
        self,
        dim: int,
        order: NormOrder = "pre",
        dropout: float = 0.0,
        kind: Norm = "layer",
        eps: float = 1e-5,
    ) -> None:
        super().__init__()
        self.order = order
        self.norm = norm(kind, dim, eps)
        self.dropout = Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "b n d"], part: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "b n d"]:
        """x with what `part` makes of it added."""
        if self.order == "pre":
            return x + self.dropout(part(self.norm(x)))
        return self.norm(x + self.dropout(part(x)))

    def extra_repr(self) -> str:
        """Shown in the print of a model."""
        return repr(self.order)
