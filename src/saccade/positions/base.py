"""Position: the seam that every positional encoding fills, and the places it is asked about."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeVar

import torch
from torch import nn

from saccade.config import Conflict, Count, without_effect
from saccade.errors import PositionError, RecipeError, ShapeError
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

    Models ask each encoding for these facts:

    on_text, on_grids   whether it works on text and on the cells of an image
    acts_inside         whether it works inside attention, by `rotate` or `bias`
    mixes_tokens        whether `embed` reads the neighbours of a token, so that padding must be
                        zero and no text can be written step by step
    widening            by how much `embed` makes the tokens wider
    """

    on_text: ClassVar[bool] = True
    on_grids: ClassVar[bool] = True
    acts_inside: ClassVar[bool] = False
    mixes_tokens: ClassVar[bool] = False
    widening = 0

    @classmethod
    def can_write(cls) -> bool:
        """Whether a decoder can use it: it works on text, and no token reads a later one."""
        return cls.on_text and not cls.mixes_tokens

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


Config = TypeVar("Config", bound="BasePositionConfig")


@dataclass(frozen=True, kw_only=True)
class BasePositionConfig(ABC):
    """The part that the options of all positional encodings share.

    `encoding` is the class they build, whose facts say where it works. `text_only` and `grid_only`
    name the keys that have no effect elsewhere.
    """

    encoding: ClassVar[type[Position]]
    text_only: ClassVar[tuple[str, ...]] = ()
    grid_only: ClassVar[tuple[str, ...]] = ()

    kind: str

    @property
    def widening(self) -> int:
        """By how much the tokens get wider: their own width is the model's less this."""
        return 0

    @property
    def places(self) -> int | None:
        """The number of places in a text; None if it is unlimited."""
        return None

    def token_dim(self, dim: int) -> int:
        """Return the width of the tokens' own vectors in a model of width `dim`."""
        if dim <= self.widening:
            raise ShapeError(
                f"position.width = {self.widening} leaves no room for tokens in a model of width "
                f'{dim} (dim); make one of them fit, or use position.fuse = "add"'
            )
        return dim - self.widening

    def with_cells(self: Config, cells: tuple[int, int]) -> Config:
        """Return the same options with places for the cells (down, across) of an image."""
        return self

    def wave_dim(self, dim: int, head_dim: int) -> int | None:
        """The width that is filled with waves, of these two; None if there are no waves."""
        return None

    def room_conflict(self, key: str, tokens: int, limit: str) -> Iterator[Conflict]:
        """Yield a conflict if texts of `tokens`, as `limit` of a recipe allows, find no place."""
        if self.places is not None and self.places < tokens:
            reason = f"{limit} allows {tokens} tokens, the end-of-sequence token included; change "
            yield Conflict(f"{key}.length", f"{reason}one of them")

    def require_room(self, tokens: int, key: str) -> None:
        """Raise if texts of `tokens`, as `key` of a recipe allows, find no place."""
        if self.places is not None and self.places < tokens:
            raise RecipeError(
                f"{key} = {tokens} needs as many learned positions, but position.length is "
                f"{self.places}; change one of them"
            )

    def build(self, dim: int, head_dim: int) -> Position:
        """The encoding for tokens of width `dim` (positions included) in heads of `head_dim`."""
        try:
            return self.make(dim, head_dim)
        except ShapeError as error:
            raise ShapeError(f'position.kind = "{self.kind}": {error}') from None

    @abstractmethod
    def make(self, dim: int, head_dim: int) -> Position:
        """The same, with errors that do not name the key."""


@dataclass(frozen=True, kw_only=True)
class AbsoluteConfig(BasePositionConfig):
    """The options that all encodings with one vector a place share.

    fuse    "add" to the tokens, or "concat" to them, which leaves the tokens less width
    width   the width of concatenated positions
    """

    fuse: Fuse = "add"
    width: Count = 32

    @property
    def widening(self) -> int:
        """The width of what is concatenated."""
        return self.width if self.fuse == "concat" else 0

    def conflicts(self) -> Iterator[Conflict]:
        """Positions that are added have the tokens' width."""
        if self.fuse == "add":
            yield from without_effect(self, ["width"], 'with position.fuse = "add"')


@dataclass(frozen=True, kw_only=True)
class NoPositionConfig(BasePositionConfig):
    """No position: attention reads a set."""

    encoding: ClassVar[type[Position]] = Position
    kind: Literal["none"] = "none"

    def make(self, dim: int, head_dim: int) -> Position:
        """Tokens pass as they are."""
        return Position()


def grid_for(grid: tuple[int, int] | None, cells: tuple[int, int]) -> tuple[int, int]:
    """Return the grid of a table for an image with these cells (down, across).

    A grid that is left out is as large as the image; one that is smaller raises.
    """
    if grid is None:
        return cells
    if grid[0] < cells[0] or grid[1] < cells[1]:
        raise RecipeError(
            f"position.grid is {list(grid)}, but images of this size have {cells[0]} x {cells[1]} "
            "cells; leave it out, or make it larger"
        )
    return grid
