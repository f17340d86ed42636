"""The layers of a Transformer decoder, and the stack of them: vectors in, vectors out."""

import copy
from collections.abc import Sequence

from torch import nn

from saccade.attention import KeyValueCache, MultiHeadAttention, Projected, masks
from saccade.attention.masks import Mask
from saccade.errors import ShapeError
from saccade.interfaces import Memory, Positional
from saccade.layers.block import BlockConfig
from saccade.positions import Position
from saccade.shapes import Float, Tensor


class TransformerDecoderLayer(nn.Module):
    """Self-attention, cross-attention and feed-forward network, each in a residual connection.

    Args:
        dim: Width of the tokens.
        config: Options of the block.
        memory_dim: Width of the memory; None for a layer without cross-attention, as in a language
            model.
    """

    def __init__(self, dim: int, config: BlockConfig, memory_dim: int | None = None) -> None:
        super().__init__()
        self.self_attention = config.make_attention(dim)
        self.around_attention = config.make_residual(dim)
        self.cross: MultiHeadAttention | None = None
        if memory_dim is not None:
            self.cross = config.make_attention(dim, memory_dim)
            self.around_cross = config.make_residual(dim)
        self.feed_forward = config.make_feed_forward(dim)
        self.around_feed_forward = config.make_residual(dim)

    @classmethod
    def from_torch(cls, twin: nn.TransformerDecoderLayer) -> "TransformerDecoderLayer":
        """Return the same layer with the weights of torch's module, but always batch first."""
        dim = twin.linear1.in_features
        ours = cls(dim, BlockConfig.from_torch(twin), dim)
        ours.self_attention = MultiHeadAttention.from_torch(twin.self_attn)
        ours.around_attention.norm.load_state_dict(twin.norm1.state_dict())
        ours.cross = MultiHeadAttention.from_torch(twin.multihead_attn)
        ours.around_cross.norm.load_state_dict(twin.norm2.state_dict())
        ours.feed_forward.widen.load_state_dict(twin.linear1.state_dict())
        ours.feed_forward.narrow.load_state_dict(twin.linear2.state_dict())
        ours.around_feed_forward.norm.load_state_dict(twin.norm3.state_dict())
        return ours.to(twin.linear1.weight).train(twin.training)

    def project(self, memory: Float[Tensor, "b s e"]) -> Projected:
        """Compute the keys and values of a memory once, for many steps."""
        assert self.cross is not None
        return self.cross.project(memory)

    def forward(
        self,
        x: Float[Tensor, "b t d"],
        memory: Float[Tensor, "b s e"] | Projected | None = None,
        *,
        mask: Mask | None = None,
        memory_mask: Mask | None = None,
        positions: Positional | None = None,
        cache: KeyValueCache | None = None,
    ) -> Float[Tensor, "b t d"]:
        """Apply the layer.

        Args:
            x: Tokens.
            memory: States of an encoder, or the result of `project`; None without cross-attention.
            mask: Which tokens each token may see.
            memory_mask: Which states of the memory each token may see.
            positions: A positional encoding that acts inside self-attention.
            cache: Keys and values of earlier tokens.
        """
        x = self.around_attention(
            x, lambda x: self.self_attention(x, mask=mask, positions=positions, cache=cache)
        )
        if self.cross is not None:
            cross = self.cross
            x = self.around_cross(x, lambda x: cross(x, memory, mask=memory_mask))
        return self.around_feed_forward(x, self.feed_forward)


class TransformerStack(nn.Module):
    """Decoder layers and a last norm: vectors in, vectors out.

    Args:
        layers: The layers.
        position: Positional encoding; none if None.
        norm: Norm after the last layer, which pre-norm layers need; none if None.
    """

    def __init__(
        self,
        layers: Sequence[TransformerDecoderLayer],
        *,
        position: Position | None = None,
        norm: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.position = Position() if position is None else position
        self.layers = nn.ModuleList(layers)
        self.norm = nn.Identity() if norm is None else norm

    @classmethod
    def from_torch(cls, twin: nn.TransformerDecoder) -> "TransformerStack":
        """Return the same stack with the weights of torch's module."""
        layers = [TransformerDecoderLayer.from_torch(layer) for layer in twin.layers]
        return TransformerStack(layers, norm=copy.deepcopy(twin.norm)).train(twin.training)

    def blocks(self) -> list[TransformerDecoderLayer]:
        """Return the layers with their type."""
        return [layer for layer in self.layers if isinstance(layer, TransformerDecoderLayer)]

    def read(
        self,
        x: Float[Tensor, "b t d"],
        memory: Memory | None,
        mask: Mask | None,
    ) -> Float[Tensor, "b t d"]:
        """Apply the stack to all tokens at once; `mask` is that of self-attention."""
        states, memory_mask = self.memory_parts(memory)
        positions = self.position.inside()
        for layer in self.layers:
            x = layer(x, states, mask=mask, memory_mask=memory_mask, positions=positions)
        return self.norm(x)

    def forward(
        self,
        x: Float[Tensor, "b t d"],
        memory: Memory | None = None,
        mask: Mask | None = None,
    ) -> Float[Tensor, "b t d"]:
        """Apply the stack to vectors.

        Args:
            x: Vectors.
            memory: Output of an encoder; None if the layers have no cross-attention.
            mask: Which vectors each vector may see; causal if None.

        Raises:
            ShapeError: If a memory is missing or not expected.
        """
        return self.read(x, memory, masks.causal() if mask is None else mask)

    def memory_parts(self, memory: Memory | None) -> tuple[Tensor | None, Mask | None]:
        """Return the states and the mask of a memory.

        Raises:
            ShapeError: If the memory is missing or not expected.
        """
        reads = any(layer.cross is not None for layer in self.layers)
        if reads and memory is None:
            raise ShapeError("this decoder reads a memory, and none was given; pass one")
        if memory is None:
            return None, None
        if not reads:
            raise ShapeError(
                "a memory was given to a decoder without cross-attention; leave it out, or build "
                "the decoder with memory_dim"
            )
        return memory.states, None if memory.mask is None else masks.padding(memory.mask)
