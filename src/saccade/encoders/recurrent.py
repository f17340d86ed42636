"""The recurrent encoder, in one direction or in both."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from saccade.config import Conflict, Count, Fraction
from saccade.interfaces import Memory
from saccade.layers.dropout import Dropout
from saccade.layers.recurrent import Cell, Recurrent
from saccade.positions import NoPositionConfig, Position, PositionConfig
from saccade.positions.config import recurrent_conflicts
from saccade.shapes import Bool, Tensor


class RecurrentEncoder(nn.Module):
    """Recurrent encoder (the annotations of Bahdanau et al. 2015, section 3.2).

        h_i = f(x_i, h_{i-1}),    with `bidirectional` also from the end, the two concatenated

    The summary of the memory is the last state of each direction, all that a decoder without
    attention sees.

    Args:
        stem: A module that turns inputs into vectors with places, see `encoders.stems`.
        input_dim: Width of these vectors, concatenated positions included.
        dim: Width of the state of one direction.
        cell: "rnn", "gru" or "lstm".
        num_layers: Number of layers.
        bidirectional: Read from both ends.
        dropout: Dropout on the vectors, between layers and on the states.
        position: Positional encoding; none if None.
    """

    def __init__(
        self,
        stem: nn.Module,
        input_dim: int,
        dim: int,
        *,
        cell: Cell = "gru",
        num_layers: int = 1,
        bidirectional: bool = True,
        dropout: float = 0.0,
        position: Position | None = None,
    ) -> None:
        super().__init__()
        self.stem = stem
        self.position = Position() if position is None else position
        self.dropout = Dropout(dropout)
        self.recurrent = Recurrent(
            cell, input_dim, dim, num_layers, bidirectional=bidirectional, dropout=dropout
        )
        self.num_directions = 2 if bidirectional else 1

    def forward(self, *inputs: Tensor | None, mask: Bool[Tensor, "b n"] | None = None) -> Memory:
        """Encode the inputs of the stem; `mask` is True at real tokens, padding is not read."""
        x, places = self.stem(*inputs)
        x = self.dropout(self.position.encode(x, places, mask))
        states, last = self.recurrent(x, mask=mask)
        ends = last[0][-self.num_directions :]
        return Memory(self.dropout(states), mask, torch.cat(tuple(ends), -1))


@dataclass(frozen=True, kw_only=True)
class RecurrentEncoderConfig:
    """Options of a recurrent encoder.

    kind            "recurrent", one state after another
    cell            "rnn", "gru" or "lstm"; gru and lstm remember longer than rnn
    dim             width of the state of one direction
    num_layers      number of layers
    bidirectional   whether to read from both ends; the states are then 2 · dim wide
    dropout         dropout on the embeddings, between layers and on the states, a fraction; raise
                    it for small data
    position        positional encoding of the tokens; usually none, since the order is in the
                    recurrence
    """

    kind: Literal["recurrent"] = "recurrent"
    cell: Cell = "gru"
    dim: Count = 256
    num_layers: Count = 1
    bidirectional: bool = True
    dropout: Fraction = 0.2
    position: PositionConfig = NoPositionConfig()

    @property
    def memory_dim(self) -> int:
        """The width of the states."""
        return self.dim * (2 if self.bidirectional else 1)

    def token_dim(self, dim: int) -> int:
        """Return the width of the token embedding in a model of width `dim`."""
        return self.position.token_dim(dim)

    def states_dim(self, dim: int) -> int:
        """Return the width of the states in a model of width `dim`."""
        return self.memory_dim

    def conflicts(self) -> Iterator[Conflict]:
        """Yield a conflict if the positions act inside attention."""
        yield from recurrent_conflicts(self.position, "position")

    def build(self, stem: nn.Module, dim: int) -> RecurrentEncoder:
        """Build the encoder behind a stem of vectors of width `dim`, positions included."""
        return RecurrentEncoder(
            stem,
            dim,
            self.dim,
            cell=self.cell,
            num_layers=self.num_layers,
            bidirectional=self.bidirectional,
            dropout=self.dropout,
            position=self.position.build(dim, dim),
        )
