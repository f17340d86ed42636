"""Conditional positional encodings, computed from neighbouring tokens (Chu et al. 2021)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import nn

from saccade.config import Count
from saccade.errors import PositionError, RecipeError
from saccade.positions.base import BasePositionConfig, Grid, Places, Position, Sizes
from saccade.shapes import Float, Tensor


class Conditional(Position):
    """Conditional positions: each token plus a convolution of its neighbours (Chu et al. 2021).

        x + depthwise_convolution(x), over the grid of the tokens, zeros beyond its borders

    It has no table, so any resolution works; away from the borders a shifted image gives shifted
    encodings. Tokens without a place are left unchanged. Text is a grid of one row. Every token
    reads its neighbours on both sides, so this is for encoders, not for generation.

    Args:
        dim: Width of the tokens.
        kernel_size: Side of the neighbourhood, an odd number of cells.
    """

    mixes_tokens = True

    def __init__(self, dim: int, kernel_size: int = 3) -> None:
        super().__init__()
        if kernel_size % 2 == 0:
            raise PositionError(
                f"Conditional needs an odd kernel_size, got {kernel_size}; use {kernel_size + 1}"
            )
        self.convolution = nn.Conv2d(
            dim, dim, kernel_size, padding=kernel_size // 2, groups=dim, bias=True
        )

    def embed(self, x: Float[Tensor, "*b n d"], at: Places) -> Float[Tensor, "*b n d"]:
        if isinstance(at, Grid):
            rows, columns, placed = at.rows, at.columns, at.placed
        else:
            if at.ndim != 1:
                raise PositionError(
                    f"Conditional takes places (n,) that all rows of the batch share, got shape "
                    f"{tuple(at.shape)}; call it once per row"
                )
            rows, columns, placed = at * 0, at - at.min(), at >= 0
        height, width = int(rows.max()) + 1, int(columns.max()) + 1
        cell = (rows * width + columns)[placed]
        batch, dim = x.shape[:-2], x.shape[-1]
        grid = x.new_zeros(*batch, height * width, dim)
        grid[..., cell, :] = x[..., placed, :]
        image = grid.reshape(-1, height, width, dim).permute(0, 3, 1, 2)
        encoded = self.convolution(image).permute(0, 2, 3, 1).reshape(*batch, height * width, dim)
        out = x.clone()
        out[..., placed, :] = x[..., placed, :] + encoded[..., cell, :]
        return out


@dataclass(frozen=True, kw_only=True)
class ConditionalConfig(BasePositionConfig):
    """Options of positions computed from neighbouring tokens.

    kernel_size   side of the neighbourhood that a token reads, an odd number of cells; raise it to
                  see farther
    """

    encoding: ClassVar[type[Position]] = Conditional
    kind: Literal["conditional"] = "conditional"
    kernel_size: Count = 3

    def __post_init__(self) -> None:
        if self.kernel_size % 2 == 0:
            raise RecipeError(
                f"kernel_size is {self.kernel_size}, but a token has as many neighbours on either "
                f"side; use an odd number, such as {self.kernel_size + 1}"
            )

    def make(self, sizes: Sizes) -> Conditional:
        """Build the encoding for tokens of their width."""
        return Conditional(sizes.dim, self.kernel_size)
