"""Sinusoidal positions (Vaswani et al. 2017, section 3.5)."""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

import torch

from saccade.config import Positive
from saccade.positions.base import Absolute, AbsoluteConfig, Fuse, Places, Position, Sizes
from saccade.positions.waves import Layout, angles, require_even
from saccade.shapes import Float, Tensor


class Sinusoidal(Absolute):
    """Sinusoidal positions: sines and cosines of the place (Vaswani et al. 2017, section 3.5).

        PE(p, 2j) = sin(ω_j p),    PE(p, 2j+1) = cos(ω_j p),    ω_j = base^(-2j/dim), j from 0

    A pair shares one frequency, so a shift by n places is a fixed rotation of each pair, and
    PE(p) · PE(p+n) depends on n alone. On a `Grid` one half of the width encodes the row, the other
    the column; a token without a place gets zeros.

    Args:
        dim: Width of the vectors, an even number (divisible by 4 on a grid).
        base: Base of the frequencies. A larger base gives longer waves.
        layout: "interleaved" puts sine and cosine of a frequency side by side, "halves" all sines
            before all cosines, as Marian does.
        fuse: "add" the vectors to the tokens, or "concat" them.

    Examples:
        >>> import torch
        >>> from saccade.positions import Sinusoidal
        >>> Sinusoidal(4)(torch.zeros(1, 2, 4))[0, 0].tolist()  # sin 0, cos 0, sin 0, cos 0
        [0.0, 1.0, 0.0, 1.0]
        >>> Sinusoidal(4, fuse="concat")(torch.zeros(1, 2, 6)).shape
        torch.Size([1, 2, 10])
    """

    def __init__(
        self,
        dim: int,
        *,
        base: float = 10_000.0,
        layout: Layout = "interleaved",
        fuse: Fuse = "add",
    ) -> None:
        super().__init__(dim, fuse)
        require_even(dim, "Sinusoidal")
        self.base = base
        self.layout = layout

    def table(self, at: Places, dtype: torch.dtype) -> Float[Tensor, "*b n d"]:
        if isinstance(at, Tensor):
            length = 1 << int(at.max()).bit_length() if at.numel() else 1
            return _table(length, self.dim, self.base, self.layout, dtype, at.device)[at]
        vectors = waves(at, self.dim, self.base, self.layout) * at.placed.unsqueeze(-1)
        return vectors.to(dtype)


def waves(at: Places, dim: int, base: float, layout: Layout) -> Float[Tensor, "*b n d"]:
    """Return the sines and cosines of places, in pairs or in halves.

    Args:
        at: The places of the tokens.
        dim: The number of sines and cosines together.
        base: The base of the wavelengths.
        layout: "interleaved" (sine, cosine, sine, …) or "halves" (all sines, then all cosines).
    """
    angle = angles(at, dim, base)
    parts = (angle.sin(), angle.cos())
    return torch.cat(parts, -1) if layout == "halves" else torch.stack(parts, -1).flatten(-2)


@lru_cache(maxsize=64)
@torch.inference_mode(mode=False)
def _table(
    length: int, dim: int, base: float, layout: Layout, dtype: torch.dtype, device: torch.device
) -> Float[Tensor, "n d"]:
    """Return the cached vectors of the places below `length`, a power of 2."""
    return waves(torch.arange(length, device=device), dim, base, layout).to(dtype)


@dataclass(frozen=True, kw_only=True)
class SinusoidalConfig(AbsoluteConfig):
    """Options of sinusoidal positions.

    base     base of the frequencies ω_j = base^(-2j/dim); raise it for texts of thousands of tokens
    layout   sine and cosine of a frequency side by side ("interleaved"), or all sines before all
             cosines ("halves"); set it to that of imported weights
    """

    encoding: ClassVar[type[Position]] = Sinusoidal
    kind: Literal["sinusoidal"] = "sinusoidal"
    base: Positive = 10_000.0
    layout: Layout = "interleaved"

    def wave_dim(self, dim: int, head_dim: int) -> int:
        """Return the width of the tokens, or of the concatenated positions."""
        return self.widening or dim

    def make(self, sizes: Sizes) -> Sinusoidal:
        """Build the encoding, as wide as the tokens or as the concatenated positions."""
        width = self.wave_dim(sizes.dim, sizes.head_dim)
        return Sinusoidal(width, base=self.base, layout=self.layout, fuse=self.fuse)
