"""The two-layer perceptron of a Transformer block: what is not linear besides softmax."""

from torch import nn

from saccade.layers.activations import Activation, activation
from saccade.layers.dropout import Dropout
from saccade.shapes import Float, Tensor


class FeedForward(nn.Module):
    """W_2 f(W_1 x + b_1) + b_2 on each token alone (Vaswani et al. 2017, eq. 2)."""

    def __init__(
        self, dim: int, hidden_dim: int, kind: Activation = "relu", dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.widen = nn.Linear(dim, hidden_dim)
        self.activation = activation(kind)
        self.dropout = Dropout(dropout)
        self.narrow = nn.Linear(hidden_dim, dim)
        for linear in (self.widen, self.narrow):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, x: Float[Tensor, "*b n d"]) -> Float[Tensor, "*b n d"]:
        """Each token through the perceptron."""
        return self.narrow(self.dropout(self.activation(self.widen(x))))
