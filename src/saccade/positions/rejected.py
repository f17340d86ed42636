"""Schemes that suggest themselves and do not work, kept to show why. Not for real models.

Their numbers are unbounded (`AppendIndex`, `AddIndex`), or mean another distance in another
length (`AddFraction`); a good encoding is bounded, unique, and consistent across lengths.
"""

import torch

from saccade.errors import PositionError
from saccade.positions.base import Absolute, Grid, Places
from saccade.shapes import Float, Tensor


class AppendIndex(Absolute):
    """The index i as one more number of the token: grows without bound."""

    def __init__(self) -> None:
        super().__init__(1, "concat")

    def table(self, at: Places, dtype: torch.dtype) -> Float[Tensor, "*b n 1"]:
        return _text(at).unsqueeze(-1).to(dtype)


class AddIndex(Absolute):
    """The index i added to every number of the token: drowns the word it is added to."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim, "add")

    def table(self, at: Places, dtype: torch.dtype) -> Float[Tensor, "*b n d"]:
        at = _text(at)
        return at.unsqueeze(-1).to(dtype).expand(*at.shape, self.dim)


class AddFraction(Absolute):
    """i/n added to every number of the token: one step means less the longer the text is."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim, "add")

    def table(self, at: Places, dtype: torch.dtype) -> Float[Tensor, "*b n d"]:
        at = _text(at)
        return (at.unsqueeze(-1) / at.shape[-1]).to(dtype).expand(*at.shape, self.dim)


def _text(at: Places) -> Tensor:
    if isinstance(at, Grid):
        raise PositionError("the rejected schemes are for text")
    return at
