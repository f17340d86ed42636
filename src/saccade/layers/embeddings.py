"""Token embeddings, and the projection back to logits over the vocabulary."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from saccade.errors import ShapeError
from saccade.shapes import Float, Int, Tensor


class TokenEmbedding(nn.Module):
    """One learned vector per token.

    Args:
        vocabulary: Number of tokens.
        dim: Width of a vector.
        scale: Multiply the vectors by √dim (Vaswani et al. 2017, section 3.4).
        num_segments: Number of segments; each has a learned vector that is added to its tokens
            (Devlin et al. 2019). 0 for none.
    """

    def __init__(
        self, vocabulary: int, dim: int, *, scale: bool = False, num_segments: int = 0
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocabulary, dim))
        nn.init.normal_(self.weight, std=dim**-0.5)
        self.scale = math.sqrt(dim) if scale else 1.0
        self.segments = nn.Embedding(num_segments, dim) if num_segments else None
        if self.segments is not None:
            nn.init.normal_(self.segments.weight, std=dim**-0.5)

    @property
    def dim(self) -> int:
        """The width of a vector."""
        return self.weight.shape[1]

    def forward(
        self, tokens: Int[Tensor, "b n"], segments: Int[Tensor, "b n"] | None = None
    ) -> Float[Tensor, "b n d"]:
        """Return the vectors of tokens.

        Args:
            tokens: Token ids.
            segments: Segment ids, counted from 0; all 0 if None.

        Raises:
            ShapeError: If segments are passed to an embedding without any.
        """
        x = F.embedding(tokens, self.weight)
        if self.scale != 1.0:
            x = x * self.scale
        if self.segments is not None:
            if segments is None:
                segments = torch.zeros_like(tokens)
            x = x + self.segments(segments)
        elif segments is not None:
            raise ShapeError(
                "segments were given, but this model was built with num_segments=0; build it with "
                "their number, or leave them out"
            )
        return x

    def extra_repr(self) -> str:
        """Return the arguments for the repr."""
        return f"{self.weight.shape[0]}, {self.dim}, scale={self.scale:g}"


class OutputProjection(nn.Module):
    """Projection from hidden states to logits over the vocabulary.

    Args:
        dim: Width of the hidden states.
        vocabulary: Number of tokens.
        tied: An embedding whose matrix is shared (Press and Wolf 2017).
        bias: Add a bias per token.

    Raises:
        ShapeError: If the shape of the tied embedding differs.
    """

    def __init__(
        self, dim: int, vocabulary: int, *, tied: TokenEmbedding | None = None, bias: bool = False
    ) -> None:
        super().__init__()
        if tied is not None and tied.weight.shape != (vocabulary, dim):
            raise ShapeError(
                f"an output over {vocabulary} tokens of width {dim} cannot share the embedding of "
                f"{tied.weight.shape[0]} tokens of width {tied.weight.shape[1]}; make both sizes "
                "equal, or leave out tied"
            )
        self.weight = nn.Parameter(torch.empty(vocabulary, dim)) if tied is None else tied.weight
        if tied is None:
            nn.init.normal_(self.weight, std=dim**-0.5)
        self.bias = nn.Parameter(torch.zeros(vocabulary)) if bias else None

    @property
    def dim(self) -> int:
        """The width of the hidden states."""
        return self.weight.shape[1]

    def forward(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b v"]:
        """Return the logits."""
        return F.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the arguments for the repr."""
        return f"{self.weight.shape[1]} -> {self.weight.shape[0]}, bias={self.bias is not None}"
