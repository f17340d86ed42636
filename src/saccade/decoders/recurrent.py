"""Recurrent decoders: one state after another, with and without attention to a memory.

    PlainDecoder      one context vector c for all steps:       s_t = f([y_{t-1}; c], s_{t-1})
    BahdanauDecoder   attention before the step, by s_{t-1}:    s_t = f([y_{t-1}; c_t], s_{t-1})
    LuongDecoder      attention after the step, by s_t:         s_t = f([y_{t-1}; r_{t-1}], s_{t-1})

All write from r_t = tanh(W_r [s_t; c_t]). (Sutskever et al. 2014 and Cho et al. 2014; Bahdanau et
al. 2015; Luong et al. 2015, whose r is h̃ and whose feeding of r_{t-1} is "input feeding".)
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import nn

from saccade.attention import AdditiveConfig, Attend, Prepared, ScoreConfig, masks
from saccade.attention.attend import one_call
from saccade.cancellation import raise_if_cancelled
from saccade.config import Conflict, Count, Fraction, without_effect
from saccade.interfaces import Memory
from saccade.layers.dropout import Dropout
from saccade.layers.embeddings import OutputProjection, TokenEmbedding
from saccade.layers.recurrent import Cell, Recurrent, RecurrentState, select_rows
from saccade.shapes import Bool, Float, Int, Tensor


@dataclass(frozen=True, kw_only=True)
class RecurrentDecoderConfig:
    """The options of a recurrent decoder.

    attention      "none" for one context vector, "before" each step (Bahdanau), "after" (Luong)
    feed_context   whether the context (before) or what was read out (after) goes into the cells
    dim            the width of a state
    """

    kind: Literal["recurrent"] = "recurrent"
    attention: Literal["none", "before", "after"] = "before"
    cell: Cell = "gru"
    dim: Count = 256
    num_layers: Count = 1
    score: ScoreConfig = AdditiveConfig()
    feed_context: bool = True
    dropout: Fraction = 0.2
    attention_dropout: Fraction = 0.0

    def conflicts(self) -> Iterator[Conflict]:
        """Options of attention where there is none."""
        if self.attention == "none":
            names = ["score", "feed_context", "attention_dropout"]
            yield from without_effect(self, names, 'with attention = "none"')

    def build(
        self,
        embedding: TokenEmbedding,
        output: OutputProjection,
        memory_dim: int,
        summary_dim: int,
    ) -> "RecurrentDecoder":
        """The decoder for a memory of states and a summary of these widths."""
        kinds: dict[str, type[RecurrentDecoder]] = {
            "none": PlainDecoder,
            "before": BahdanauDecoder,
            "after": LuongDecoder,
        }
        return kinds[self.attention](self, embedding, output, memory_dim, summary_dim)


@dataclass(frozen=True)
class RecurrentDecoderState:
    """What generation keeps: the cells' state, what is fed on, and the memory to read."""

    cells: RecurrentState
    fed: Float[Tensor, "b e"]
    keys: Float[Tensor, "b s r"] | None = None
    values: Float[Tensor, "b s d"] | None = None
    mask: Bool[Tensor, "b s"] | None = None


