"""Stems: from inputs to vectors with places.

A stem is a module `stem(*inputs) → Stemmed`; the rest of an encoder does not depend on the kind of
input.
"""

from typing import NamedTuple

import torch
from torch import nn

from saccade.layers.embeddings import TokenEmbedding
from saccade.positions.base import Places
from saccade.shapes import Float, Int, Tensor


class Stemmed(NamedTuple):
    """Vectors and their places."""

    x: Float[Tensor, "b n d"]
    places: Places


class TokenStem(nn.Module):
    """Stem of text: the embeddings of its tokens, at the places 0, 1, 2, …"""

    def __init__(self, embedding: TokenEmbedding) -> None:
        super().__init__()
        self.embedding = embedding

    def forward(
        self, tokens: Int[Tensor, "b n"], segments: Int[Tensor, "b n"] | None = None
    ) -> Stemmed:
        """Return the vectors of the tokens."""
        return Stemmed(self.embedding(tokens, segments), _places(tokens))


class VectorStem(nn.Module):
    """Stem of a sequence of vectors, such as frames, sensor values or features.

    Args:
        dim: Width of the model.
        input_dim: Width of the vectors, which are then projected to `dim`; None for no projection.
    """

    def __init__(self, dim: int, input_dim: int | None = None) -> None:
        super().__init__()
        self.project = nn.Identity() if input_dim is None else nn.Linear(input_dim, dim)

    def forward(self, vectors: Float[Tensor, "b n d"]) -> Stemmed:
        """Return the vectors, at the places 0, 1, 2, …"""
        return Stemmed(self.project(vectors), _places(vectors))


def _places(tokens: Tensor) -> Tensor:
    return torch.arange(tokens.shape[1], device=tokens.device)
