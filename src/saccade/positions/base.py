"""Position: the seam that every positional encoding fills, and the places it is asked about."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from saccade.errors import PositionError, ShapeError
from saccade.shapes import Bool, Float, Int, Tensor

Fuse = Literal["add", "concat"]


@dataclass(frozen=True)
class Grid:
    """Places in an image: the row and the column of each token, counted from 0.

    A token that stands nowhere (a class token) has row and column -1.
    """

    rows: Int[Tensor, " n"]
    columns: Int[Tensor, " n"]

    @classmethod
    def of(
        cls,
        height: int,
        width: int,
        *,
        nowhere: int = 0,
        device: torch.device | str | None = None,
    ) -> "Grid":
        """All cells of a grid row by row, after `nowhere` tokens that stand nowhere."""
        rows = torch.arange(height, device=device).repeat_interleave(width)
        columns = torch.arange(width, device=device).repeat(height)
        first = torch.full((nowhere,), -1, device=device)
        return cls(torch.cat((first, rows)), torch.cat((first, columns)))

    def __getitem__(self, index: Tensor) -> "Grid":
        return Grid(self.rows[index], self.columns[index])

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def placed(self) -> Tensor:
        """True for the tokens that stand somewhere."""
        return self.rows >= 0


# (n,) for the whole batch, or (b, n)
Places = Int[Tensor, "..."] | Grid


class Position(nn.Module):
    """No position: tokens, queries and keys pass as they are. Subclasses override their hook.

    `widening` is by how much `embed` makes the tokens wider; `acts_inside` says that it works
    inside of attention, by `rotate` or `bias`, so that attention need not ask where it does not.
    `mixes_tokens` says that `embed` reads the neighbours of a token, so padding must be zero.
    """

    widening = 0
    acts_inside = False
    mixes_tokens = False

    def embed(self, x: Float[Tensor, "*b n d"], at: Places) -> Float[Tensor, "*b n e"]:
        """The tokens with their places in them."""
        return x

    def rotate(
        self,
        query: Float[Tensor, "*b q d"],
        keys: Float[Tensor, "*c k d"],
        at_q: Places,
        at_k: Places,
    ) -> tuple[Float[Tensor, "*b q d"], Float[Tensor, "*c k d"]]:
        """Queries and keys of a head, each turned by its place."""
        return query, keys

    def bias(
        self, query: Float[Tensor, "*b q d"], at_q: Places, at_k: Places
    ) -> Float[Tensor, "*b q k"] | None:
        """What the places add to the scores of a head; None for nothing."""
        return None

    def encode(
        self, x: Float[Tensor, "*b n d"], at: Places, mask: Bool[Tensor, "*b n"] | None = None
    ) -> Float[Tensor, "*b n e"]:
        """Return the tokens with their places in them; tokens hidden by `mask` change no other."""
        if self.mixes_tokens and mask is not None:
            x = x.masked_fill(~mask.unsqueeze(-1), 0.0)
        return self.embed(x, at)

    def forward(
        self, x: Float[Tensor, "*b n d"], mask: Bool[Tensor, "*b n"] | None = None
    ) -> Float[Tensor, "*b n e"]:
        """Return the tokens of a text from its beginning, with their places in them."""
        return self.encode(x, torch.arange(x.shape[-2], device=x.device), mask)

    def on(self, places: Places) -> "Placed":
        """This encoding for tokens that stand at `places`, not at 0, 1, 2, …"""
        return Placed(self, places)

    def inside(self, places: Places | None = None) -> "Position | Placed | None":
        """What attention needs to be given: this, on its places, or None where it has no say."""
        if not self.acts_inside:
            return None
        return self if places is None else self.on(places)


@dataclass(frozen=True)
class Placed:
    """An encoding bound to places: attention counts its tokens, `places` says where they stand."""

    position: Position
    places: Places

    def embed(self, x: Float[Tensor, "*b n d"]) -> Float[Tensor, "*b n e"]:
        return self.position.embed(x, self.places)

    def rotate(
        self,
        query: Float[Tensor, "*b q d"],
        keys: Float[Tensor, "*c k d"],
        at_q: Int[Tensor, " q"],
        at_k: Int[Tensor, " k"],
    ) -> tuple[Float[Tensor, "*b q d"], Float[Tensor, "*c k d"]]:
        return self.position.rotate(query, keys, self.places[at_q], self.places[at_k])

    def bias(
        self,
        query: Float[Tensor, "*b q d"],
        at_q: Int[Tensor, " q"],
        at_k: Int[Tensor, " k"],
    ) -> Float[Tensor, "*b q k"] | None:
        return self.position.bias(query, self.places[at_q], self.places[at_k])


class Absolute(Position):
    """An encoding that is one vector a place, added to the tokens or concatenated to them."""

    def __init__(self, dim: int, fuse: Fuse) -> None:
        super().__init__()
        if fuse not in ("add", "concat"):
            raise PositionError(f'fuse must be "add" or "concat", got {fuse!r}')
        self.dim = dim
        self.fuse = fuse
        self.widening = dim if fuse == "concat" else 0

    @abstractmethod
    def table(self, at: Places, dtype: torch.dtype) -> Float[Tensor, "*b n d"]:
        """The vector of each place."""

    def embed(self, x: Float[Tensor, "*b n d"], at: Places) -> Float[Tensor, "*b n e"]:
        vectors = self.table(at, x.dtype)
        if self.fuse == "concat":
            return torch.cat((x, vectors.expand(*x.shape[:-1], -1)), -1)
        if x.shape[-1] != self.dim:
            raise ShapeError(
                f"a positional encoding of width {self.dim} cannot be added to tokens of width "
                f'{x.shape[-1]}; make them equal or use fuse="concat"'
            )
        return x + vectors

    def extra_repr(self) -> str:
        return f"{self.dim}, fuse={self.fuse!r}"
