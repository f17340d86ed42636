"""Relative positions in images (Bello et al. 2019)."""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import nn

from saccade.config import Count
from saccade.errors import PositionError
from saccade.positions.base import BasePositionConfig, Grid, Places, Position, Sizes, grid_for
from saccade.positions.relative import by_distance
from saccade.shapes import Float, Tensor


class Relative2d(Position):
    """Relative positions: a bias by the distance in rows and columns (Bello et al. 2019, eq. 3).

        b(q_i, j) = (q_i · r^H_{row j - row i} + q_i · r^W_{column j - column i}) / √d

    There are 2 · height - 1 vectors r^H and 2 · width - 1 vectors r^W, shared by the heads. The
    bias of a token without a place is 0. For images.

    Args:
        head_dim: Width of a head.
        height: Largest number of rows.
        width: Largest number of columns.
    """

    on_text = False
    acts_inside = True

    def __init__(self, head_dim: int, height: int, width: int) -> None:
        super().__init__()
        self.height, self.width = height, width
        self.row_weight = nn.Parameter(torch.empty(2 * height - 1, head_dim))
        self.column_weight = nn.Parameter(torch.empty(2 * width - 1, head_dim))
        for weight in (self.row_weight, self.column_weight):
            nn.init.normal_(weight, std=head_dim**-0.5)

    def bias(
        self, query: Float[Tensor, "*b q d"], at_q: Places, at_k: Places
    ) -> Float[Tensor, "*b q k"]:
        if not (isinstance(at_q, Grid) and isinstance(at_k, Grid)):
            raise PositionError(
                "Relative2d works on images and needs a Grid of places; use Relative for text"
            )
        rows = self._index(at_q.rows, at_k.rows, self.height, "rows")
        columns = self._index(at_q.columns, at_k.columns, self.width, "columns")
        both = by_distance(query, self.row_weight, rows) + by_distance(
            query, self.column_weight, columns
        )
        return both * (at_q.placed[:, None] & at_k.placed)

    @staticmethod
    def _index(at_q: Tensor, at_k: Tensor, size: int, name: str) -> Tensor:
        distance = at_k.clamp(min=0) - at_q.clamp(min=0)[:, None]
        farthest = int(distance.abs().max())
        if farthest >= size:
            raise PositionError(
                f"two cells are {farthest} {name} apart, this encoding was built for {size} {name};"
                " use a smaller image, or build it for a larger grid"
            )
        return distance + size - 1

    def extra_repr(self) -> str:
        return f"head_dim={self.row_weight.shape[1]}, {self.height}x{self.width}"


@dataclass(frozen=True, kw_only=True)
class Relative2dConfig(BasePositionConfig):
    """Options of relative positions in images.

    grid   (height, width) of the largest image, in cells; default: that of the images of the data.
           Set it to read larger images later
    """

    encoding: ClassVar[type[Position]] = Relative2d
    kind: Literal["relative_2d"] = "relative_2d"
    grid: tuple[Count, Count] | None = None

    def with_cells(self, cells: tuple[int, int]) -> "Relative2dConfig":
        """Return the options for distances between these cells."""
        return replace(self, grid=grid_for(self.grid, cells))

    def make(self, sizes: Sizes) -> Relative2d:
        """Build the encoding for heads of their width; the grid must be known."""
        if self.grid is None:
            raise PositionError(
                'position.kind = "relative_2d" needs the size of the image in cells; give '
                "position.grid = [height, width]"
            )
        return Relative2d(sizes.head_dim, *self.grid)
