"""Stems: how what is read becomes vectors that stand somewhere.

A stem is a module `stem(*inputs) -> Stemmed`. Behind it every reader is the same.
"""

from typing import NamedTuple

import torch
from torch import nn

from saccade.layers.embeddings import TokenEmbedding
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


def _counted(tokens: Tensor) -> Tensor:
    return torch.arange(tokens.shape[1], device=tokens.device)
