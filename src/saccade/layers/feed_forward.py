"""The feed-forward network of a Transformer block, plain or gated."""

from torch import nn

from saccade.layers.activations import Activation, activation
from saccade.layers.dropout import Dropout
from saccade.shapes import Float, Tensor


class FeedForward(nn.Module):
    """Feed-forward network, applied to each token alone (Vaswani et al. 2017, eq. 2).

        W_2 f(W_1 x + b_1) + b_2

    Args:
        dim: Width of the tokens.
        hidden_dim: Width of the hidden layer.
        kind: Name of the activation f.
        dropout: Dropout on the hidden layer.
        bias: Add the biases.
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
        super().__init__()
        self.widen = _linear(dim, hidden_dim, bias=bias)
        self.activation = activation(kind)
        self.dropout = Dropout(dropout)
        self.narrow = _linear(hidden_dim, dim, bias=bias)

    def forward(self, x: Float[Tensor, "*b n d"]) -> Float[Tensor, "*b n d"]:
        """Apply the network to each token."""
        return self.narrow(self.dropout(self.activation(self.widen(x))))


class GatedFeedForward(FeedForward):
    """Gated feed-forward network (Shazeer 2020, "GLU variants improve Transformer").

        W_2 (f(W_1 x) ⊙ W_3 x), with biases unless `bias` is False

    f = "silu" is SwiGLU, "gelu" GEGLU. W_3 is `gate`. It has three matrices, so two thirds of the
    hidden width give as many parameters as `FeedForward`. The arguments are the same.
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
        """Apply the network to each token."""
        return self.narrow(self.dropout(self.activation(self.widen(x)) * self.gate(x)))


def _linear(dim: int, out_dim: int, *, bias: bool) -> nn.Linear:
    linear = nn.Linear(dim, out_dim, bias=bias)
    nn.init.xavier_uniform_(linear.weight)
    if bias:
        nn.init.zeros_(linear.bias)
    return linear
