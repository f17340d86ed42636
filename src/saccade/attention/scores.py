"""Scores: how well each query fits each key.

Every score is a module called as `score(query, keys)`: (..., q, d), (..., k, e) -> (..., q, k). It
comes in two steps: `prepare(keys)`, which does not depend on the query, so that a loop over queries
does it once, and `compare(query, prepared)`. A `FactoredScore` is one that is a plain dot product
of transformed queries and keys; it says which, and so runs on torch's fused kernel, where the
(q, k) matrix is never built. To add a score write one class here, with its options beside it:
subclass `FactoredScore` if you can give the factors, `Score` if not. A score whose options stand in
`ScoreConfig` can be named in a recipe.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import nn
from torch.autograd.function import FunctionCtx, once_differentiable

from saccade.config import Count, kinds
from saccade.errors import ShapeError
from saccade.shapes import Float, Tensor


class Score(nn.Module, ABC):
    """Query and keys in, one number for each pair out.

    `needs_equal_widths` is true of scores that compare vectors of one width only.
    """

    needs_equal_widths: ClassVar[bool] = False

    def prepare(self, keys: Float[Tensor, "*c k e"]) -> Float[Tensor, "*c k r"]:
        """What of the score can be computed from the keys alone."""
        return keys

    @abstractmethod
    def compare(
        self, query: Float[Tensor, "*b q d"], prepared: Float[Tensor, "*c k r"]
    ) -> Float[Tensor, "*a q k"]:
        """The score of every query with every key that went through `prepare`."""

    def forward(
        self, query: Float[Tensor, "*b q d"], keys: Float[Tensor, "*c k e"]
    ) -> Float[Tensor, "*a q k"]:
        return self.compare(query, self.prepare(keys))


class Factor(NamedTuple):
    """A query whose dot product with a prepared key, times `scale`, is the score."""

    query: Float[Tensor, "*b q r"]
    scale: float


class FactoredScore(Score):
    """A score that is a dot product of vectors computed from the query and the key alone."""

    @abstractmethod
    def factor(self, query: Float[Tensor, "*b q d"], prepared: Float[Tensor, "*c k r"]) -> Factor:
        """The vectors whose scaled dot product with the prepared keys is this score."""

    def compare(
        self, query: Float[Tensor, "*b q d"], prepared: Float[Tensor, "*c k r"]
    ) -> Float[Tensor, "*a q k"]:
        query, scale = self.factor(query, prepared)
        if scale != 1.0:
            query = query * scale
        return query @ prepared.transpose(-2, -1)


class Dot(FactoredScore):
    """e(q, k) = q · k.

    >>> Dot()(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0], [0.0, 1.0]])).tolist()
    [[11.0, 2.0]]
    """

    needs_equal_widths = True

    def factor(self, query: Float[Tensor, "*b q d"], prepared: Float[Tensor, "*c k e"]) -> Factor:
        _require_equal_widths(query, prepared)
        return Factor(query, 1.0)


class ScaledDot(FactoredScore):
    """e(q, k) = q · k / √d_k (Vaswani et al. 2017, eq. 1).

    The dot product of two vectors with independent entries of variance 1 has variance d_k; the
    division brings it back to 1, so that softmax does not saturate as vectors get wider.
    """

    needs_equal_widths = True

    def factor(self, query: Float[Tensor, "*b q d"], prepared: Float[Tensor, "*c k e"]) -> Factor:
        _require_equal_widths(query, prepared)
        return Factor(query, 1.0 / math.sqrt(prepared.shape[-1]))


class Cosine(FactoredScore):
    """e(q, k) = q · k / (|q| |k|), between -1 and 1; a zero vector scores 0."""

    needs_equal_widths = True

    def prepare(self, keys: Float[Tensor, "*c k e"]) -> Float[Tensor, "*c k e"]:
        return _unit(keys)

    def factor(self, query: Float[Tensor, "*b q d"], prepared: Float[Tensor, "*c k e"]) -> Factor:
        _require_equal_widths(query, prepared)
        return Factor(_unit(query), 1.0)


class General(FactoredScore):
    """e(q, k) = qᵀ W k (Luong et al. 2015, "general"): query and keys may differ in width."""

    def __init__(self, query_dim: int, key_dim: int) -> None:
        super().__init__()
        self.query_proj = nn.Linear(query_dim, key_dim, bias=False)

    def prepare(self, keys: Float[Tensor, "*c k e"]) -> Float[Tensor, "*c k e"]:
        _require_width(self, "key", keys, self.query_proj.out_features)
        return keys

    def factor(self, query: Float[Tensor, "*b q d"], prepared: Float[Tensor, "*c k e"]) -> Factor:
        _require_width(self, "query", query, self.query_proj.in_features)
        return Factor(self.query_proj(query), 1.0)


class LowRank(FactoredScore):
    """e(q, k) = (U q) · (V k), the general score with W = UᵀV of rank at most `rank`."""

    def __init__(self, query_dim: int, key_dim: int, rank: int) -> None:
        super().__init__()
        self.query_proj = nn.Linear(query_dim, rank, bias=False)
        self.key_proj = nn.Linear(key_dim, rank, bias=False)

    def prepare(self, keys: Float[Tensor, "*c k e"]) -> Float[Tensor, "*c k r"]:
        _require_width(self, "key", keys, self.key_proj.in_features)
        return self.key_proj(keys)

    def factor(self, query: Float[Tensor, "*b q d"], prepared: Float[Tensor, "*c k r"]) -> Factor:
        _require_width(self, "query", query, self.query_proj.in_features)
        return Factor(self.query_proj(query), 1.0)


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

    def prepare(self, keys: Float[Tensor, "*c k e"]) -> Float[Tensor, "*c k r"]:
        _require_width(self, "key", keys, self.key_proj.in_features)
        return self.key_proj(keys)

    def compare(
        self, query: Float[Tensor, "*b q d"], prepared: Float[Tensor, "*c k r"]
    ) -> Float[Tensor, "*a q k"]:
        _require_width(self, "query", query, self.query_proj.in_features)
        query = self.query_proj(query)
        batch = torch.broadcast_shapes(query.shape[:-2], prepared.shape[:-2])
        pair_size = max(1, math.prod(batch) * query.shape[-1])
        columns = max(1, min(prepared.shape[-2], self.max_elements // pair_size))
        rows = max(1, self.max_elements // (pair_size * columns))
        energy = self.energy.weight[0]
        if rows >= query.shape[-2] and columns >= prepared.shape[-2]:
            return torch.tanh(query.unsqueeze(-2) + prepared.unsqueeze(-3)) @ energy
        query = query.expand(*batch, *query.shape[-2:])
        prepared = prepared.expand(*batch, *prepared.shape[-2:])
        return _InPieces.apply(query, prepared, energy, rows, columns)


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


@dataclass(frozen=True, kw_only=True)
class BaseScoreConfig(ABC):
    """The part that the options of all scores share; `score` is the class they build."""

    score: ClassVar[type[Score]]

    kind: str

    def build(self, query_dim: int, key_dim: int) -> Score:
        """The score between queries and keys of these widths."""
        if self.score.needs_equal_widths and query_dim != key_dim:
            options = kinds(ScoreConfig).items()
            allowed = [kind for kind, other in options if not other.score.needs_equal_widths]
            raise ShapeError(
                f'score.kind = "{self.kind}" needs queries and keys of one width, got queries of '
                f"width {query_dim} and keys of width {key_dim}; use {', '.join(allowed)}, or make "
                "the widths equal"
            )
        return self.make(query_dim, key_dim)

    @abstractmethod
    def make(self, query_dim: int, key_dim: int) -> Score:
        """The same for widths that fit."""


@dataclass(frozen=True, kw_only=True)
class DotConfig(BaseScoreConfig):
    """q · k."""

    score: ClassVar[type[Score]] = Dot
    kind: Literal["dot"] = "dot"

    def make(self, query_dim: int, key_dim: int) -> Dot:
        """The score."""
        return Dot()


@dataclass(frozen=True, kw_only=True)
class ScaledDotConfig(BaseScoreConfig):
    """q · k / √d_k."""

    score: ClassVar[type[Score]] = ScaledDot
    kind: Literal["scaled_dot"] = "scaled_dot"

    def make(self, query_dim: int, key_dim: int) -> ScaledDot:
        """The score."""
        return ScaledDot()


@dataclass(frozen=True, kw_only=True)
class CosineConfig(BaseScoreConfig):
    """q · k / (|q| |k|)."""

    score: ClassVar[type[Score]] = Cosine
    kind: Literal["cosine"] = "cosine"

    def make(self, query_dim: int, key_dim: int) -> Cosine:
        """The score."""
        return Cosine()


@dataclass(frozen=True, kw_only=True)
class GeneralConfig(BaseScoreConfig):
    """qᵀ W k."""

    score: ClassVar[type[Score]] = General
    kind: Literal["general"] = "general"

    def make(self, query_dim: int, key_dim: int) -> General:
        """The score."""
        return General(query_dim, key_dim)


@dataclass(frozen=True, kw_only=True)
class LowRankConfig(BaseScoreConfig):
    """(U q) · (V k).

    hidden_dim   the rank; the width of the keys if left out
    """

    score: ClassVar[type[Score]] = LowRank
    kind: Literal["low_rank"] = "low_rank"
    hidden_dim: Count | None = None

    def make(self, query_dim: int, key_dim: int) -> LowRank:
        """The score."""
        return LowRank(query_dim, key_dim, self.hidden_dim or key_dim)


@dataclass(frozen=True, kw_only=True)
class AdditiveConfig(BaseScoreConfig):
    """vᵀ tanh(W q + U k).

    hidden_dim   the width of the hidden layer; that of the keys if left out
    """

    score: ClassVar[type[Score]] = Additive
    kind: Literal["additive"] = "additive"
    hidden_dim: Count | None = None

    def make(self, query_dim: int, key_dim: int) -> Additive:
        """The score."""
        return Additive(query_dim, key_dim, self.hidden_dim or key_dim)


ScoreConfig = (
    DotConfig | ScaledDotConfig | CosineConfig | GeneralConfig | LowRankConfig | AdditiveConfig
)


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
