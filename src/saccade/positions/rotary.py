"""Rotary: queries and keys turned by their place (Su et al. 2021, RoFormer)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from saccade.config import Positive
from saccade.errors import ShapeError
from saccade.positions.base import BasePositionConfig, Places, Position
from saccade.positions.waves import Layout, angles, require_even, turned
from saccade.shapes import Float, Tensor


class Rotary(Position):
    """q_p → q e^(iωp), k_p → k e^(iωp) on pairs of numbers, so q_p · k_r depends on p - r alone.

    `layout` says which numbers form a pair: neighbours as in the paper, or "halves" as in
    GPT-NeoX. On a `Grid` one half of the pairs turns by row, the other by column.
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
        return self._turn(query, at_q), self._turn(keys, at_k)

    def _turn(self, x: Tensor, at: Places) -> Tensor:
        if x.shape[-1] != self.head_dim:
            raise ShapeError(
                f"Rotary was built for heads of width {self.head_dim}, got {x.shape[-1]}"
            )
        angle = angles(at, self.head_dim, self.base)
        while 2 < angle.ndim < x.ndim:
            angle = angle.unsqueeze(-3)
        return turned(x, angle, self.layout)

    def extra_repr(self) -> str:
        return f"{self.head_dim}, base={self.base:g}, layout={self.layout!r}"


@dataclass(frozen=True, kw_only=True)
class RotaryConfig(BasePositionConfig):
    """Queries and keys turned by their place.

    base     ω_j = base^(-2j/dim): the larger, the slower the last pairs turn
    layout   which numbers form a pair: neighbours ("interleaved"), or one of each half ("halves")
    """

    encoding: ClassVar[type[Position]] = Rotary
    kind: Literal["rotary"] = "rotary"
    base: Positive = 10_000.0
    layout: Layout = "interleaved"

    def wave_dim(self, dim: int, head_dim: int) -> int:
        """The width of each head."""
        return head_dim

    def make(self, dim: int, head_dim: int) -> Rotary:
        """The encoding for heads of this width."""
        return Rotary(head_dim, base=self.base, layout=self.layout)
