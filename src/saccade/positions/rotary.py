"""Rotary positions (Su et al. 2021, RoFormer)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from saccade.config import Positive
from saccade.errors import ShapeError
from saccade.positions.base import BasePositionConfig, Places, Position, Sizes
from saccade.positions.waves import Layout, angles, require_even, rotated
from saccade.shapes import Float, Tensor


class Rotary(Position):
    """Rotary positions (RoPE): queries and keys rotated by their place (Su et al. 2021).

        q_p → q e^(iωp),    k_p → k e^(iωp)    on pairs of numbers, with ω_j = base^(-2j/head_dim)

    Hence q_p · k_r depends on p - r alone. On a `Grid` one half of the pairs is rotated by row, the
    other by column.

    Args:
        head_dim: Width of a head, an even number (divisible by 4 on a grid).
        base: Base of the frequencies. A larger base makes the last pairs rotate more slowly, for
            longer texts.
        layout: Which numbers form a pair: neighbours ("interleaved", as in the paper), or one of
            each half ("halves", as in GPT-NeoX).

    Examples:
        >>> import torch
        >>> from saccade.attention import MultiHeadAttention
        >>> from saccade.positions import Rotary
        >>> attention, rotary = MultiHeadAttention(dim=16, num_heads=2), Rotary(head_dim=8)
        >>> attention(torch.randn(1, 5, 16), positions=rotary).shape
        torch.Size([1, 5, 16])
        >>> same = torch.randn(1, 8).expand(5, 8)  # one vector at five places
        >>> query, keys = rotary.rotate(same, same, torch.arange(5), torch.arange(5))
        >>> bool(torch.allclose(query[1] @ keys[3], query[2] @ keys[4], atol=1e-5))  # both 2 apart
        True
    """

    acts_inside = True

    def __init__(
        self, head_dim: int, *, base: float = 10_000.0, layout: Layout = "interleaved"
    ) -> None:
        super().__init__()
        require_even(head_dim, "Rotary")
        self.head_dim = head_dim
        self.base = base
        self.layout = layout

    def rotate(
        self,
        query: Float[Tensor, "*b q d"],
        keys: Float[Tensor, "*c k d"],
        at_q: Places,
        at_k: Places,
    ) -> tuple[Float[Tensor, "*b q d"], Float[Tensor, "*c k d"]]:
        return self._rotated(query, at_q), self._rotated(keys, at_k)

    def _rotated(self, x: Tensor, at: Places) -> Tensor:
        if x.shape[-1] != self.head_dim:
            raise ShapeError(
                f"Rotary was built for heads of width {self.head_dim}, got {x.shape[-1]}; build it "
                f"with head_dim={x.shape[-1]}"
            )
        angle = angles(at, self.head_dim, self.base)
        while 2 < angle.ndim < x.ndim:
            angle = angle.unsqueeze(-3)
        return rotated(x, angle, self.layout)

    def extra_repr(self) -> str:
        return f"{self.head_dim}, base={self.base:g}, layout={self.layout!r}"


@dataclass(frozen=True, kw_only=True)
class RotaryConfig(BasePositionConfig):
    """Options of rotary positions.

    base     base of the frequencies ω_j = base^(-2j/head_dim); raise it for texts of thousands of
             tokens, so that the last pairs rotate more slowly
    layout   which numbers form a pair: neighbours ("interleaved"), or one of each half ("halves");
             set it to that of imported weights
    """

    encoding: ClassVar[type[Position]] = Rotary
    kind: Literal["rotary"] = "rotary"
    base: Positive = 10_000.0
    layout: Layout = "interleaved"

    def wave_dim(self, dim: int, head_dim: int) -> int:
        """Return the width of a head."""
        return head_dim

    def make(self, sizes: Sizes) -> Rotary:
        """Build the encoding for heads of their width."""
        return Rotary(sizes.head_dim, base=self.base, layout=self.layout)
