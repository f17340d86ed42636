"""Options of the blocks of Transformer encoders and decoders."""

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
    """Options of a Transformer block, from which its parts are built for any width.

    num_heads            number of attention heads; dim must be divisible by it
    hidden_dim           width inside the feed-forward network, usually 2 to 4 times dim
    norm_order           "pre": norm before each part, trains stably; "post": norm after the
                         residual sum, as in the original Transformer and BERT
    activation           activation function of the feed-forward network
    dropout              dropout on the embeddings and on the output of each part, a fraction; raise
                         it for small data
    attention_dropout    dropout on the attention weights, a fraction; on a CPU it prevents the
                         fused kernel and is slower
    activation_dropout   dropout inside the feed-forward network, a fraction
    score                how attention compares queries and keys; scaled_dot is usual and fastest
    num_kv_heads         number of key and value heads, shared by groups of heads; default:
                         num_heads. Lower it for a smaller cache in generation
    norm                 "layer", "rms", or, in encoders only, "batch"
    norm_eps             epsilon of the norms; set it to that of imported weights (BERT: 1e-12)
    feed_forward         "plain": W_2 f(W_1 x); "gated": W_2 (f(W_1 x) * W_3 x), with half as many
                         parameters again at the same hidden_dim
    bias                 whether linear maps and layer norms have a bias
    head                 "split": the heads divide the width; "full": each head has the full width,
                         with num_heads times the parameters
    head_dim             width of a head; default: dim / num_heads
    qk_norm              RMS norm on the queries and keys of each head; set it if training diverges
                         at a high learning rate
    zero_outputs         start with the output projections of attention and feed-forward network at
                         zero, so that a pre-norm block begins as the identity (Zhang et al. 2019)
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
    zero_outputs: bool = False

    def conflicts(self) -> Iterator[Conflict]:
        """Yield a conflict if the width of a head is given twice."""
        if self.head == "full" and self.head_dim is not None:
            yield Conflict("head_dim", 'does not go with head = "full"; leave one of them out')

    @classmethod
    def from_torch(
        cls, twin: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer
    ) -> "BlockConfig":
        """Return the options of a layer of torch."""
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
        """Return the width of a head in a model of width `dim`."""
        if self.head_dim is not None:
            return self.head_dim
        return dim if self.head == "full" else dim // self.num_heads

    def make_attention(self, dim: int, memory_dim: int | None = None) -> MultiHeadAttention:
        """Build self-attention, or cross-attention to a memory of width `memory_dim`."""
        attention = MultiHeadAttention(
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
        if self.zero_outputs:
            nn.init.zeros_(attention.out_proj.weight)
        return attention

    def make_feed_forward(self, dim: int) -> FeedForward:
        """Build the feed-forward network of a block."""
        kind = GatedFeedForward if self.feed_forward == "gated" else FeedForward
        network = kind(
            dim, self.hidden_dim, self.activation, self.activation_dropout, bias=self.bias
        )
        if self.zero_outputs:
            nn.init.zeros_(network.narrow.weight)
        return network

    def make_residual(self, dim: int, skip: float = 0.0) -> Residual:
        """Build a residual connection; `skip` is its probability of stochastic depth."""
        return Residual(
            dim, self.norm_order, self.dropout, self.norm, self.norm_eps, skip, bias=self.bias
        )

    def make_norm(self, dim: int) -> nn.Module:
        """Build a norm like those of the block."""
        return norm(self.norm, dim, self.norm_eps, bias=self.bias)

    def make_last_norm(self, dim: int) -> nn.Module:
        """Build the norm after a stack, which only pre-norm blocks need."""
        return self.make_norm(dim) if self.norm_order == "pre" else nn.Identity()
