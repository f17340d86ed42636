"""The base class of positional encodings, their options, and the places of tokens."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, TypeVar

import torch
from torch import nn

from saccade.config import Conflict, Count, without_effect
from saccade.errors import PositionError, RecipeError, ShapeError
from saccade.shapes import Bool, Float, Int, Tensor

Fuse = Literal["add", "concat"]


@dataclass(frozen=True)
class Grid:
    """Places in an image: the row and the column of each token, counted from 0.

    A token without a place, such as a class token, has row and column -1.

    Attributes:
        rows: Row of each token.
        columns: Column of each token.

    Examples:
        >>> from saccade.positions import Grid
        >>> cells = Grid.of(2, 3, nowhere=1)  # a class token, then 2 x 3 patches
        >>> cells.rows.tolist(), cells.columns.tolist()
        ([-1, 0, 0, 0, 1, 1, 1], [-1, 0, 1, 2, 0, 1, 2])
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
        """Return all cells of a grid row by row, after `nowhere` tokens without a place.

        Args:
            height: Number of rows.
            width: Number of columns.
            nowhere: Number of tokens without a place before the cells.
            device: Device of the tensors.
        """
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
        """True for tokens that have a place."""
        return self.rows >= 0


# (n,) for all rows of the batch, or (b, n)
Places = Int[Tensor, "..."] | Grid


class Position(nn.Module):
    """Base class of positional encodings; by itself, it adds no positions.

    Subclasses override one of the hooks `embed`, `rotate` and `bias`. `position(x)` encodes the
    tokens of a text.

    Attributes:
        on_text: True if it works on text.
        on_grids: True if it works on the cells of an image.
        acts_inside: True if it acts inside attention, by `rotate` or `bias`.
        mixes_tokens: True if `embed` reads the neighbours of a token. Then padding must be zero,
            and text cannot be generated step by step.
        widening: By how much `embed` makes tokens wider.
    """

    on_text: ClassVar[bool] = True
    on_grids: ClassVar[bool] = True
    acts_inside: ClassVar[bool] = False
    mixes_tokens: ClassVar[bool] = False
    widening = 0

    @classmethod
    def can_write(cls) -> bool:
        """Return whether a decoder can use it: it works on text, and no token reads a later one."""
        return cls.on_text and not cls.mixes_tokens

    def embed(self, x: Float[Tensor, "*b n d"], at: Places) -> Float[Tensor, "*b n e"]:
        """Return the tokens (..., n, d) with their places `at` encoded in them."""
        return x

    def rotate(
        self,
        query: Float[Tensor, "*b q d"],
        keys: Float[Tensor, "*c k d"],
        at_q: Places,
        at_k: Places,
    ) -> tuple[Float[Tensor, "*b q d"], Float[Tensor, "*c k d"]]:
        """Return the queries and keys of a head, each rotated by its place."""
        return query, keys

    def bias(
        self, query: Float[Tensor, "*b q d"], at_q: Places, at_k: Places
    ) -> Float[Tensor, "*b q k"] | None:
        """Return the bias that the places add to the scores of a head, or None for no bias."""
        return None

    def encode(
        self, x: Float[Tensor, "*b n d"], at: Places, mask: Bool[Tensor, "*b n"] | None = None
    ) -> Float[Tensor, "*b n e"]:
        """Return the tokens with their places encoded; tokens hidden by `mask` affect no other."""
        if self.mixes_tokens and mask is not None:
            x = x.masked_fill(~mask.unsqueeze(-1), 0.0)
        return self.embed(x, at)

    def forward(
        self, x: Float[Tensor, "*b n d"], mask: Bool[Tensor, "*b n"] | None = None
    ) -> Float[Tensor, "*b n e"]:
        """Return the tokens of a text with their places 0, 1, 2, … encoded.

        Args:
            x: Tokens (..., n, d).
            mask: True at real tokens; those hidden affect no other.

        Returns:
            Tokens (..., n, d), or (..., n, d + widening) if positions are concatenated.

        Raises:
            PositionError: If the text is longer than the encoding covers.
            ShapeError: If the width of the tokens does not fit.
        """
        return self.encode(x, torch.arange(x.shape[-2], device=x.device), mask)

    def on(self, places: Places) -> "Placed":
        """Bind this encoding to tokens at `places` instead of 0, 1, 2, …"""
        return Placed(self, places)

    def inside(self, places: Places | None = None) -> "Position | Placed | None":
        """Return the `positions` argument for attention: this at `places`, or None if unused."""
        if not self.acts_inside:
            return None
        return self if places is None else self.on(places)


