"""The residual connection around each part of a block, with norm, dropout and stochastic depth."""

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
    """Drop the output of a part of a block for a fraction `p` of the examples (Huang et al. 2016).

    It acts in training only. The outputs of the other examples are scaled by 1 / (1 - p), so that
    evaluation needs no scaling.

    Args:
        p: Probability of an example to be dropped, from 0 up to, but not including, 1.

    Raises:
        ShapeError: If `p` is outside this range.
    """

    def __init__(self, p: float = 0.0) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise ShapeError(
                f"stochastic depth must be a fraction from 0 up to, but not including, 1; got {p}"
            )
        self.p = p

    def forward(self, x: Float[Tensor, "b n d"]) -> Float[Tensor, "b n d"]:
        """Return x with zeros for some examples in training mode, else x itself."""
        if not self.training or self.p == 0.0:
            return x
        kept = torch.rand(len(x), 1, 1, device=x.device) >= self.p
        return x * (kept.to(x.dtype) / (1 - self.p))

    def extra_repr(self) -> str:
        """Return the arguments for the repr."""
        return f"p={self.p}"


class Residual(nn.Module):
    """Residual connection around a part f of a block, with its norm.

        "pre":   x + f(norm(x))     (Xiong et al. 2020)
        "post":  norm(x + f(x))     (Vaswani et al. 2017)

    Pre-norm leaves a path from the output to the input without any norm, and trains with larger
    learning rates and without warm-up.

    Args:
        dim: Width of the tokens.
        order: "pre" or "post".
        dropout: Dropout on the output of f.
        kind: Kind of norm.
        eps: Epsilon of the norm.
        skip: Probability of stochastic depth, see `StochasticDepth`.
        bias: Give a layer norm a bias.
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
        num_states: int | None = None,
    ) -> Float[Tensor, "b m d"]:
        """Add the output of `part` to x.

        Args:
            x: Tokens.
            part: The part f of the block.
            num_states: Return only the first `num_states` tokens, for which alone `part` computes
                its output; all tokens if None.

        Raises:
            Cancelled: Before `part` runs, if the work was cancelled.
        """
        raise_if_cancelled()
        beside = x if num_states is None else x[:, :num_states]
        if self.order == "pre":
            return beside + self.skip(self.dropout(part(self.norm(x))))
        return self.norm(beside + self.skip(self.dropout(part(x))))

    def extra_repr(self) -> str:
        """Return the arguments for the repr."""
        return repr(self.order)
