"""What the blocks of Transformer encoders and decoders are made of, as plain options."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from torch import nn

from saccade.attention import MultiHeadAttention, ScaledDotConfig, ScoreConfig
from saccade.config import Conflict, Count, Fraction, Positive
from saccade.layers.activations import Activation, name_of
from saccade.layers.feed_forward import FeedForward, GatedFeedForward
from saccade.layers.norms import Norm, norm
from saccade.layers.residual import NormOrder, Residual


@dataclass(frozen=True, kw_only=True)
class BlockConfig:
    """The options of a block, which makes its parts for any width.

    hidden_dim           the width inside the feed-forward
    norm_order           "pre": a norm before each part; "post": after the residual sum
    activation           inside the feed-forward
    attention_dropout    on the attention weights; on a CPU it prevents the fused kernel
    activation_dropout   inside the feed-forward
    num_kv_heads         fewer keys and values than heads: groups of heads share them
    norm                 "layer", "rms", or, in encoders, "batch"
    feed_forward         "plain": W_2 f(W_1 x); "gated": W_2 (f(W_1 x) * W_3 x)
    bias                 whether linear maps and layer norms have a bias
    head                 "split": heads share the width; "full": each head has the width
    head_dim             the width of a head, instead of the width divided by num_heads
    qk_norm              an RMS norm on the queries and keys of each head
    """

    num_heads: Count = 8
    hidden_dim: Count = 2048
    norm_order: NormOrder = "pre"
    activation: Activation = "relu"
    dropout: Fraction = 0.1
    attention_dropout: Fraction = 0.0
    activation_dropout: Fraction = 0.0
    score: ScoreConfig = ScaledDotConfig()
    num_kv_heads: Count | None = None
    norm: Norm = "layer"
    norm_eps: Positive = 1e-5
    feed_forward: Literal["plain", "gated"] = "plain"
    bias: bool = True
    head: Literal["split", "full"] = "split"
    head_dim: Count | None = None
    qk_norm: bool = False

    def conflicts(self) -> Iterator[Conflict]:
        """Two widths for the same heads."""
        if self.head == "full" and self.head_dim is not None:
            yield Conflict("head_dim", 'does not go with head = "full"; leave one of them out')

    @classmethod
    def from_torch(
        cls, twin: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer
    ) -> "BlockConfig":
        """The options of torch's layer."""
        return cls(
            num_heads=twin.self_attn.num_heads,
            hidden_dim=twin.linear1.out_features,
            norm_order="pre" if twin.norm_first else "post",
            activation=name_of(twin.activation),
            dropout=twin.dropout1.p,
            attention_dropout=twin.self_attn.dropout,
            activation_dropout=twin.dropout.p,
            norm_eps=twin.norm1.eps,
            bias=twin.linear1.bias is not None,
        )

    def head_width(self, dim: int) -> int:
        """The width of each head in a model of width `dim`."""
        if self.head_dim is not None:
            return self.head_dim
        return dim if self.head == "full" else dim // self.num_heads

    def make_attention(self, dim: int, memory_dim: int | None = None) -> MultiHeadAttention:
        """Attention of tokens to themselves, or to a memory of width `memory_dim`."""
        return MultiHeadAttention(
            dim,
            self.num_heads,
            key_dim=memory_dim,
            value_dim=memory_dim,
            num_kv_heads=self.num_kv_heads,
            score=self.score.build(self.head_width(dim), self.head_width(dim)),
            head=self.head,
            head_dim=self.head_dim,
            qk_norm=self.qk_norm,
            norm_eps=self.norm_eps,
            dropout=self.attention_dropout,
            bias=self.bias,
        )

    def make_feed_forward(self, dim: int) -> FeedForward:
        """The perceptron of a block."""
        kind = GatedFeedForward if self.feed_forward == "gated" else FeedForward
        return kind(dim, self.hidden_dim, self.activation, self.activation_dropout, bias=self.bias)

    def make_residual(self, dim: int, skip: float = 0.0) -> Residual:
        """The connection around each part of a block, left out with the chance `skip`."""
        return Residual(
            dim, self.norm_order, self.dropout, self.norm, self.norm_eps, skip, bias=self.bias
        )

    def make_norm(self, dim: int) -> nn.Module:
        """A norm like those of the blocks."""
        return norm(self.norm, dim, self.norm_eps, bias=self.bias)

    def make_last_norm(self, dim: int) -> nn.Module:
        """The norm after a stack: pre-norm blocks leave their sum unnormalised."""
        return self.make_norm(dim) if self.norm_order == "pre" else nn.Identity()
