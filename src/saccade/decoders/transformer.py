"""The Transformer decoder: causal self-attention, cross-attention, feed-forward, in a stack."""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import nn

from saccade.attention import KeyValueCache, MultiHeadAttention, Projected, masks
from saccade.attention.attend import watchers
from saccade.attention.masks import Mask
from saccade.config import Conflict, Count
from saccade.decoders.fast_path import FastPath
from saccade.errors import ShapeError
from saccade.interfaces import Memory, Positional
from saccade.layers.block import BlockConfig
from saccade.layers.dropout import Dropout
from saccade.layers.embeddings import OutputProjection, TokenEmbedding
from saccade.positions import Position, PositionConfig, SinusoidalConfig
from saccade.positions.config import require_writable
from saccade.shapes import Bool, Float, Int, Tensor


class TransformerDecoderLayer(nn.Module):
    """Self-attention, cross-attention to a memory, feed-forward, each in a residual connection.

    Without `memory_dim` there is no memory to read and no cross-attention: a language model's.
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
        """The same layer with the weights of torch's (ours is always batch first)."""
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
        """The keys and values of a memory, for reading it at many steps."""
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
        """The tokens, each having read those before it, and the memory."""
        x = self.around_attention(
            x, lambda x: self.self_attention(x, mask=mask, positions=positions, cache=cache)
        )
        if self.cross is not None:
            cross = self.cross
            x = self.around_cross(x, lambda x: cross(x, memory, mask=memory_mask))
        return self.around_feed_forward(x, self.feed_forward)


class TransformerStack(nn.Module):
    """Decoder layers and a last norm: vectors in, vectors out."""

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
        """The same stack with the weights of torch's."""
        layers = [TransformerDecoderLayer.from_torch(layer) for layer in twin.layers]
        return TransformerStack(layers, norm=copy.deepcopy(twin.norm)).train(twin.training)

    def read(
        self,
        x: Float[Tensor, "b t d"],
        memory: Memory | None,
        mask: Mask | None,
    ) -> Float[Tensor, "b t d"]:
        """All places at once; `mask` says which earlier ones each may see."""
        states, memory_mask = _memory_of(self.layers, memory)
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
        """Vectors through the stack, causal unless another mask is given."""
        return self.read(x, memory, masks.causal() if mask is None else mask)


@dataclass(frozen=True)
class TransformerState:
    """What generation keeps: keys and values of the tokens so far, and of the memory.

    `sharing` neighbouring rows of the caches read one row of the memory. `fast_path` does the steps
    where the decoder is one that it knows.
    """

    caches: tuple[KeyValueCache, ...]
    memories: tuple[Projected, ...]
    memory_mask: Bool[Tensor, "m s"] | None
    length: int
    sharing: int = 1
    fast_path: FastPath | None = None


