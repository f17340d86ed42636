"""Recurrent decoders, with and without attention to a memory.

    PlainDecoder      one context vector c for all steps:       s_t = f([y_{t-1}; c], s_{t-1})
    BahdanauDecoder   attention before the step, by s_{t-1}:    s_t = f([y_{t-1}; c_t], s_{t-1})
    LuongDecoder      attention after the step, by s_t:         s_t = f([y_{t-1}; r_{t-1}], s_{t-1})

All compute logits from r_t = tanh(W_r [s_t; c_t]). (Sutskever et al. 2014 and Cho et al. 2014;
Bahdanau et al. 2015; Luong et al. 2015, whose r is h̃ and whose feeding of r_{t-1} is "input
feeding".)
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
    """Options of a recurrent decoder.

    kind                "recurrent", one state after another
    attention           "none": one context vector for all steps; "before" each step (Bahdanau);
                        "after" each step (Luong)
    cell                "rnn", "gru" or "lstm"; gru and lstm remember longer than rnn
    dim                 width of a state
    num_layers          number of layers
    score               how attention compares the state with the memory
    feed_context        whether the context ("before") or the readout of the previous step ("after",
                        input feeding) is an input of the cells
    dropout             dropout on the embeddings, between layers and on the readout, a fraction;
                        raise it for small data
    attention_dropout   dropout on the attention weights, a fraction
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

    @property
    def widening(self) -> int:
        """By how much positions make the tokens wider: there are none."""
        return 0

    def token_dim(self, dim: int) -> int:
        """Return the width of the token embedding in a model of width `dim`."""
        return dim

    def conflicts(self) -> Iterator[Conflict]:
        """Yield the options of attention that are set although there is none."""
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
        """Build the decoder.

        Args:
            embedding: Embedding of the target tokens.
            output: Projection to logits.
            memory_dim: Width of the states of the memory.
            summary_dim: Width of the summary of the memory.
        """
        kinds: dict[str, type[RecurrentDecoder]] = {
            "none": PlainDecoder,
            "before": BahdanauDecoder,
            "after": LuongDecoder,
        }
        return kinds[self.attention](self, embedding, output, memory_dim, summary_dim)


@dataclass(frozen=True)
class RecurrentDecoderState:
    """The state of generation.

    Attributes:
        cells: State of the recurrent network.
        fed: Additional input of the next step: the summary, or the previous readout.
        keys: Prepared keys of the memory; None without attention.
        values: States of the memory; None without attention.
        mask: True at real states of the memory; None if all are real.
    """

    cells: RecurrentState
    fed: Float[Tensor, "b e"]
    keys: Float[Tensor, "b s r"] | None = None
    values: Float[Tensor, "b s d"] | None = None
    mask: Bool[Tensor, "b s"] | None = None


