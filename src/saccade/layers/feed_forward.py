"""The perceptron of a Transformer block, plain or gated: its non-linear part."""

from torch import nn

from saccade.layers.activations import Activation, activation
from saccade.layers.dropout import Dropout
from saccade.shapes import Float, Tensor


class FeedForward(nn.Module):
    """W_2 f(W_1 x + b_1) + b_2 on each token alone (Vaswani et al. 2017, eq. 2)."""

    def __init__(
        self,
        dim: int,
        hidden_dim: int,
        kind: Activation = "relu",
        dropout: float = 0.0,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.widen = _linear(dim, hidden_dim, bias=bias)
        self.activation = activation(kind)
        self.dropout = Dropout(dropout)
        self.narrow = _linear(hidden_dim, dim, bias=bias)

    def forward(self, x: Float[Tensor, "*b n d"]) -> Float[Tensor, "*b n d"]:
        """Each token through the perceptron."""
        return self.narrow(self.dropout(self.activation(self.widen(x))))


class GatedFeedForward(FeedForward):
    """W_2 (f(W_1 x) ⊙ W_3 x), with biases where wanted (Shazeer 2020, "GLU variants").

    f = "silu" gives SwiGLU, "gelu" GEGLU. W_3 is `gate`; with three matrices, two thirds of the
    hidden width have the parameters of a plain one.
    """

    def __init__(
        self,
        dim: int,
        hidden_dim: int,
        kind: Activation = "relu",
        dropout: float = 0.0,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(dim, hidden_dim, kind, dropout, bias=bias)
        self.gate = _linear(dim, hidden_dim, bias=bias)

    def forward(self, x: Float[Tensor, "*b n d"]) -> Float[Tensor, "*b n d"]:
        """Each token through the gated perceptron."""
        return self.narrow(self.dropout(self.activation(self.widen(x)) * self.gate(x)))


def _linear(dim: int, out_dim: int, *, bias: bool) -> nn.Linear:
    linear = nn.Linear(dim, out_dim, bias=bias)
    nn.init.xavier_uniform_(linear.weight)
    if bias:
        nn.init.zeros_(linear.bias)
    return linear
