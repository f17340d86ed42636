"""Learned: one vector a place, learned like any other weight (Gehring et al. 2017; Devlin 2019)."""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import nn

from saccade.config import Count
from saccade.errors import PositionError
from saccade.positions.base import (
    Absolute,
    AbsoluteConfig,
    Fuse,
    Grid,
    Places,
    Position,
    grid_for,
)
from saccade.shapes import Float, Tensor


class Learned(Absolute):
    """A table of `length` vectors; a place beyond it is an error, never a silent wrap.

    For images `length` is (height, width): the table then has a vector for every cell, row by
    row, after one for the tokens that stand nowhere.
    """

    def __init__(self, dim: int, length: int | tuple[int, int], *, fuse: Fuse = "add") -> None:
        super().__init__(dim, fuse)
        self.length = length
        rows = length if isinstance(length, int) else 1 + length[0] * length[1]
        self.weight = nn.Parameter(torch.empty(rows, dim))
        nn.init.normal_(self.weight, std=0.02)

    def table(self, at: Places, dtype: torch.dtype) -> Float[Tensor, "*b n d"]:
        return nn.functional.embedding(self._index(at), self.weight).to(dtype)

    def _index(self, at: Places) -> Tensor:
        if isinstance(self.length, int):
            if isinstance(at, Grid):
                raise PositionError(
                    "this learned table is for text; for an image build it with "
                    "length=(height, width)"
                )
            _require_below(at, self.length, "place")
            return at
        if not isinstance(at, Grid):
            raise PositionError("this learned table is for an image and needs a Grid of places")
        height, width = self.length
        _require_below(at.rows, height, "row")
        _require_below(at.columns, width, "column")
        return torch.where(at.placed, 1 + at.rows * width + at.columns, 0)


def _require_below(at: Tensor, length: int, name: str) -> None:
    largest = int(at.max()) if at.numel() else -1
    if largest >= length:
        raise PositionError(
            f"{name} {largest} (counted from 0) is beyond the {length} places of this learned "
            "table; shorten the input, or use sinusoidal, relative or rotary positions"
        )


@dataclass(frozen=True, kw_only=True)
class LearnedConfig(AbsoluteConfig):
    """A learned table.

    length   the number of places in a text
    grid     (height, width) in cells for an image; left out, it is as large as the image
    """

    encoding: ClassVar[type[Position]] = Learned
    text_only: ClassVar[tuple[str, ...]] = ("length",)
    grid_only: ClassVar[tuple[str, ...]] = ("grid",)

    kind: Literal["learned"] = "learned"
    length: Count = 512
    grid: tuple[Count, Count] | None = None

    @property
    def places(self) -> int:
        """The length of the table."""
        return self.length

    def with_cells(self, cells: tuple[int, int]) -> "LearnedConfig":
        """A table for these cells."""
        return replace(self, grid=grid_for(self.grid, cells))

    def make(self, dim: int, head_dim: int) -> Learned:
        """A table for an image if there is a grid, else for text."""
        return Learned(self.widening or dim, self.grid or self.length, fuse=self.fuse)