class RecurrentDecoder(nn.Module, ABC):
    """What the three have in common: embedding, cells, the first state, and the output."""

    def __init__(
        self,
        config: RecurrentDecoderConfig,
        embedding: TokenEmbedding,
        output: OutputProjection,
        memory_dim: int,
        summary_dim: int,
    ) -> None:
        super().__init__()
        self.dim, self.num_layers = config.dim, config.num_layers
        self.feed_context = config.feed_context
        context_dim, beside_dim = self.widths(memory_dim, summary_dim, output.dim)
        self.embedding = embedding
        self.recurrent = Recurrent(
            config.cell,
            embedding.dim + beside_dim,
            config.dim,
            config.num_layers,
            dropout=config.dropout,
        )
        self.bridge = nn.Linear(summary_dim, self.recurrent.num_parts * self.num_layers * self.dim)
        self.readout = nn.Linear(self.dim + context_dim, output.dim)
        self.dropout = Dropout(config.dropout)
        self.output = output

    @abstractmethod
    def widths(self, memory_dim: int, summary_dim: int, read_dim: int) -> tuple[int, int]:
        """Of the context that is read out, and of what goes into the cells beside the token."""

    def forward(self, target: Int[Tensor, "b t"], memory: Memory) -> Float[Tensor, "b t v"]:
        """Logits of what follows each token (teacher forcing)."""
        return self.output(self.hidden(target, memory))

    def hidden(self, target: Int[Tensor, "b t"], memory: Memory) -> Float[Tensor, "b t d"]:
        """What `output` turns into logits, step by step."""
        state, read = self.start(memory), []
        for x in self.dropout(self.embedding(target)).unbind(1):
            raise_if_cancelled()
            one, state = self.advance(x, state)
            read.append(one)
        return torch.stack(read, 1)

    def cross_attentions(self) -> list[str]:
        """The names of the attentions that read the memory: none here."""
        return []

    @abstractmethod
    def start(self, memory: Memory) -> RecurrentDecoderState:
        """The state before the first token."""

    @abstractmethod
    def advance(
        self, x: Float[Tensor, "b d"], state: RecurrentDecoderState
    ) -> tuple[Float[Tensor, "b e"], RecurrentDecoderState]:
        """One step: the vector of the token written last -> r_t and the state after it."""

    def step(
        self, tokens: Int[Tensor, " b"], state: RecurrentDecoderState
    ) -> tuple[Float[Tensor, "b v"], RecurrentDecoderState]:
        """One more token for each row; the logits of what follows it."""
        x, state = self.advance(self.dropout(self.embedding(tokens.unsqueeze(1))[:, 0]), state)
        return self.output(x), state

    def select(
        self, state: RecurrentDecoderState, rows: Int[Tensor, " n"]
    ) -> RecurrentDecoderState:
        """The state of these rows."""
        chosen = (
            None if part is None else part.index_select(0, rows)
            for part in (state.fed, state.keys, state.values, state.mask)
        )
        return RecurrentDecoderState(select_rows(state.cells, rows), *chosen)  # type: ignore[arg-type]

    def _first_cells(self, memory: Memory) -> RecurrentState:
        """s_0 = tanh(W_b summary), for every layer and part."""
        flat = torch.tanh(self.bridge(memory.pooled()))
        parts = flat.view(flat.shape[0], self.recurrent.num_parts, self.num_layers, self.dim)
        return tuple(part.transpose(0, 1).contiguous() for part in parts.unbind(1))

    def _cells(self, inputs: Tensor, cells: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """One step of the cells: the state of the top layer, and of all."""
        states, cells = self.recurrent(inputs.unsqueeze(1), cells)
        return states[:, 0], cells

    def _read_out(self, states: Tensor, context: Tensor) -> Tensor:
        return self.dropout(torch.tanh(self.readout(torch.cat((states, context), -1))))


class PlainDecoder(RecurrentDecoder):
    """No attention: the reader's summary is all there is, given to every step."""

    def widths(self, memory_dim: int, summary_dim: int, read_dim: int) -> tuple[int, int]:
        """The summary, twice."""
        return summary_dim, summary_dim

    def hidden(self, target: Int[Tensor, "b t"], memory: Memory) -> Float[Tensor, "b t d"]:
        """All steps in one call of the cells, since no step waits for another's context."""
        state, x = self.start(memory), self.dropout(self.embedding(target))
        context = state.fed.unsqueeze(1).expand(-1, x.shape[1], -1)
        states, _ = self.recurrent(torch.cat((x, context), -1), state.cells)
        return self._read_out(states, context)

    def start(self, memory: Memory) -> RecurrentDecoderState:
        """The summary becomes the first state and the context of every step."""
        return RecurrentDecoderState(self._first_cells(memory), memory.pooled())

    def advance(
        self, x: Float[Tensor, "b d"], state: RecurrentDecoderState
    ) -> tuple[Float[Tensor, "b e"], RecurrentDecoderState]:
        """One step with the same context as all others."""
        states, cells = self._cells(torch.cat((x, state.fed), -1), state.cells)
        return self._read_out(states, state.fed), replace(state, cells=cells)


class AttentiveDecoder(RecurrentDecoder):
    """A recurrent decoder that reads the memory at each step, by any score."""

    def __init__(
        self,
        config: RecurrentDecoderConfig,
        embedding: TokenEmbedding,
        output: OutputProjection,
        memory_dim: int,
        summary_dim: int,
    ) -> None:
        super().__init__(config, embedding, output, memory_dim, summary_dim)
        self.attend = Attend(config.score.build(config.dim, memory_dim), config.attention_dropout)

    @property
    def fed_dim(self) -> int:
        """How many numbers of one step go into the cells of the next."""
        return 0

    def cross_attentions(self) -> list[str]:
        """Its own."""
        return [""]

    def start(self, memory: Memory) -> RecurrentDecoderState:
        """The summary becomes the first state; the keys are prepared for all steps."""
        cells = self._first_cells(memory)
        fed = memory.states.new_zeros(memory.states.shape[0], self.fed_dim)
        keys = self.attend.prepare(memory.states).keys
        return RecurrentDecoderState(cells, fed, keys, memory.states, memory.mask)

    def hidden(self, target: Int[Tensor, "b t"], memory: Memory) -> Float[Tensor, "b t d"]:
        """Step by step, seen by `watch` as one call with a query for each step."""
        with one_call(self.attend):
            return super().hidden(target, memory)

    def _context(self, query: Tensor, state: RecurrentDecoderState) -> Tensor:
        assert state.keys is not None
        assert state.values is not None
        mask = None if state.mask is None else masks.padding(state.mask)
        return self.attend(query.unsqueeze(1), Prepared(state.keys), state.values, mask)[:, 0]


class BahdanauDecoder(AttentiveDecoder):
    """Attention before the step, by the state before it.

    With `feed_context` the context is concatenated to the input of the cells; without it, it is
    only read out.
    """

    def widths(self, memory_dim: int, summary_dim: int, read_dim: int) -> tuple[int, int]:
        """The context, twice."""
        return memory_dim, memory_dim if self.feed_context else 0

    def advance(
        self, x: Float[Tensor, "b d"], state: RecurrentDecoderState
    ) -> tuple[Float[Tensor, "b e"], RecurrentDecoderState]:
        """c_t by s_{t-1}, then s_t."""
        states, context, state = self._walk(x, state)
        return self._read_out(states, context), state

    def hidden(self, target: Int[Tensor, "b t"], memory: Memory) -> Float[Tensor, "b t d"]:
        """Step by step; what is read out is fed to no step, so it is computed for all at once."""
        state, walked = self.start(memory), []
        with one_call(self.attend):
            for x in self.dropout(self.embedding(target)).unbind(1):
                states, context, state = self._walk(x, state)
                walked.append((states, context))
        states, context = (torch.stack(parts, 1) for parts in zip(*walked, strict=True))
        return self._read_out(states, context)

    def _walk(
        self, x: Tensor, state: RecurrentDecoderState
    ) -> tuple[Tensor, Tensor, RecurrentDecoderState]:
        context = self._context(state.cells[0][-1], state)
        inputs = torch.cat((x, context), -1) if self.feed_context else x
        states, cells = self._cells(inputs, state.cells)
        return states, context, replace(state, cells=cells)


class LuongDecoder(AttentiveDecoder):
    """Attention after the step, by the state after it.

    With `feed_context` (input feeding) r_{t-1} is concatenated to the input of the cells; without
    it no step waits for another's context, and all are computed at once.
    """

    def widths(self, memory_dim: int, summary_dim: int, read_dim: int) -> tuple[int, int]:
        """The context, and what was read out before."""
        return memory_dim, read_dim if self.feed_context else 0

    @property
    def fed_dim(self) -> int:
        """The width of r_{t-1}, where it is fed on."""
        return self.readout.out_features if self.feed_context else 0

    def hidden(self, target: Int[Tensor, "b t"], memory: Memory) -> Float[Tensor, "b t d"]:
        """All steps at once where nothing is fed on, step by step where it is."""
        if self.feed_context:
            return super().hidden(target, memory)
        x = self.dropout(self.embedding(target))
        states, _ = self.recurrent(x, self._first_cells(memory))
        mask = None if memory.mask is None else masks.padding(memory.mask)
        context = self.attend(states, memory.states, memory.states, mask)
        return self._read_out(states, context)

    def advance(
        self, x: Float[Tensor, "b d"], state: RecurrentDecoderState
    ) -> tuple[Float[Tensor, "b e"], RecurrentDecoderState]:
        """s_t, then c_t by it."""
        inputs = torch.cat((x, state.fed), -1) if self.feed_context else x
        states, cells = self._cells(inputs, state.cells)
        read = self._read_out(states, self._context(states, state))
        fed = read if self.feed_context else state.fed
        return read, replace(state, cells=cells, fed=fed)
