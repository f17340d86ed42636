"""Relative: the distance between query and key, in text (Shaw et al. 2018)."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import nn

from saccade.config import Count
from saccade.errors import PositionError, ShapeError
from saccade.positions.base import BasePositionConfig, Grid, Places, Position
from saccade.shapes import Float, Int, Tensor


class Relative(Position):
    """b(q_i, j) = q_i · a_{clip(j - i)} / √d, with 2·max_distance + 1 vectors a.

    Shaw et al. eq. 4 with its key vectors a^K, clipped at `max_distance` on either side, shared by
    the heads; the value vectors a^V of their eq. 3 are left out, since their table 3 finds no use
    in them beside a^K. q · a is computed once for every distance and looked up for every pair, so
    no (q, k, d) tensor exists.
    """

    on_grids = False
    acts_inside = True

    def __init__(self, head_dim: int, max_distance: int) -> None:
        super().__init__()
        self.max_distance = max_distance
        self.weight = nn.Parameter(torch.empty(2 * max_distance + 1, head_dim))
        nn.init.normal_(self.weight, std=head_dim**-0.5)

    def bias(
        self, query: Float[Tensor, "*b q d"], at_q: Places, at_k: Places
    ) -> Float[Tensor, "*b q k"]:
        if isinstance(at_q, Grid) or isinstance(at_k, Grid):
            raise PositionError("Relative is for text; an image takes Relative2d")
        distance = at_k.unsqueeze(-2) - at_q.unsqueeze(-1)
        reach = self.max_distance
        return by_distance(query, self.weight, distance.clamp(-reach, reach) + reach)

    def extra_repr(self) -> str:
        return f"head_dim={self.weight.shape[1]}, max_distance={self.max_distance}"


def by_distance(
    query: Float[Tensor, "*b q d"], table: Float[Tensor, "m e"], index: Int[Tensor, "*c q k"]
) -> Float[Tensor, "*b q k"]:
    """query · table[index] / √d, without ever gathering the vectors themselves."""
    if query.shape[-1] != table.shape[-1]:
        raise ShapeError(
            f"relative positions of width {table.shape[-1]} do not fit heads of width "
            f"{query.shape[-1]}"
        )
    every = (query @ table.T) / math.sqrt(query.shape[-1])
    while 2 < index.ndim < every.ndim:
        index = index.unsqueeze(-3)
    return every.gather(-1, index.expand(*every.shape[:-1], index.shape[-1]))


@dataclass(frozen=True, kw_only=True)
class RelativeConfig(BasePositionConfig):
    """The distance between query and key, in text.

    max_distance   distances beyond this are not told apart
    """

    encoding: ClassVar[type[Position]] = Relative
    kind: Literal["relative"] = "relative"
    max_distance: Count = 16

    def make(self, dim: int, head_dim: int) -> Relative:
        """The encoding for heads of this width."""
        return Relative(head_dim, self.max_distance)
