"""Complex word embeddings with positions (Wang et al. 2019)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import nn

from saccade.errors import PositionError, ShapeError
from saccade.positions.base import BasePositionConfig, Grid, Places, Position, Sizes
from saccade.positions.waves import frequencies, require_even, rotated
from saccade.shapes import Float, Tensor


class Complex(Position):
    """Complex positions: every token is a wave over places (Wang et al. 2019).

        f(p) = r e^(i(ωp + θ)),    hence f(p + n) = f(p) e^(iωn)

    The pairs of numbers of an embedding are r e^(iθ), its amplitude and phase. ω is one learned
    number per pair, shared by all words (the paper's word-sharing scheme), and starts at the
    frequencies of `Sinusoidal`. Real and imaginary parts continue as ordinary numbers. For text.

    Args:
        dim: Width of the tokens, an even number.
        base: Base of the initial frequencies ω_j = base^(-2j/dim).
    """

    on_grids = False

    def __init__(self, dim: int, *, base: float = 10_000.0) -> None:
        super().__init__()
        require_even(dim, "Complex")
        start = frequencies(dim, base, torch.device("cpu")).to(torch.get_default_dtype())
        self.frequency = nn.Parameter(start)

    def embed(self, x: Float[Tensor, "*b n d"], at: Places) -> Float[Tensor, "*b n d"]:
        if isinstance(at, Grid):
            raise PositionError(
                "Complex works on text, got the places of an image; use Sinusoidal or Rotary there"
            )
        if x.shape[-1] != 2 * len(self.frequency):
            raise ShapeError(
                f"Complex was built for tokens of width {2 * len(self.frequency)}, "
                f"got {x.shape[-1]}; build it with dim={x.shape[-1]}"
            )
        return rotated(x, at.unsqueeze(-1) * self.frequency)

    def extra_repr(self) -> str:
        return f"{2 * len(self.frequency)}"


@dataclass(frozen=True, kw_only=True)
class ComplexConfig(BasePositionConfig):
    """Options of complex positions, which rotate tokens at learned frequencies; it has none."""

    encoding: ClassVar[type[Position]] = Complex
    kind: Literal["complex"] = "complex"

    def make(self, sizes: Sizes) -> Complex:
        """Build the encoding for tokens of their width."""
        return Complex(sizes.dim)
