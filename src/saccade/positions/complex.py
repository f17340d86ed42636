"""Complex: a token is a wave r·e^(i(ωp + θ)) of its place p (Wang et al. 2019)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import nn

from saccade.errors import PositionError, ShapeError
from saccade.positions.base import BasePositionConfig, Grid, Places, Position
from saccade.positions.waves import frequencies, require_even, turned
from saccade.shapes import Float, Tensor


class Complex(Position):
    """f(p) = r e^(i(ωp + θ)) with learned ω, hence f(p + n) = f(p) e^(iωn).

    The pairs of numbers of a token's embedding are r e^(iθ), its amplitude and phase; ω is one
    learned number a pair, shared by all words (the paper's word-sharing scheme), starting at the
    frequencies of `Sinusoidal`. Real and imaginary parts go on as ordinary numbers.
    """

    on_grids = False

    def __init__(self, dim: int, *, base: float = 10_000.0) -> None:
        super().__init__()
        require_even(dim, "Complex")
        start = frequencies(dim, base, torch.device("cpu")).to(torch.get_default_dtype())
        self.frequency = nn.Parameter(start)

    def embed(self, x: Float[Tensor, "*b n d"], at: Places) -> Float[Tensor, "*b n d"]:
        if isinstance(at, Grid):
            raise PositionError("Complex is for text; an image takes Sinusoidal or Rotary")
        if x.shape[-1] != 2 * len(self.frequency):
            raise ShapeError(
                f"Complex was built for tokens of width {2 * len(self.frequency)}, "
                f"got {x.shape[-1]}"
            )
        return turned(x, at.unsqueeze(-1) * self.frequency)

    def extra_repr(self) -> str:
        return f"{2 * len(self.frequency)}"


@dataclass(frozen=True, kw_only=True)
class ComplexConfig(BasePositionConfig):
    """Tokens turned by their place at learned frequencies."""

    encoding: ClassVar[type[Position]] = Complex
    kind: Literal["complex"] = "complex"

    def make(self, dim: int, head_dim: int) -> Complex:
        """The encoding of tokens of width `dim`."""
        return Complex(dim)
