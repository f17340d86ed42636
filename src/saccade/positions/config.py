"""Which positional encoding a model uses, as plain options."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Literal

from saccade.config import Conflict, Count, without_effect
from saccade.errors import RecipeError, ShapeError
from saccade.positions.base import Fuse, Position
from saccade.positions.complex import Complex
from saccade.positions.conditional import Conditional
from saccade.positions.learned import Learned
from saccade.positions.relative import Relative
from saccade.positions.relative2d import Relative2d
from saccade.positions.rotary import Rotary
from saccade.positions.sinusoidal import Sinusoidal
from saccade.positions.waves import Layout

TEXT_KINDS = "none, sinusoidal, learned, relative, rotary, complex or (to read) conditional"
INSIDE = ("relative", "relative_2d", "rotary")
"""The kinds that act inside of attention and nowhere else."""


@dataclass(frozen=True, kw_only=True)
class PositionConfig:
    """The family, and what it needs.

    fuse          "add" or "concat", for sinusoidal and learned positions
    width         the width of concatenated positions
    length        the places of a learned table: a number for text
    grid          (height, width) in patches, for learned tables of images and relative_2d
    max_distance  how far "relative" tells distances apart
    layout        how sinusoidal and rotary positions order their pairs
    """

    kind: Literal[
        "none",
        "sinusoidal",
        "learned",
        "relative",
        "relative_2d",
        "rotary",
        "complex",
        "conditional",
    ] = "sinusoidal"
    fuse: Fuse = "add"
    width: Count = 32
    length: Count = 512
    grid: tuple[Count, Count] | None = None
    max_distance: Count = 16
    layout: Layout = "interleaved"

    @property
    def widening(self) -> int:
        """By how much the tokens get wider: their own width is the model's less this."""
        concat = self.kind in ("sinusoidal", "learned") and self.fuse == "concat"
        return self.width if concat else 0

    def token_dim(self, dim: int) -> int:
        """Return the width of the tokens' own vectors in a model of width `dim`."""
        if dim <= self.widening:
            raise ShapeError(
                f"position.width = {self.width} leaves no room for tokens in a model of width "
                f'{dim} (dim); make one of them fit, or use position.fuse = "add"'
            )
        return dim - self.widening

    def conflicts(self) -> Iterator[Conflict]:
        """Each kind has options of its own."""
        used = {
            "sinusoidal": {"fuse", "layout"},
            "learned": {"fuse", "grid"} if self.grid else {"fuse", "length"},
            "relative": {"max_distance"},
            "relative_2d": {"grid"} if self.grid else {"length"},
            "rotary": {"layout"},
        }.get(self.kind, set())
        if self.widening:
            used.add("width")
        unused = [field.name for field in fields(self) if field.name not in (*used, "kind")]
        fuse = f' and position.fuse = "{self.fuse}"' if "fuse" in used else ""
        yield from without_effect(self, unused, f'with position.kind = "{self.kind}"{fuse}')

    def text_conflicts(self, key: str) -> Iterator[Conflict]:
        """Conflicts of positions that stand at `key` of a model that reads or writes text."""
        if self.kind == "relative_2d":
            yield Conflict(f"{key}.kind", f"is for images; text can have {TEXT_KINDS}")
        elif self.grid is not None:
            yield Conflict(f"{key}.grid", "is for images; leave it out")

    def image_conflicts(self, key: str) -> Iterator[Conflict]:
        """Conflicts of positions that stand at `key` of a reader of images."""
        for conflict in without_effect(self, ["length"], "on images, which have position.grid"):
            yield conflict._replace(key=f"{key}.{conflict.key}")

    def recurrent_conflicts(self, key: str) -> Iterator[Conflict]:
        """Conflicts of positions that stand at `key` of a reader without attention."""
        if self.kind in INSIDE:
            yield Conflict(
                f"{key}.kind",
                "acts inside of attention, and a recurrent encoder has none; use sinusoidal, "
                "learned, complex, conditional or none",
            )

    def room_conflict(self, key: str, tokens: int, limit: str) -> Iterator[Conflict]:
        """Yield a conflict if texts of `tokens`, as `limit` of a recipe allows, find no place."""
        if self.kind == "learned" and self.length < tokens:
            reason = f"{limit} allows {tokens} tokens, the end-of-sequence token included; change "
            yield Conflict(f"{key}.length", f"{reason}one of them")

    def require_room(self, tokens: int, key: str) -> None:
        """Refuse texts of as many tokens, as `key` of a recipe allows, if places are too few."""
        if self.kind == "learned" and self.length < tokens:
            raise RecipeError(
                f"{key} = {tokens} needs as many learned positions, but position.length is "
                f"{self.length}; change one of them"
            )

    def require_grid_width(self, dim: int, head_dim: int) -> None:
        """Raise unless waves for rows and waves for columns fit into these widths."""
        width = {"sinusoidal": self.widening or dim, "rotary": head_dim}.get(self.kind, 4)
        if width % 4:
            raise ShapeError(
                f'position.kind = "{self.kind}" on an image needs a width divisible by 4, half for '
                f"the rows and half for the columns, got {width}"
            )

    def build(self, dim: int, head_dim: int) -> Position:
        """The encoding for tokens of width `dim` (positions included) in heads of `head_dim`."""
        try:
            return self._build(dim, head_dim)
        except ShapeError as error:
            raise ShapeError(f'position.kind = "{self.kind}": {error}') from None

    def _build(self, dim: int, head_dim: int) -> Position:
        width = self.widening or dim
        match self.kind:
            case "none":
                return Position()
            case "sinusoidal":
                return Sinusoidal(width, fuse=self.fuse, layout=self.layout)
            case "learned":
                return Learned(width, self.grid or self.length, fuse=self.fuse)
            case "relative":
                return Relative(head_dim, self.max_distance)
            case "relative_2d":
                height, grid_width = self.grid or (self.length, self.length)
                return Relative2d(head_dim, height, grid_width)
            case "rotary":
                return Rotary(head_dim, layout=self.layout)
            case "complex":
                return Complex(dim)
            case "conditional":
                return Conditional(dim)
