"""The Transformer encoder (Vaswani et al. 2017, section 3.1)."""

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
    """Self-attention and feed-forward network, each inside a residual connection.

    Args:
        dim: Width of the tokens.
        config: Options of the block.
        skip: Probability of stochastic depth, for each of the two.
    """

    def __init__(self, dim: int, config: BlockConfig, *, skip: float = 0.0) -> None:
        super().__init__()
        self.self_attention = config.make_attention(dim)
        self.around_attention = config.make_residual(dim, skip)
        self.feed_forward = config.make_feed_forward(dim)
        self.around_feed_forward = config.make_residual(dim, skip)

    @classmethod
    def from_torch(cls, twin: nn.TransformerEncoderLayer) -> "TransformerEncoderLayer":
        """Return the same layer with the weights of torch's module, but always batch first."""
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
        num_states: int | None = None,
    ) -> Float[Tensor, "b m d"]:
        """Apply the layer.

        Args:
            x: Tokens.
            mask: Which tokens each token may see; all, if None.
            positions: A positional encoding that acts inside attention.
            num_states: Compute the output of the first `num_states` tokens only; all, if None.
        """

        def attend(x: Tensor) -> Tensor:
            query, memory = (x, None) if num_states is None else (x[:, :num_states], x)
            return self.self_attention(query, memory, mask=mask, positions=positions)

        x = self.around_attention(x, attend, num_states)
        return self.around_feed_forward(x, self.feed_forward)


class TransformerEncoder(nn.Module):
    """Transformer encoder: stem, positions, a stack of layers and a last norm.

    Args:
        stem: A module that turns inputs into vectors with places, see `encoders.stems`.
        layers: The layers.
        position: Positional encoding; none if None.
        stem_norm: Norm before the first layer (BERT); none if None.
        norm: Norm after the last layer, which pre-norm layers need; none if None.
        dropout: Dropout before the first layer.
    """

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
        """Return the same stack with the weights of torch's: vectors in, a `Memory` out."""
        layers = [TransformerEncoderLayer.from_torch(layer) for layer in twin.layers]
        dim = layers[0].self_attention.dim
        ours = cls(VectorStem(dim), layers, norm=copy.deepcopy(twin.norm))
        return ours.train(twin.training)

    def forward(
        self,
        *inputs: Tensor | None,
        mask: Bool[Tensor, "b n"] | None = None,
        num_states: int | None = None,
    ) -> Memory:
        """Encode the inputs of the stem.

        Args:
            *inputs: Inputs of the stem.
            mask: True at real tokens; all are real if None.
            num_states: Return only the first `num_states` states, so that the last layer computes
                no others. Inside a `watch` block all are computed, to record where they look.
        """
        num_states = None if watchers.get() else num_states
        x, places = self.stem(*inputs)
        x = self.dropout(self.stem_norm(self.position.encode(x, places, mask)))
        visible = None if mask is None else masks.padding(mask)
        positions = self.position.inside(places)
        last = len(self.layers) - 1
        for i, layer in enumerate(self.layers):
            count = num_states if i == last else None
            x = layer(x, mask=visible, positions=positions, num_states=count)
        return Memory(self.norm(x), None if mask is None else mask[:, :num_states])


@dataclass(frozen=True, kw_only=True)
class TransformerEncoderConfig(BlockConfig):
    """Options of a Transformer encoder; its width is that of the model.

    kind               "transformer", self-attention in every layer
    num_layers         number of layers; more learn more from much data and are slower
    position           positional encoding of the tokens
    stem_norm          whether to normalise the embeddings before the first layer, as BERT does
    stochastic_depth   fraction of examples for which the last layer is skipped in training; it
                       grows linearly from layer to layer (Huang et al. 2016). Raise it if a deep
                       encoder overfits
    """

    kind: Literal["transformer"] = "transformer"
    num_layers: Count = 6
    position: PositionConfig = SinusoidalConfig()
    stem_norm: bool = False
    stochastic_depth: Fraction = 0.0

    def build(
        self,
        stem: nn.Module,
        dim: int,
        kind: type[TransformerEncoder] = TransformerEncoder,
    ) -> TransformerEncoder:
        """Build the encoder of width `dim` behind a stem."""
        return kind(
            stem,
            [TransformerEncoderLayer(dim, self, skip=skip) for skip in self.skips()],
            position=self.position.build(dim, self.head_width(dim), self.num_heads),
            stem_norm=self.make_norm(dim) if self.stem_norm else None,
            norm=self.make_last_norm(dim),
            dropout=self.dropout,
        )

    def skips(self) -> Iterator[float]:
        """Yield the probability of stochastic depth of each layer l of L: l / L of the last."""
        depth = self.num_layers
        return (self.stochastic_depth * layer / depth for layer in range(1, depth + 1))

    def token_dim(self, dim: int) -> int:
        """Return the width of the token embedding in a model of width `dim`."""
        return self.position.token_dim(dim)

    def states_dim(self, dim: int) -> int:
        """Return the width of the states in a model of width `dim`."""
        return dim
