"""Sinusoidal: waves of falling frequency (Vaswani et al. 2017, section 3.5)."""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

import torch

from saccade.config import Positive
from saccade.positions.base import Absolute, AbsoluteConfig, Fuse, Places, Position
from saccade.positions.waves import Layout, angles, require_even
from saccade.shapes import Float, Tensor


class Sinusoidal(Absolute):
    """PE(p, 2j) = sin(ω_j p), PE(p, 2j+1) = cos(ω_j p), with ω_j = base^(-2j/dim), j from 0.

    The pair shares one frequency, so moving by n places is a fixed rotation of each pair, and
    PE(p) · PE(p+n) depends on n alone. On a `Grid` one half of the width tells the row, the other
    the column; a token that stands nowhere gets zeros. `layout="halves"` puts all sines before
    all cosines, as Marian does.
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
            return _remembered(length, self.dim, self.base, self.layout, dtype, at.device)[at]
        vectors = waves(at, self.dim, self.base, self.layout) * at.placed.unsqueeze(-1)
        return vectors.to(dtype)


def waves(at: Places, dim: int, base: float, layout: Layout) -> Float[Tensor, "*b n d"]:
    """The sines and cosines of places, in pairs or in halves."""
    angle = angles(at, dim, base)
    both = (angle.sin(), angle.cos())
    return torch.cat(both, -1) if layout == "halves" else torch.stack(both, -1).flatten(-2)


@lru_cache(maxsize=64)
@torch.inference_mode(mode=False)
def _remembered(
    length: int, dim: int, base: float, layout: Layout, dtype: torch.dtype, device: torch.device
) -> Float[Tensor, "n d"]:
    """The vectors of the places before `length`, a power of 2: computed once."""
    return waves(torch.arange(length, device=device), dim, base, layout).to(dtype)


@dataclass(frozen=True, kw_only=True)
class SinusoidalConfig(AbsoluteConfig):
    """Waves of falling frequency.

    base     ω_j = base^(-2j/dim): the larger, the longer the last waves
    layout   sine and cosine of a frequency side by side ("interleaved"), or all sines before all
             cosines ("halves")
    """

    encoding: ClassVar[type[Position]] = Sinusoidal
    kind: Literal["sinusoidal"] = "sinusoidal"
    base: Positive = 10_000.0
    layout: Layout = "interleaved"

    def wave_dim(self, dim: int, head_dim: int) -> int:
        """The width of the tokens, or of the concatenated positions."""
        return self.widening or dim

    def make(self, dim: int, head_dim: int) -> Sinusoidal:
        """The encoding, as wide as the tokens or as what is concatenated."""
        width = self.wave_dim(dim, head_dim)
        return Sinusoidal(width, base=self.base, layout=self.layout, fuse=self.fuse)
