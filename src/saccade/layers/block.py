"""What the blocks of Transformer encoders and decoders are made of, as plain options."""

from dataclasses import dataclass

from torch import nn

from saccade.attention import MultiHeadAttention, ScaledDotConfig, ScoreConfig
from saccade.config import Count, Positive, Share
from saccade.errors import ShapeError
from saccade.layers.activations import Activation, name_of
from saccade.layers.feed_forward import FeedForward
from saccade.layers.norms import Norm, norm
from saccade.layers.residual import NormOrder, Residual


@dataclass(frozen=True, kw_only=True)
class BlockConfig:
    """The options of a block, which makes its parts for any width.

    attention_dropout and activation_dropout act on the attention weights and inside the
    feed-forward; on a CPU the former forbids the fused kernel.
    """

    num_heads: Count = 8
    hidden_dim: Count = 2048
    norm_order: NormOrder = "pre"
    activation: Activation = "relu"
    dropout: Share = 0.1
    attention_dropout: Share = 0.0
    activation_dropout: Share = 0.0
    score: ScoreConfig = ScaledDotConfig()
    num_kv_heads: Count | None = None
    norm: Norm = "layer"
    norm_eps: Positive = 1e-5

    @classmethod
    def from_torch(
        cls, twin: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer
    ) -> "BlockConfig":
        """The options of torch's layer."""
        if twin.linear1.bias is None:
            raise ShapeError("a torch layer built with bias=False has no counterpart here")
        return cls(
            num_heads=twin.self_attn.num_heads,
            hidden_dim=twin.linear1.out_features,
            norm_order="pre" if twin.norm_first else "post",
            activation=name_of(twin.activation),
            dropout=twin.dropout1.p,
            attention_dropout=twin.self_attn.dropout,
            activation_dropout=twin.dropout.p,
            norm_eps=twin.norm1.eps,
        )

    def make_attention(self, dim: int, memory_dim: int | None = None) -> MultiHeadAttention:
        """Attention of tokens to themselves, or to a memory of width `memory_dim`."""
        return MultiHeadAttention(
            dim,
            self.num_heads,
            key_dim=memory_dim,
            value_dim=memory_dim,
            num_kv_heads=self.num_kv_heads,
            score=self.score.build(dim // self.num_heads, dim // self.num_heads),
            dropout=self.attention_dropout,
        )

    def make_feed_forward(self, dim: int) -> FeedForward:
        """The perceptron of a block."""
        return FeedForward(dim, self.hidden_dim, self.activation, self.activation_dropout)

    def make_residual(self, dim: int, skip: float = 0.0) -> Residual:
        """The connection around each part of a block, left out with the chance `skip`."""
        return Residual(dim, self.norm_order, self.dropout, self.norm, self.norm_eps, skip)

    def make_norm(self, dim: int) -> nn.Module:
        """A norm like those of the blocks."""
        return norm(self.norm, dim, self.norm_eps)

    def make_last_norm(self, dim: int) -> nn.Module:
        """The norm after a stack: pre-norm blocks leave their sum unnormalised."""
        return self.make_norm(dim) if self.norm_order == "pre" else nn.Identity()
