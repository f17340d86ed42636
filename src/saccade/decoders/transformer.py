"""The Transformer decoder (Vaswani et al. 2017, section 3.1), with or without a memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import nn

from saccade.attention import KeyValueCache, Projected, masks
from saccade.attention.attend import watchers
from saccade.attention.masks import Mask
from saccade.config import Conflict, Count
from saccade.decoders.fast_path import FastPath
from saccade.decoders.stack import TransformerDecoderLayer, TransformerStack
from saccade.interfaces import Memory
from saccade.layers.block import BlockConfig
from saccade.layers.dropout import Dropout
from saccade.layers.embeddings import OutputProjection, TokenEmbedding
from saccade.positions import Position, PositionConfig, SinusoidalConfig
from saccade.positions.config import require_writable
from saccade.shapes import Bool, Float, Int, Tensor

__all__ = [
    "TransformerDecoder",
    "TransformerDecoderConfig",
    "TransformerDecoderLayer",
    "TransformerStack",
    "TransformerState",
]


@dataclass(frozen=True)
class TransformerState:
    """The state of generation.

    Attributes:
        caches: Keys and values of the tokens so far, per layer.
        memories: Keys and values of the memory, per layer; empty without cross-attention.
        memory_mask: True at real states of the memory; None if all are real.
        length: Number of tokens so far.
        sharing: Number of neighbouring rows of the caches that read one row of the memory.
        fast_path: Computes the steps, if the decoder has only parts that it supports.
    """

    caches: tuple[KeyValueCache, ...]
    memories: tuple[Projected, ...]
    memory_mask: Bool[Tensor, "m s"] | None
    length: int
    sharing: int = 1
    fast_path: FastPath | None = None


class TransformerDecoder(TransformerStack):
    """Transformer decoder: embedding and positions, a stack of layers, and the output projection.

    Args:
        embedding: Embedding of the target tokens.
        layers: The layers.
        output: Projection to logits.
        position: Positional encoding; none if None.
        stem_norm: Norm before the first layer; none if None.
        norm: Norm after the last layer, which pre-norm layers need; none if None.
        dropout: Dropout before the first layer.
    """

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
        """Return the logits of the token after each token, all at once (teacher forcing)."""
        return self.output(self.hidden(target, memory))

    def hidden(
        self,
        target: Int[Tensor, "b t"],
        memory: Memory | None = None,
        mask: Mask | None = None,
    ) -> Float[Tensor, "b t d"]:
        """Return the states before the output projection; causal unless a mask is given."""
        return self.read(
            self._embedded(target, 0), memory, masks.causal() if mask is None else mask
        )

    def cross_attentions(self) -> list[str]:
        """Return the dotted names of the attentions that read the memory."""
        layers = enumerate(self.blocks())
        return [f"layers.{i}.cross" for i, layer in layers if layer.cross is not None]

    def start(self, memory: Memory | None = None) -> TransformerState:
        """Return the state before the first token, with the keys and values of the memory."""
        states, _ = self.memory_parts(memory)
        mask = None if memory is None else memory.mask
        blind = mask is not None and not bool(mask.any(1).all())
        plain = type(self) is TransformerDecoder  # a subclass may do more
        return TransformerState(
            caches=tuple(KeyValueCache() for _ in self.layers),
            memories=() if states is None else tuple(x.project(states) for x in self.blocks()),
            memory_mask=None if mask is None or bool(mask.all()) else mask,
            length=0,
            fast_path=None if blind or not plain else FastPath.of(self, self.output),
        )

    def step(
        self, tokens: Int[Tensor, " b"], state: TransformerState
    ) -> tuple[Float[Tensor, "b v"], TransformerState]:
        """Append one token per row; return the logits of the next token and the new state."""
        if state.fast_path is None or torch.is_grad_enabled() or watchers.get():
            x, state = self.extend(tokens.unsqueeze(1), state)
            return self.output(x[:, -1]), state
        x = self._embedded(tokens.unsqueeze(1), state.length).squeeze(1)
        logits = state.fast_path(x, state.caches, state.memories, state.memory_mask)
        return logits, replace(state, length=state.length + 1)

    def extend(
        self, tokens: Int[Tensor, "b n"], state: TransformerState
    ) -> tuple[Float[Tensor, "b n d"], TransformerState]:
        """Append several tokens per row (a prompt); return their states and the new state."""
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
        """Return the state of these rows; the memory is copied only if rows of it are dropped."""
        kept, sharing = rows, 1
        if state.memories and not watchers.get():  # `watch` records each row by itself
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

    def _embedded(self, tokens: Tensor, start: int) -> Tensor:
        at = torch.arange(start, start + tokens.shape[1], device=tokens.device)
        return self.dropout(self.stem_norm(self.position.embed(self.embedding(tokens), at)))


def _shared(origin: Int[Tensor, " n"]) -> tuple[Int[Tensor, " m"], int]:
    """Return the rows of memory and how many readers share each.

    Rows are listed once if all have the same number of consecutive readers, else once per reader.
    """
    rows, readers = torch.unique_consecutive(origin, return_counts=True)
    count = len(origin) // max(1, len(rows))
    return (rows, count) if bool((readers == count).all()) else (origin, 1)


def _are_all(rows: Int[Tensor, " n"], count: int) -> bool:
    return len(rows) == count and torch.equal(rows, torch.arange(count, device=rows.device))


@dataclass(frozen=True, kw_only=True)
class TransformerDecoderConfig(BlockConfig):
    """Options of a Transformer decoder; its width is that of the model.

    kind         "transformer", self-attention in every layer
    num_layers   number of layers; fewer generate faster
    position     positional encoding of the tokens
    """

    kind: Literal["transformer"] = "transformer"
    num_layers: Count = 6
    position: PositionConfig = SinusoidalConfig()

    @property
    def widening(self) -> int:
        """By how much positions make the tokens wider."""
        return self.position.widening

    def token_dim(self, dim: int) -> int:
        """Return the width of the token embedding in a model of width `dim`."""
        return self.position.token_dim(dim)

    def conflicts(self) -> Iterator[Conflict]:
        """Yield the conflicts of a block, and a norm that reads later tokens."""
        yield from super().conflicts()
        if self.norm == "batch":
            reason = "normalises over all tokens, including later ones, so it cannot generate text"
            yield Conflict("norm", f"{reason}; use layer or rms")

    def build(
        self,
        embedding: TokenEmbedding,
        output: OutputProjection,
        dim: int,
        memory_dim: int | None = None,
    ) -> TransformerDecoder:
        """Build the decoder.

        Args:
            embedding: Embedding of the target tokens.
            output: Projection to logits.
            dim: Width of the decoder.
            memory_dim: Width of the memory; None for no cross-attention.
        """
        require_writable(self.position, "decoder.position")
        return TransformerDecoder(
            embedding,
            [TransformerDecoderLayer(dim, self, memory_dim) for _ in range(self.num_layers)],
            output,
            position=self.position.build(dim, self.head_width(dim), self.num_heads, causal=True),
            norm=self.make_last_norm(dim),
            dropout=self.dropout,
        )
