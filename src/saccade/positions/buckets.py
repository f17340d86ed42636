"""Relative positions by buckets of distances (Raffel et al. 2020, T5)."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import nn

from saccade.config import Conflict, Count
from saccade.errors import PositionError
from saccade.positions.base import BasePositionConfig, Grid, Places, Position, Sizes
from saccade.shapes import Float, Int, Tensor


class Buckets(Position):
    """Relative positions: one number per head for each bucket of distances (Raffel et al. 2020).

        b(i, j, head) = w[bucket(j - i), head]

    Small distances have a bucket each, larger ones share buckets that grow with the distance, and
    all beyond `max_distance` share the last. For text.

    Args:
        num_heads: Number of heads.
        num_buckets: Number of buckets.
        max_distance: Distances from here on share one bucket.
        bidirectional: Give keys before and after the query a half of the buckets each. Without,
            later keys share the bucket of distance 0.
    """

    on_grids = False
    acts_inside = True

    def __init__(
        self,
        num_heads: int,
        num_buckets: int = 32,
        max_distance: int = 128,
        *,
        bidirectional: bool = True,
    ) -> None:
        super().__init__()
        self.max_distance, self.bidirectional = max_distance, bidirectional
        self.weight = nn.Parameter(torch.empty(num_buckets, num_heads))
        nn.init.normal_(self.weight, std=0.02)

    def bias(
        self, query: Float[Tensor, "*b q d"], at_q: Places, at_k: Places
    ) -> Float[Tensor, "*b q k"]:
        if isinstance(at_q, Grid) or isinstance(at_k, Grid):
            raise PositionError(
                "Buckets works on text, got the places of an image; use Relative2d there"
            )
        distance = at_k.unsqueeze(-2) - at_q.unsqueeze(-1)
        of_heads = self.weight[self.bucket(distance)].movedim(-1, -3)
        return of_heads.expand(*query.shape[:-1], -1)

    def bucket(self, distance: Int[Tensor, "*b q k"]) -> Int[Tensor, "*b q k"]:
        """Return the bucket of each distance, key minus query."""
        count = len(self.weight)
        first: Tensor | int = 0
        if self.bidirectional:
            count //= 2
            first = (distance > 0) * count
            distance = distance.abs()
        else:
            distance = (-distance).clamp(min=0)
        exact = count // 2
        ratio = torch.log(distance.clamp(min=1) / exact) / math.log(self.max_distance / exact)
        shared = (exact + (ratio * (count - exact)).long()).clamp(max=count - 1)
        return first + torch.where(distance < exact, distance, shared)

    def extra_repr(self) -> str:
        buckets, heads = self.weight.shape
        return f"num_heads={heads}, num_buckets={buckets}, max_distance={self.max_distance}"


@dataclass(frozen=True, kw_only=True)
class BucketsConfig(BasePositionConfig):
    """Options of relative positions in text by buckets of distances, as in T5.

    num_buckets    number of ranges of distances that a head tells apart, at least 4; an encoder
                   uses half of them for earlier and half for later tokens
    max_distance   distance in tokens from which on all share one bucket; raise it if the order of
                   distant words matters
    """

    encoding: ClassVar[type[Position]] = Buckets
    kind: Literal["buckets"] = "buckets"
    num_buckets: Count = 32
    max_distance: Count = 128

    def conflicts(self) -> Iterator[Conflict]:
        """Yield numbers that leave no bucket for one of the ranges."""
        if self.num_buckets < 4:
            yield Conflict("num_buckets", f"is {self.num_buckets}; it must be at least 4")
        elif self.max_distance <= self.num_buckets // 2:
            least = self.num_buckets // 2 + 1
            yield Conflict(
                "max_distance",
                f"is {self.max_distance}, but the {self.num_buckets // 2} smallest distances have "
                f"a bucket each; raise it to at least {least}, or lower num_buckets",
            )

    def make(self, sizes: Sizes) -> Buckets:
        """Build the encoding for a number of heads; a causal one has no buckets for later keys."""
        return Buckets(
            sizes.num_heads, self.num_buckets, self.max_distance, bidirectional=not sizes.causal
        )
