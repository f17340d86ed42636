"""Positional encodings that look plausible and do not work, for comparison. Not for real models.

A good encoding is bounded, unique, and means the same in texts of every length. `AppendIndex` and
`AddIndex` grow without bound; with `AddFraction` one step means less the longer the text is.
"""

import torch

from saccade.errors import PositionError
from saccade.positions.base import Absolute, Grid, Places
from saccade.shapes import Float, Tensor


class AppendIndex(Absolute):
    """Append the index i to the token as one more number."""

    def __init__(self) -> None:
        super().__init__(1, "concat")

    def table(self, at: Places, dtype: torch.dtype) -> Float[Tensor, "*b n 1"]:
        """Return i for each place."""
        return _text(at).unsqueeze(-1).to(dtype)


class AddIndex(Absolute):
    """Add the index i to every number of the token; a large i drowns the word."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim, "add")

    def table(self, at: Places, dtype: torch.dtype) -> Float[Tensor, "*b n d"]:
        """Return i, `dim` times, for each place."""
        at = _text(at)
        return at.unsqueeze(-1).to(dtype).expand(*at.shape, self.dim)


class AddFraction(Absolute):
    """Add i/n to every number of the token, where n is the length of the text."""

    def __init__(self, dim: int) -> None:
        super().__init__(dim, "add")

    def table(self, at: Places, dtype: torch.dtype) -> Float[Tensor, "*b n d"]:
        """Return i/n, `dim` times, for each place."""
        at = _text(at)
        return (at.unsqueeze(-1) / at.shape[-1]).to(dtype).expand(*at.shape, self.dim)


def _text(at: Places) -> Tensor:
    if isinstance(at, Grid):
        raise PositionError(
            "these encodings work on text only, got the places of an image; pass a tensor of places"
        )
    return at