@dataclass(frozen=True)
class Placed:
    """A positional encoding bound to the places of the tokens that attention numbers 0, 1, 2, …"""

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
    """Base class of encodings with one vector per place, added or concatenated to the tokens.

    Args:
        dim: Width of the vectors.
        fuse: "add" or "concat".
    """

    def __init__(self, dim: int, fuse: Fuse) -> None:
        super().__init__()
        if fuse not in ("add", "concat"):
            raise PositionError(
                f'fuse must be "add" or "concat", got {fuse!r}; leave it out for "add"'
            )
        self.dim = dim
        self.fuse = fuse
        self.widening = dim if fuse == "concat" else 0

    @abstractmethod
    def table(self, at: Places, dtype: torch.dtype) -> Float[Tensor, "*b n d"]:
        """Return the vector of each place."""

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


class Sizes(NamedTuple):
    """The sizes of a stack of layers, from which its positional encoding is built.

    Attributes:
        dim: Width of the tokens, concatenated positions included.
        head_dim: Width of a head.
        num_heads: Number of heads.
        causal: Whether no token sees a later one.
    """

    dim: int
    head_dim: int
    num_heads: int = 1
    causal: bool = False


Config = TypeVar("Config", bound="BasePositionConfig")


@dataclass(frozen=True, kw_only=True)
class BasePositionConfig(ABC):
    """Base class of the options of positional encodings.

    kind   the encoding; sinusoidal or rotary need no fixed length, learned covers a fixed number
           of places, relative and rotary act inside attention

    `encoding` is the class that the options build. `text_only` and `grid_only` name the keys that
    have no effect elsewhere.
    """

    encoding: ClassVar[type[Position]]
    text_only: ClassVar[tuple[str, ...]] = ()
    grid_only: ClassVar[tuple[str, ...]] = ()

    kind: str

    @property
    def widening(self) -> int:
        """By how much tokens get wider; their own vectors have the model's width minus this."""
        return 0

    @property
    def places(self) -> int | None:
        """The number of places in a text; None if unlimited."""
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
        """Return the same options with places for the cells (rows, columns) of an image."""
        return self

    def wave_dim(self, dim: int, head_dim: int) -> int | None:
        """Return which of the two widths the waves fill; None if there are no waves."""
        return None

    def room_conflict(self, key: str, tokens: int, limit: str) -> Iterator[Conflict]:
        """Yield a conflict if texts of `tokens` tokens, which `limit` allows, do not fit."""
        if self.places is not None and self.places < tokens:
            reason = f"{limit} allows {tokens} tokens, the end-of-sequence token included; change "
            yield Conflict(f"{key}.length", f"{reason}one of them")

    def require_room(self, tokens: int, key: str) -> None:
        """Raise `RecipeError` if texts of `tokens` tokens, which `key` allows, do not fit."""
        if self.places is not None and self.places < tokens:
            raise RecipeError(
                f"{key} = {tokens} needs as many learned positions, but position.length is "
                f"{self.places}; lower {key} or raise position.length"
            )

    def build(
        self, dim: int, head_dim: int, num_heads: int = 1, *, causal: bool = False
    ) -> Position:
        """Build the encoding.

        Args:
            dim: Width of the tokens, concatenated positions included.
            head_dim: Width of a head.
            num_heads: Number of heads.
            causal: Whether no token sees a later one.

        Raises:
            ShapeError: If a width does not fit; the message names the key.
        """
        try:
            return self.make(Sizes(dim, head_dim, num_heads, causal))
        except ShapeError as error:
            raise ShapeError(f'position.kind = "{self.kind}": {error}') from None

    @abstractmethod
    def make(self, sizes: Sizes) -> Position:
        """Build the encoding, with errors that do not name the key."""


@dataclass(frozen=True, kw_only=True)
class AbsoluteConfig(BasePositionConfig):
    """Options of encodings with one vector per place.

    fuse    "add" the positions to the tokens, or "concat" them, which leaves less width for the
            tokens; change it to compare the two
    width   width of concatenated positions, in numbers per token
    """

    fuse: Fuse = "add"
    width: Count = 32

    @property
    def widening(self) -> int:
        """The width of the concatenated positions."""
        return self.width if self.fuse == "concat" else 0

    def conflicts(self) -> Iterator[Conflict]:
        """Yield a conflict if `width` is set although positions are added."""
        if self.fuse == "add":
            yield from without_effect(self, ["width"], 'with position.fuse = "add"')


@dataclass(frozen=True, kw_only=True)
class NoPositionConfig(BasePositionConfig):
    """Options of no positions: attention reads a set."""

    encoding: ClassVar[type[Position]] = Position
    kind: Literal["none"] = "none"

    def make(self, sizes: Sizes) -> Position:
        """Build the encoding that changes nothing."""
        return Position()


def grid_for(grid: tuple[int, int] | None, cells: tuple[int, int]) -> tuple[int, int]:
    """Return the grid (rows, columns) of a table for an image with these cells.

    Raises:
        RecipeError: If `grid` is given and smaller than the image.
    """
    if grid is None:
        return cells
    if grid[0] < cells[0] or grid[1] < cells[1]:
        raise RecipeError(
            f"position.grid is {list(grid)}, but images of this size have {cells[0]} x {cells[1]} "
            "cells; leave it out, or make it larger"
        )
    return grid
