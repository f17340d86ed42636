"""Conditional: a place is known by its neighbours (Chu et al. 2021, CPE by a PEG)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import nn

from saccade.config import Count
from saccade.errors import PositionError, RecipeError
from saccade.positions.base import BasePositionConfig, Grid, Places, Position
from saccade.shapes import Float, Tensor


class Conditional(Position):
    """x + depthwise convolution of x over the grid it stands on, borders padded with zeros.

    There is no table, so any resolution works; away from the borders a moved image gives moved
    encodings. Tokens that stand nowhere pass as they are. Text is a grid of one row; since every
    token reads its neighbours on both sides this is for encoders, not for generation.
    """

    mixes_tokens = True

    def __init__(self, dim: int, kernel_size: int = 3) -> None:
        super().__init__()
        if kernel_size % 2 == 0:
            raise PositionError(f"Conditional needs an odd kernel_size, got {kernel_size}")
        self.convolution = nn.Conv2d(
            dim, dim, kernel_size, padding=kernel_size // 2, groups=dim, bias=True
        )

    def embed(self, x: Float[Tensor, "*b n d"], at: Places) -> Float[Tensor, "*b n d"]:
        if isinstance(at, Grid):
            rows, columns, placed = at.rows, at.columns, at.placed
        else:
            if at.ndim != 1:
                raise PositionError("Conditional takes one row of places for the whole batch")
            rows, columns, placed = at * 0, at - at.min(), at >= 0
        height, width = int(rows.max()) + 1, int(columns.max()) + 1
        cell = (rows * width + columns)[placed]
        batch, dim = x.shape[:-2], x.shape[-1]
        grid = x.new_zeros(*batch, height * width, dim)
        grid[..., cell, :] = x[..., placed, :]
        image = grid.reshape(-1, height, width, dim).permute(0, 3, 1, 2)
        read = self.convolution(image).permute(0, 2, 3, 1).reshape(*batch, height * width, dim)
        out = x.clone()
        out[..., placed, :] = x[..., placed, :] + read[..., cell, :]
        return out


@dataclass(frozen=True, kw_only=True)
class ConditionalConfig(BasePositionConfig):
    """Positions computed from the neighbourhood.

    kernel_size   the side of the neighbourhood that a token reads, an odd number of cells
    """

    encoding: ClassVar[type[Position]] = Conditional
    kind: Literal["conditional"] = "conditional"
    kernel_size: Count = 3

    def __post_init__(self) -> None:
        if self.kernel_size % 2 == 0:
            raise RecipeError(
                f"kernel_size is {self.kernel_size}, and a token has as many neighbours on either "
                "side; use an odd number"
            )

    def make(self, dim: int, head_dim: int) -> Conditional:
        """The encoding of tokens of width `dim`."""
        return Conditional(dim, self.kernel_size)
