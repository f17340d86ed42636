"""Relative positions in text (Shaw et al. 2018)."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import nn

from saccade.config import Count
from saccade.errors import PositionError, ShapeError
from saccade.positions.base import BasePositionConfig, Grid, Places, Position, Sizes
from saccade.shapes import Float, Int, Tensor


class Relative(Position):
    """Relative positions: a bias by the distance between query and key (Shaw et al. 2018, eq. 4).

        b(q_i, j) = q_i · a_{clip(j - i)} / √d,    with 2 · max_distance + 1 vectors a

    These are the key vectors a^K of the paper, shared by the heads. The value vectors a^V of its
    eq. 3 are left out: its table 3 finds no use for them beside a^K. q · a is computed once per
    distance and looked up for every pair, so no (q, k, d) tensor exists. For text.

    Args:
        head_dim: Width of a head.
        max_distance: Distances beyond this, on either side, share one vector.
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
            raise PositionError(
                "Relative works on text, got the places of an image; use Relative2d there"
            )
        distance = at_k.unsqueeze(-2) - at_q.unsqueeze(-1)
        reach = self.max_distance
        return by_distance(query, self.weight, distance.clamp(-reach, reach) + reach)

    def extra_repr(self) -> str:
        return f"head_dim={self.weight.shape[1]}, max_distance={self.max_distance}"


def by_distance(
    query: Float[Tensor, "*b q d"], table: Float[Tensor, "m e"], index: Int[Tensor, "*c q k"]
) -> Float[Tensor, "*b q k"]:
    """Return query · table[index] / √d, without gathering the vectors themselves.

    Args:
        query: The queries.
        table: One vector per distance.
        index: The row of the table for each pair of query and key.
    """
    if query.shape[-1] != table.shape[-1]:
        raise ShapeError(
            f"relative positions of width {table.shape[-1]} do not fit heads of width "
            f"{query.shape[-1]}; build them with head_dim={query.shape[-1]}"
        )
    by_index = (query @ table.T) / math.sqrt(query.shape[-1])
    while 2 < index.ndim < by_index.ndim:
        index = index.unsqueeze(-3)
    return by_index.gather(-1, index.expand(*by_index.shape[:-1], index.shape[-1]))


@dataclass(frozen=True, kw_only=True)
class RelativeConfig(BasePositionConfig):
    """Options of relative positions in text.

    max_distance   largest distance with a vector of its own, in tokens; larger distances share it.
                   Raise it if the order of distant words matters
    """

    encoding: ClassVar[type[Position]] = Relative
    kind: Literal["relative"] = "relative"
    max_distance: Count = 16

    def make(self, sizes: Sizes) -> Relative:
        """Build the encoding for heads of their width."""
        return Relative(sizes.head_dim, self.max_distance)
