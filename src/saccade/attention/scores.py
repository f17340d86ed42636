"""Scores: how well each query fits each key.

Every score is a module called as `score(query, keys)`: (..., q, d), (..., k, e) -> (..., q, k).
A `FactoredScore` is one that is a plain dot product of transformed queries and keys; it says
which, and so runs on torch's fused kernel, where the (q, k) matrix is never built. To add a score
write one class here: subclass `FactoredScore` if you can give the factors, `Score` if not.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import nn
from torch.autograd.function import FunctionCtx, once_differentiable

from saccade.errors import ShapeError
from saccade.shapes import Float, Tensor


class Score(nn.Module, ABC):
    """Query and keys in, one number for each pair out."""

    @abstractmethod
    def forward(
        self, query: Float[Tensor, "*b q d"], keys: Float[Tensor, "*c k e"]
    ) -> Float[Tensor, "*a q k"]:
        """The score of every query with every key."""


class Factored(NamedTuple):
    """A score written as `scale * query · key`."""

    query: Float[Tensor, "*b q r"]
    keys: Float[Tensor, "*c k r"]
    scale: float


class FactoredScore(Score):
    """A score that is a dot product of vectors computed from the query and the key alone."""

    @abstractmethod
    def factors(self, query: Float[Tensor, "*b q d"], keys: Float[Tensor, "*c k e"]) -> Factored:
        """The vectors whose scaled dot product is this score."""

    def forward(
        self, query: Float[Tensor, "*b q d"], keys: Float[Tensor, "*c k e"]
    ) -> Float[Tensor, "*a q k"]:
        query, keys, scale = self.factors(query, keys)
        if scale != 1.0:
            query = query * scale
        return query @ keys.transpose(-2, -1)


class Dot(FactoredScore):
    """e(q, k) = q · k.

    >>> Dot()(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0], [0.0, 1.0]])).tolist()
    [[11.0, 2.0]]
    """

    def factors(self, query: Float[Tensor, "*b q d"], keys: Float[Tensor, "*c k e"]) -> Factored:
        _require_equal_widths(query, keys)
        return Factored(query, keys, 1.0)


class ScaledDot(FactoredScore):
    """e(q, k) = q · k / √d_k (Vaswani et al. 2017, eq. 1).

    The dot product of two vectors with independent entries of variance 1 has variance d_k; the
    division brings it back to 1, so that softmax does not saturate as vectors get wider.
    """

    def factors(self, query: Float[Tensor, "*b q d"], keys: Float[Tensor, "*c k e"]) -> Factored:
        _require_equal_widths(query, keys)
        return Factored(query, keys, 1.0 / math.sqrt(keys.shape[-1]))


class Cosine(FactoredScore):
    """e(q, k) = q · k / (|q| |k|), between -1 and 1; a zero vector scores 0."""

    def factors(self, query: Float[Tensor, "*b q d"], keys: Float[Tensor, "*c k e"]) -> Factored:
        _require_equal_widths(query, keys)
        return Factored(_unit(query), _unit(keys), 1.0)


class General(FactoredScore):
    """e(q, k) = qᵀ W k (Luong et al. 2015, "general"): query and keys may differ in width."""

    def __init__(self, query_dim: int, key_dim: int) -> None:
        super().__init__()
        self.query_proj = nn.Linear(query_dim, key_dim, bias=False)

    def factors(self, query: Float[Tensor, "*b q d"], keys: Float[Tensor, "*c k e"]) -> Factored:
        _require_width(self, "query", query, self.query_proj.in_features)
        _require_width(self, "key", keys, self.query_proj.out_features)
        return Factored(self.query_proj(query), keys, 1.0)


class LowRank(FactoredScore):
    """e(q, k) = (U q) · (V k), the general score with W = UᵀV of rank at most `rank`."""

    def __init__(self, query_dim: int, key_dim: int, rank: int) -> None:
        super().__init__()
        self.query_proj = nn.Linear(query_dim, rank, bias=False)
        self.key_proj = nn.Linear(key_dim, rank, bias=False)

    def factors(self, query: Float[Tensor, "*b q d"], keys: Float[Tensor, "*c k e"]) -> Factored:
        _require_width(self, "query", query, self.query_proj.in_features)
        _require_width(self, "key", keys, self.key_proj.in_features)
        return Factored(self.query_proj(query), self.key_proj(keys), 1.0)


class Affine(FactoredScore):
    """e(q, k) = w · [q; k] + c, one linear layer on the concatenation; kept to show it fails.

    The query's share of the sum is the same for every key, so softmax over the keys cancels it:
    all queries get the same weights. A score that reads both needs the tanh of `Additive`.
    As factors: [w_q · q + c, 1] · [1, w_k · k].
    """

    def __init__(self, query_dim: int, key_dim: int) -> None:
        super().__init__()
        self.query_proj = nn.Linear(query_dim, 1)
        self.key_proj = nn.Linear(key_dim, 1, bias=False)

    def factors(self, query: Float[Tensor, "*b q d"], keys: Float[Tensor, "*c k e"]) -> Factored:
        _require_width(self, "query", query, self.query_proj.in_features)
        _require_width(self, "key", keys, self.key_proj.in_features)
        of_query, of_keys = self.query_proj(query), self.key_proj(keys)
        return Factored(
            torch.cat((of_query, torch.ones_like(of_query)), -1),
            torch.cat((torch.ones_like(of_keys), of_keys), -1),
            1.0,
        )


class Additive(Score):
    """e(q, k) = vᵀ tanh(W q + U k) (Bahdanau et al. 2015, appendix A.1.2).

    The tanh of every pair needs (q, k, hidden_dim) numbers. They are computed in pieces of at
    most `max_elements` numbers (batch included) and, where there is more than one piece,
    computed again for the gradient instead of kept.
    """

    max_elements = 2**22

    def __init__(self, query_dim: int, key_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.query_proj = nn.Linear(query_dim, hidden_dim, bias=False)
        self.key_proj = nn.Linear(key_dim, hidden_dim, bias=False)
        self.energy = nn.Linear(hidden_dim, 1, bias=False)

    def forward(
        self, query: Float[Tensor, "*b q d"], keys: Float[Tensor, "*c k e"]
    ) -> Float[Tensor, "*a q k"]:
        return self.compare(query, self.project_keys(keys))

    def project_keys(self, keys: Float[Tensor, "*c k e"]) -> Float[Tensor, "*c k r"]:
        """U k, which does not depend on the query: a loop over queries computes it once."""
        _require_width(self, "key", keys, self.key_proj.in_features)
        return self.key_proj(keys)

    def compare(
        self, query: Float[Tensor, "*b q d"], projected: Float[Tensor, "*c k r"]
    ) -> Float[Tensor, "*a q k"]:
        """The scores of queries with keys that went through `project_keys` before."""
        _require_width(self, "query", query, self.query_proj.in_features)
        query = self.query_proj(query)
        batch = torch.broadcast_shapes(query.shape[:-2], projected.shape[:-2])
        pair_size = max(1, math.prod(batch) * query.shape[-1])
        columns = max(1, min(projected.shape[-2], self.max_elements // pair_size))
        rows = max(1, self.max_elements // (pair_size * columns))
        energy = self.energy.weight[0]
        if rows >= query.shape[-2] and columns >= projected.shape[-2]:
            return torch.tanh(query.unsqueeze(-2) + projected.unsqueeze(-3)) @ energy
        query = query.expand(*batch, *query.shape[-2:])
        projected = projected.expand(*batch, *projected.shape[-2:])
        return _InPieces.apply(query, projected, energy, rows, columns)


class _InPieces(torch.autograd.Function):
    """v · tanh(query + key) for all pairs, `rows` x `columns` pairs at a time, both ways."""

    @staticmethod
    def forward(
        ctx: FunctionCtx, query: Tensor, keys: Tensor, energy: Tensor, rows: int, columns: int
    ) -> Tensor:
        ctx.save_for_backward(query, keys, energy)
        ctx.sizes = (rows, columns)  # type: ignore[attr-defined]
        scores = query.new_empty(*query.shape[:-1], keys.shape[-2])
        for i, some_queries in _pieces(query, rows):
            for j, some_keys in _pieces(keys, columns):
                hidden = (some_queries.unsqueeze(-2) + some_keys.unsqueeze(-3)).tanh_()
                scores[..., i, j] = hidden @ energy
        return scores

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        query, keys, energy = ctx.saved_tensors  # type: ignore[attr-defined]
        rows, columns = ctx.sizes  # type: ignore[attr-defined]
        of_query, of_keys, of_energy = map(torch.zeros_like, (query, keys, energy))
        for i, some_queries in _pieces(query, rows):
            for j, some_keys in _pieces(keys, columns):
                hidden = (some_queries.unsqueeze(-2) + some_keys.unsqueeze(-3)).tanh_()
                of_pairs = grad[..., i, j]
                of_energy += of_pairs.reshape(-1) @ hidden.flatten(0, -2)
                # d tanh(x) = 1 - tanh(x)²
                slope = hidden.square_().neg_().add_(1).mul_(energy).mul_(of_pairs.unsqueeze(-1))
                of_query[..., i, :] += slope.sum(-2)
                of_keys[..., j, :] += slope.sum(-3)
        return of_query, of_keys, of_energy, None, None


def _pieces(vectors: Tensor, size: int) -> Iterator[tuple[slice, Tensor]]:
    for start in range(0, vectors.shape[-2], size):
        part = slice(start, start + size)
        yield part, vectors[..., part, :]


def _unit(vectors: Tensor) -> Tensor:
    """Vectors of length 1; a zero vector stays zero, with a finite gradient."""
    length = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return vectors / length.masked_fill(length == 0, 1.0)


def _require_equal_widths(query: Tensor, keys: Tensor) -> None:
    if query.shape[-1] != keys.shape[-1]:
        raise ShapeError(
            f"this score needs queries and keys of one width, got queries of width "
            f"{query.shape[-1]} and keys of width {keys.shape[-1]}; "
            "General, LowRank and Additive take different widths"
        )


def _require_width(score: Score, name: str, vectors: Tensor, width: int) -> None:
    if vectors.shape[-1] != width:
        raise ShapeError(
            f"{type(score).__name__} was built for a {name} width of {width}, "
            f"got {vectors.shape[-1]}"
        )
