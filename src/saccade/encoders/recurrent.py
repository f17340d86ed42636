"""The recurrent encoder: one state after another, in one direction or in both."""

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
    """h_i = f(x_i, h_{i-1}); with `bidirectional` also from the end, the two concatenated.

    The annotations of Bahdanau et al. (2015, section 3.2). The memory's summary is the last state
    of each direction: all that a writer without attention gets to see.
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
        """Read what the stem takes; `mask` is True at real tokens, padding is not read."""
        x, places = self.stem(*inputs)
        x = self.dropout(self.position.encode(x, places, mask))
        states, last = self.recurrent(x, mask=mask)
        ends = last[0][-self.num_directions :]
        return Memory(self.dropout(states), mask, torch.cat(tuple(ends), -1))


@dataclass(frozen=True, kw_only=True)
class RecurrentEncoderConfig:
    """The options of a recurrent encoder; `dim` is the width of one direction's state."""

    kind: Literal["recurrent"] = "recurrent"
    cell: Cell = "gru"
    dim: Count = 256
    num_layers: Count = 1
    bidirectional: bool = True
    dropout: Fraction = 0.2
    position: PositionConfig = NoPositionConfig()

    @property
    def memory_dim(self) -> int:
        """The width of the states it gives."""
        return self.dim * (2 if self.bidirectional else 1)

    def conflicts(self) -> Iterator[Conflict]:
        """Positions that act inside attention."""
        yield from recurrent_conflicts(self.position, "position")

    def build(self, stem: nn.Module, dim: int) -> RecurrentEncoder:
        """The encoder behind a stem of vectors of width `dim` (positions included)."""
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
