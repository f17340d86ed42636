"""Learned positions (Gehring et al. 2017; Devlin et al. 2019)."""

import math
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
    Sizes,
    grid_for,
)
from saccade.shapes import Float, Tensor


class Learned(Absolute):
    """Learned positions: one learned vector per place (Gehring et al. 2017; Devlin et al. 2019).

    A place beyond the table raises `PositionError`.

    Args:
        dim: Width of the vectors.
        length: Number of places in a text. For images (height, width) in cells: the table has one
            vector for tokens without a place, then one per cell, row by row.
        fuse: "add" the vectors to the tokens, or "concat" them.
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
                    "this learned table is for text, got the places of an image; build it with "
                    "length=(height, width)"
                )
            _require_below(at, self.length, "place")
            return at
        if not isinstance(at, Grid):
            raise PositionError(
                "this learned table is for an image and needs a Grid of places; build it with an "
                "integer length for text"
            )
        height, width = self.length
        _require_below(at.rows, height, "row")
        _require_below(at.columns, width, "column")
        return torch.where(at.placed, 1 + at.rows * width + at.columns, 0)


def resized(table: Float[Tensor, "n d"], grid: tuple[int, int]) -> Float[Tensor, "m d"]:
    """Return the table of a square image for an image of another size.

    The vectors of the cells are interpolated by cubic polynomials, as transformers does for ViT.

    Args:
        table: The weight of a `Learned` table for a square grid.
        grid: The number of cells (down, across).

    Raises:
        PositionError: If the table is not that of a square grid.
    """
    side = math.isqrt(len(table) - 1)
    if side * side != len(table) - 1:
        raise PositionError(
            f"a table of {len(table) - 1} cells is not that of a square image, and its height is "
            "not known; use images of the size that it was trained on"
        )
    cells = table[1:].T.reshape(1, -1, side, side)
    cells = nn.functional.interpolate(cells, size=grid, mode="bicubic", align_corners=False)
    return torch.cat((table[:1], cells[0].flatten(1).T))


def _require_below(at: Tensor, length: int, name: str) -> None:
    largest = int(at.max()) if at.numel() else -1
    if largest >= length:
        raise PositionError(
            f"{name} {largest} (counted from 0) is beyond the {length} places of this learned "
            "table; shorten the input, or use sinusoidal, relative or rotary positions"
        )


@dataclass(frozen=True, kw_only=True)
class LearnedConfig(AbsoluteConfig):
    """Options of a learned table of positions.

    length   number of places in a text, in tokens; raise it to read longer texts
    grid     (height, width) of the table for images, in cells; default: as large as the image. Set
             it to read larger images later
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
        """Return the options of a table for these cells."""
        return replace(self, grid=grid_for(self.grid, cells))

    def make(self, sizes: Sizes) -> Learned:
        """Build a table for an image if there is a grid, else for text."""
        return Learned(self.widening or sizes.dim, self.grid or self.length, fuse=self.fuse)
