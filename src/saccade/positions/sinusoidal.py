"""Sinusoidal: waves of falling frequency (Vaswani et al. 2017, section 3.5)."""

import torch

from saccade.positions.base import Absolute, Fuse, Places
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
        angle = angles(at, self.dim, self.base)
        waves = (angle.sin(), angle.cos())
        if self.layout == "halves":
            vectors = torch.cat(waves, -1)
        else:
            vectors = torch.stack(waves, -1).flatten(-2)
        if not isinstance(at, Tensor):
            vectors = vectors * at.placed.unsqueeze(-1)
        return vectors.to(dtype)
