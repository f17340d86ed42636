"""Stems: how what is read becomes vectors that stand somewhere.

A stem is a module `stem(*inputs) -> Stemmed`. Behind it every reader is the same.
"""

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import nn

from saccade.errors import RecipeError
from saccade.layers.embeddings import TokenEmbedding
from saccade.positions import PositionConfig
from saccade.positions.base import Places
from saccade.shapes import Float, Int, Tensor


class Stemmed(NamedTuple):
    """Vectors, and the places where they stand."""

    x: Float[Tensor, "b n d"]
    places: Places


class TokenStem(nn.Module):
    """Text: the embeddings of its tokens, which stand at 0, 1, 2, …"""

    def __init__(self, embedding: TokenEmbedding) -> None:
        super().__init__()
        self.embedding = embedding

    def forward(
        self, tokens: Int[Tensor, "b n"], segments: Int[Tensor, "b n"] | None = None
    ) -> Stemmed:
        """The vectors of the tokens."""
        return Stemmed(self.embedding(tokens, segments), _counted(tokens))


class VectorStem(nn.Module):
    """A sequence of vectors (frames, sensors, features), projected where `input_dim` is given."""

    def __init__(self, dim: int, input_dim: int | None = None) -> None:
        super().__init__()
        self.project = nn.Identity() if input_dim is None else nn.Linear(input_dim, dim)

    def forward(self, vectors: Float[Tensor, "b n d"]) -> Stemmed:
        """The vectors themselves."""
        return Stemmed(self.project(vectors), _counted(vectors))


def placed(position: PositionConfig, grid: tuple[int, int]) -> PositionConfig:
    """The positions of an image with so many cells (down, across).

    A grid that is left out becomes this one, and a smaller one is refused; encodings without a
    table stay as they are, and those of text are refused.
    """
    if position.kind in ("relative", "complex"):
        raise RecipeError(
            f"position.kind = {position.kind!r} is for text; an image can have none, sinusoidal, "
            "learned, relative_2d, rotary or conditional"
        )
    if position.kind not in ("learned", "relative_2d"):
        return position
    if position.grid is None:
        return replace(position, grid=grid)
    if position.grid[0] < grid[0] or position.grid[1] < grid[1]:
        raise RecipeError(
            f"position.grid is {list(position.grid)}, but images of this size have {grid[0]} x "
            f"{grid[1]} cells; leave it out, or make it larger"
        )
    return position


def _counted(tokens: Tensor) -> Tensor:
    return torch.arange(tokens.shape[1], device=tokens.device)
