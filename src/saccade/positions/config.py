"""Which positional encoding a model uses, as plain options."""

from dataclasses import dataclass
from typing import Literal

from saccade.config import Count
from saccade.errors import RecipeError
from saccade.positions.base import Fuse, Position
from saccade.positions.complex import Complex
from saccade.positions.conditional import Conditional
from saccade.positions.learned import Learned
from saccade.positions.relative import Relative
from saccade.positions.relative2d import Relative2d
from saccade.positions.rotary import Rotary
from saccade.positions.sinusoidal import Sinusoidal
from saccade.positions.waves import Layout


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

    def require_room(self, tokens: int, key: str) -> None:
        """Refuse texts of as many tokens, as `key` of a recipe allows, if places are too few."""
        if self.kind == "learned" and self.length < tokens:
            raise RecipeError(
                f"{key} = {tokens} needs as many learned positions, but position.length is "
                f"{self.length}; change one of them"
            )

    def build(self, dim: int, head_dim: int) -> Position:
        """The encoding for tokens of width `dim` (positions included) in heads of `head_dim`."""
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