class RecurrentDecoder(nn.Module, ABC):
    """Base class of recurrent decoders: embedding, cells, initial state and output.

    Args:
        config: Options of the decoder.
        embedding: Embedding of the target tokens.
        output: Projection to logits.
        memory_dim: Width of the states of the memory.
        summary_dim: Width of the summary of the memory.
    """

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
        context_dim, input_dim = self.widths(memory_dim, summary_dim, output.dim)
        self.embedding = embedding
        self.recurrent = Recurrent(
            config.cell,
            embedding.dim + input_dim,
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
        """Return the widths of the context, and of the input of the cells beside the token."""

    def forward(self, target: Int[Tensor, "b t"], memory: Memory) -> Float[Tensor, "b t v"]:
        """Return the logits of the token after each token (teacher forcing)."""
        return self.output(self.hidden(target, memory))

    def hidden(self, target: Int[Tensor, "b t"], memory: Memory) -> Float[Tensor, "b t d"]:
        """Return the states before the output projection, computed step by step."""
        state, readouts = self.start(memory), []
        for x in self.dropout(self.embedding(target)).unbind(1):
            raise_if_cancelled()
            readout, state = self.advance(x, state)
            readouts.append(readout)
        return torch.stack(readouts, 1)

    def cross_attentions(self) -> list[str]:
        """Return the dotted names of the attentions that read the memory: none here."""
        return []

    @abstractmethod
    def start(self, memory: Memory) -> RecurrentDecoderState:
        """Return the state before the first token."""

    @abstractmethod
    def advance(
        self, x: Float[Tensor, "b d"], state: RecurrentDecoderState
    ) -> tuple[Float[Tensor, "b e"], RecurrentDecoderState]:
        """Append one embedded token per row; return r_t and the new state."""

    def step(
        self, tokens: Int[Tensor, " b"], state: RecurrentDecoderState
    ) -> tuple[Float[Tensor, "b v"], RecurrentDecoderState]:
        """Append one token per row; return the logits of the next token and the new state."""
        x, state = self.advance(self.dropout(self.embedding(tokens.unsqueeze(1))[:, 0]), state)
        return self.output(x), state

    def select(
        self, state: RecurrentDecoderState, rows: Int[Tensor, " n"]
    ) -> RecurrentDecoderState:
        """Return the state of these rows."""
        chosen = (
            None if part is None else part.index_select(0, rows)
            for part in (state.fed, state.keys, state.values, state.mask)
        )
        return RecurrentDecoderState(select_rows(state.cells, rows), *chosen)  # type: ignore[arg-type]

    def _first_cells(self, memory: Memory) -> RecurrentState:
        """Return s_0 = tanh(W_b summary), for every layer and part of the state."""
        flat = torch.tanh(self.bridge(memory.pooled()))
        parts = flat.view(flat.shape[0], self.recurrent.num_parts, self.num_layers, self.dim)
        return tuple(part.transpose(0, 1).contiguous() for part in parts.unbind(1))

    def _cells(self, inputs: Tensor, cells: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """Run the cells for one step; return the state of the top layer, and of all."""
        states, cells = self.recurrent(inputs.unsqueeze(1), cells)
        return states[:, 0], cells

    def _read_out(self, states: Tensor, context: Tensor) -> Tensor:
        return self.dropout(torch.tanh(self.readout(torch.cat((states, context), -1))))


class PlainDecoder(RecurrentDecoder):
    """Recurrent decoder without attention: every step gets the summary of the encoder."""

    def widths(self, memory_dim: int, summary_dim: int, read_dim: int) -> tuple[int, int]:
        """Return the width of the summary, twice."""
        return summary_dim, summary_dim

    def hidden(self, target: Int[Tensor, "b t"], memory: Memory) -> Float[Tensor, "b t d"]:
        """Return the states before the output projection, all steps in one call of the cells."""
        state, x = self.start(memory), self.dropout(self.embedding(target))
        context = state.fed.unsqueeze(1).expand(-1, x.shape[1], -1)
        states, _ = self.recurrent(torch.cat((x, context), -1), state.cells)
        return self._read_out(states, context)

    def start(self, memory: Memory) -> RecurrentDecoderState:
        """Return the initial state; the summary is the context of every step."""
        return RecurrentDecoderState(self._first_cells(memory), memory.pooled())

    def advance(
        self, x: Float[Tensor, "b d"], state: RecurrentDecoderState
    ) -> tuple[Float[Tensor, "b e"], RecurrentDecoderState]:
        """Append one embedded token per row, with the same context as at all other steps."""
        states, cells = self._cells(torch.cat((x, state.fed), -1), state.cells)
        return self._read_out(states, state.fed), replace(state, cells=cells)


class AttentiveDecoder(RecurrentDecoder):
    """Base class of recurrent decoders with attention to the memory at each step."""

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
        """The width of what one step feeds to the next."""
        return 0

    def cross_attentions(self) -> list[str]:
        """Return the name of its own attention."""
        return [""]

    def start(self, memory: Memory) -> RecurrentDecoderState:
        """Return the initial state, with keys prepared for all steps."""
        cells = self._first_cells(memory)
        fed = memory.states.new_zeros(memory.states.shape[0], self.fed_dim)
        keys = self.attend.prepare(memory.states).keys
        return RecurrentDecoderState(cells, fed, keys, memory.states, memory.mask)

    def hidden(self, target: Int[Tensor, "b t"], memory: Memory) -> Float[Tensor, "b t d"]:
        """Return the states before the output projection; `watch` records all steps as one."""
        with one_call(self.attend):
            return super().hidden(target, memory)

    def _context(self, query: Tensor, state: RecurrentDecoderState) -> Tensor:
        assert state.keys is not None
        assert state.values is not None
        mask = None if state.mask is None else masks.padding(state.mask)
        return self.attend(query.unsqueeze(1), Prepared(state.keys), state.values, mask)[:, 0]


class BahdanauDecoder(AttentiveDecoder):
    """Recurrent decoder with attention before each step, by s_{t-1} (Bahdanau et al. 2015).

    With `feed_context` the context is concatenated to the input of the cells; without, it is used
    in the readout only.
    """

    def widths(self, memory_dim: int, summary_dim: int, read_dim: int) -> tuple[int, int]:
        """Return the width of the context, twice with `feed_context`."""
        return memory_dim, memory_dim if self.feed_context else 0

    def advance(
        self, x: Float[Tensor, "b d"], state: RecurrentDecoderState
    ) -> tuple[Float[Tensor, "b e"], RecurrentDecoderState]:
        """Compute c_t by s_{t-1}, then s_t."""
        states, context, state = self._step_cells(x, state)
        return self._read_out(states, context), state

    def hidden(self, target: Int[Tensor, "b t"], memory: Memory) -> Float[Tensor, "b t d"]:
        """Return the states before the output projection; the readout is computed at once."""
        state, steps = self.start(memory), []
        with one_call(self.attend):
            for x in self.dropout(self.embedding(target)).unbind(1):
                states, context, state = self._step_cells(x, state)
                steps.append((states, context))
        states, context = (torch.stack(parts, 1) for parts in zip(*steps, strict=True))
        return self._read_out(states, context)

    def _step_cells(
        self, x: Tensor, state: RecurrentDecoderState
    ) -> tuple[Tensor, Tensor, RecurrentDecoderState]:
        context = self._context(state.cells[0][-1], state)
        inputs = torch.cat((x, context), -1) if self.feed_context else x
        states, cells = self._cells(inputs, state.cells)
        return states, context, replace(state, cells=cells)


class LuongDecoder(AttentiveDecoder):
    """Recurrent decoder with attention after each step, by s_t (Luong et al. 2015).

    With `feed_context` (input feeding) r_{t-1} is concatenated to the input of the cells; without,
    no step waits for the context of another, and all are computed at once.
    """

    def widths(self, memory_dim: int, summary_dim: int, read_dim: int) -> tuple[int, int]:
        """Return the widths of the context and, with `feed_context`, of the readout."""
        return memory_dim, read_dim if self.feed_context else 0

    @property
    def fed_dim(self) -> int:
        """The width of r_{t-1} with `feed_context`, else 0."""
        return self.readout.out_features if self.feed_context else 0

    def hidden(self, target: Int[Tensor, "b t"], memory: Memory) -> Float[Tensor, "b t d"]:
        """Return the states before the output projection, step by step only with `feed_context`."""
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
        """Compute s_t, then c_t by s_t."""
        inputs = torch.cat((x, state.fed), -1) if self.feed_context else x
        states, cells = self._cells(inputs, state.cells)
        readout = self._read_out(states, self._context(states, state))
        fed = readout if self.feed_context else state.fed
        return readout, replace(state, cells=cells, fed=fed)