class TransformerDecoder(TransformerStack):
    """The stack with tokens at both ends: embedding and positions before it, logits after it."""

    def __init__(
        self,
        embedding: TokenEmbedding,
        layers: Sequence[TransformerDecoderLayer],
        output: OutputProjection,
        *,
        position: Position | None = None,
        stem_norm: nn.Module | None = None,
        norm: nn.Module | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(layers, position=position, norm=norm)
        self.embedding = embedding
        self.stem_norm = nn.Identity() if stem_norm is None else stem_norm
        self.dropout = Dropout(dropout)
        self.output = output

    def forward(  # type: ignore[override]
        self, target: Int[Tensor, "b t"], memory: Memory | None = None
    ) -> Float[Tensor, "b t v"]:
        """Logits of what follows each token, all at once (teacher forcing)."""
        return self.output(self.hidden(target, memory))

    def hidden(
        self,
        target: Int[Tensor, "b t"],
        memory: Memory | None = None,
        mask: Mask | None = None,
    ) -> Float[Tensor, "b t d"]:
        """What `output` turns into logits; causal unless another mask is given."""
        return self.read(
            self._embedded(target, 0), memory, masks.causal() if mask is None else mask
        )

    def cross_attentions(self) -> list[str]:
        """The names of the attentions that read the memory."""
        return [f"layers.{i}.cross" for i, x in enumerate(self.blocks()) if x.cross is not None]

    def start(self, memory: Memory | None = None) -> TransformerState:
        """The state before the first token; the memory's keys and values are computed here."""
        states, _ = _memory_of(self.layers, memory)
        mask = None if memory is None else memory.mask
        blind = mask is not None and not bool(mask.any(1).all())
        return TransformerState(
            caches=tuple(KeyValueCache() for _ in self.layers),
            memories=() if states is None else tuple(x.project(states) for x in self.blocks()),
            memory_mask=None if mask is None or bool(mask.all()) else mask,
            length=0,
            fast_path=None if blind else FastPath.of(self),
        )

    def step(
        self, tokens: Int[Tensor, " b"], state: TransformerState
    ) -> tuple[Float[Tensor, "b v"], TransformerState]:
        """One more token for each row; the logits of what follows it."""
        if state.fast_path is None or torch.is_grad_enabled() or watchers.get():
            x, state = self.extend(tokens.unsqueeze(1), state)
            return self.output(x[:, -1]), state
        x = self._embedded(tokens.unsqueeze(1), state.length).squeeze(1)
        logits = state.fast_path(x, state.caches, state.memories, state.memory_mask)
        return logits, replace(state, length=state.length + 1)

    def extend(
        self, tokens: Int[Tensor, "b n"], state: TransformerState
    ) -> tuple[Float[Tensor, "b n d"], TransformerState]:
        """Several more tokens for each row at once (a prompt); their hidden states."""
        x = self._embedded(tokens, state.length)
        memory_mask = None if state.memory_mask is None else masks.padding(state.memory_mask)
        positions = self.position.inside()
        for i, layer in enumerate(self.layers):
            x = layer(
                x,
                state.memories[i] if state.memories else None,
                mask=masks.causal(),
                memory_mask=memory_mask,
                positions=positions,
                cache=state.caches[i],
            )
        return self.norm(x), replace(state, length=state.length + tokens.shape[1])

    def select(self, state: TransformerState, rows: Int[Tensor, " n"]) -> TransformerState:
        """The state of these rows; the memory is copied only where rows of it fall away."""
        kept, sharing = rows, 1
        if state.memories and not watchers.get():  # who watches sees each row by itself
            kept, sharing = _shared(rows // state.sharing)
        elif state.sharing > 1:
            kept = rows // state.sharing
        memories, mask = state.memories, state.memory_mask
        if memories and not _are_all(kept, len(memories[0].keys)):
            memories = tuple(memory.select(kept) for memory in memories)
            mask = None if mask is None else mask.index_select(0, kept)
        return replace(
            state,
            caches=tuple(cache.select(rows) for cache in state.caches),
            memories=memories,
            memory_mask=mask,
            sharing=sharing,
        )

    def blocks(self) -> list[TransformerDecoderLayer]:
        """The layers, as what they are."""
        return [layer for layer in self.layers if isinstance(layer, TransformerDecoderLayer)]

    def _embedded(self, tokens: Tensor, start: int) -> Tensor:
        at = torch.arange(start, start + tokens.shape[1], device=tokens.device)
        return self.dropout(self.stem_norm(self.position.embed(self.embedding(tokens), at)))


def _shared(origin: Int[Tensor, " n"]) -> tuple[Int[Tensor, " m"], int]:
    """The rows of memory, each once if every one has as many readers, and how many those are."""
    rows, readers = torch.unique_consecutive(origin, return_counts=True)
    count = len(origin) // max(1, len(rows))
    return (rows, count) if bool((readers == count).all()) else (origin, 1)


def _are_all(rows: Int[Tensor, " n"], count: int) -> bool:
    return len(rows) == count and torch.equal(rows, torch.arange(count, device=rows.device))


def _memory_of(layers: nn.ModuleList, memory: Memory | None) -> tuple[Tensor | None, Mask | None]:
    """The memory's states and mask; a memory must be there just where the layers read one."""
    reads = any(layer.cross is not None for layer in layers)
    if reads != (memory is not None):
        raise ShapeError(
            "this decoder reads a memory, and none was given"
            if reads
            else "a memory was given to a decoder without cross-attention"
        )
    if memory is None:
        return None, None
    return memory.states, None if memory.mask is None else masks.padding(memory.mask)


@dataclass(frozen=True, kw_only=True)
class TransformerDecoderConfig(BlockConfig):
    """The options of a Transformer decoder; its width comes from the model it is part of."""

    kind: Literal["transformer"] = "transformer"
    num_layers: Count = 6
    position: PositionConfig = SinusoidalConfig()

    def conflicts(self) -> Iterator[Conflict]:
        """Those of any block, and a norm that reads the tokens to come."""
        yield from super().conflicts()
        if self.norm == "batch":
            reason = "normalises over all tokens, later ones too, so it cannot write; use layer or "
            yield Conflict("norm", f"{reason}rms")

    def build(
        self,
        embedding: TokenEmbedding,
        output: OutputProjection,
        dim: int,
        memory_dim: int | None = None,
    ) -> TransformerDecoder:
        """The decoder of width `dim`; without `memory_dim` it reads no memory."""
        require_writable(self.position, "decoder.position")
        return TransformerDecoder(
            embedding,
            [TransformerDecoderLayer(dim, self, memory_dim) for _ in range(self.num_layers)],
            output,
            position=self.position.build(dim, self.head_width(dim)),
            norm=self.make_last_norm(dim),
            dropout=self.dropout,
        )
