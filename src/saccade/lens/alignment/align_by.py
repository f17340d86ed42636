"""The choice of the attention by which words are aligned."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from saccade import config

Symmetrise = Literal["intersection", "union", "grow-diag", "grow-diag-final"]


@dataclass(frozen=True, kw_only=True)
class AlignBy:
    """The attention weights by which words are aligned.

    Args:
        layer: dotted name of an attention; None averages all layers.
        head: index of one of its heads; None averages all heads.
        shift: align a word by the weights of the next step, at which it is the decoder's input,
            instead of those of the step that outputs it.
        join: how the links of both directions are joined (see `symmetrise`); None keeps, for each
            target word, its strongest source word only.
    """

    layer: str | None = None
    head: int | None = None
    shift: bool = False
    join: Symmetrise | None = None

    @classmethod
    def of(cls, table: Mapping[str, object]) -> "AlignBy":
        """Return the options in a table of plain values, the inverse of `dataclasses.asdict`.

        Raises:
            RecipeError: naming the key that is unknown or has an invalid value.
        """
        return config.read(cls, table)

    def __str__(self) -> str:
        layer = "mean of all layers" if self.layer is None else self.layer
        head = "mean of heads" if self.head is None else f"head {self.head}"
        step = "input" if self.shift else "output"
        return f"{layer}, {head}, when the word is the decoder's {step}"
