"""The Transformer encoder: blocks of self-attention and feed-forward (Vaswani et al. 2017)."""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from torch import nn

from saccade.attention import MultiHeadAttention, masks
from saccade.attention.attend import watchers
from saccade.attention.masks import Mask
from saccade.config import Count, Fraction
from saccade.encoders.stems import VectorStem
from saccade.interfaces import Memory, Positional
from saccade.layers.block import BlockConfig
from saccade.layers.dropout import Dropout
from saccade.positions import Position, PositionConfig, SinusoidalConfig
from saccade.shapes import Bool, Float, Tensor


class TransformerEncoderLayer(nn.Module):
    """Self-attention, then feed-forward, each inside a residual connection.

    `skip` is the share of examples for which each of them is left out in training.
    """

    def __init__(self, dim: int, config: BlockConfig, *, skip: float = 0.0) -> None:
        super().__init__()
        self.self_attention = config.make_attention(dim)
        self.around_attention = config.make_residual(dim, skip)
        self.feed_forward = config.make_feed_forward(dim)
        self.around_feed_forward = config.make_residual(dim, skip)

    @classmethod
    def from_torch(cls, twin: nn.TransformerEncoderLayer) -> "TransformerEncoderLayer":
        """The same layer with the weights of torch's (ours is always batch first)."""
        ours = cls(twin.linear1.in_features, BlockConfig.from_torch(twin))
        ours.self_attention = MultiHeadAttention.from_torch(twin.self_attn)
        ours.around_attention.norm.load_state_dict(twin.norm1.state_dict())
        ours.feed_forward.widen.load_state_dict(twin.linear1.state_dict())
        ours.feed_forward.narrow.load_state_dict(twin.linear2.state_dict())
        ours.around_feed_forward.norm.load_state_dict(twin.norm2.state_dict())
        return ours.to(twin.linear1.weight).train(twin.training)

    def forward(
        self,
        x: Float[Tensor, "b n d"],
        *,
        mask: Mask | None = None,
        positions: Positional | None = None,
        wanted: int | None = None,
    ) -> Float[Tensor, "b m d"]:
        """The tokens, or the first `wanted` of them, each having read all others."""

        def read(x: Tensor) -> Tensor:
            query, memory = (x, None) if wanted is None else (x[:, :wanted], x)
            return self.self_attention(query, memory, mask=mask, positions=positions)

        return self.around_feed_forward(self.around_attention(x, read, wanted), self.feed_forward)


class TransformerEncoder(nn.Module):
    """A stem, positions, a stack of layers, and a last norm (`nn.Identity` where there is none)."""

    def __init__(
        self,
        stem: nn.Module,
        layers: Sequence[TransformerEncoderLayer],
        *,
        position: Position | None = None,
        stem_norm: nn.Module | None = None,
        norm: nn.Module | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.stem = stem
        self.position = Position() if position is None else position
        self.stem_norm = nn.Identity() if stem_norm is None else stem_norm
        self.dropout = Dropout(dropout)
        self.layers = nn.ModuleList(layers)
        self.norm = nn.Identity() if norm is None else norm

    @classmethod
    def from_torch(cls, twin: nn.TransformerEncoder) -> "TransformerEncoder":
        """The same stack with the weights of torch's: it reads vectors and gives a `Memory`."""
        layers = [TransformerEncoderLayer.from_torch(layer) for layer in twin.layers]
        dim = layers[0].self_attention.dim
        ours = cls(VectorStem(dim), layers, norm=copy.deepcopy(twin.norm))
        return ours.train(twin.training)

    def forward(
        self,
        *inputs: Tensor | None,
        mask: Bool[Tensor, "b n"] | None = None,
        wanted: int | None = None,
    ) -> Memory:
        """Read what the stem takes; `mask` is True at real tokens.

        With `wanted` only so many of the first states are given, and the last layer reads for them
        alone; not while somebody watches, who sees where all tokens look.
        """
        wanted = None if watchers.get() else wanted
        x, places = self.stem(*inputs)
        x = self.dropout(self.stem_norm(self.position.encode(x, places, mask)))
        visible = None if mask is None else masks.padding(mask)
        positions = self.position.inside(places)
        last = len(self.layers) - 1
        for i, layer in enumerate(self.layers):
            most = wanted if i == last else None
            x = layer(x, mask=visible, positions=positions, wanted=most)
        return Memory(self.norm(x), None if mask is None else mask[:, :wanted])


@dataclass(frozen=True, kw_only=True)
class TransformerEncoderConfig(BlockConfig):
    """The options of a Transformer encoder; its width comes from the model it is part of.

    stochastic_depth   the share of examples for which the last layer is left out in training; it
                       grows evenly from layer to layer (Huang et al. 2016)
    """

    kind: Literal["transformer"] = "transformer"
    num_layers: Count = 6
    position: PositionConfig = SinusoidalConfig()
    stem_norm: bool = False
    stochastic_depth: Fraction = 0.0

    def build(self, stem: nn.Module, dim: int) -> TransformerEncoder:
        """The encoder of width `dim` behind a stem."""
        return TransformerEncoder(
            stem,
            [TransformerEncoderLayer(dim, self, skip=skip) for skip in self.skips()],
            position=self.position.build(dim, self.head_width(dim)),
            stem_norm=self.make_norm(dim) if self.stem_norm else None,
            norm=self.make_last_norm(dim),
            dropout=self.dropout,
        )

    def skips(self) -> Iterator[float]:
        """The chance of each layer l of L to be left out: l / L of the last one's."""
        depth = self.num_layers
        return (self.stochastic_depth * layer / depth for layer in range(1, depth + 1))
