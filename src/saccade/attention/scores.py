"""Scores: how well each query fits each key.

Every score is a module called as `score(query, keys)`: (..., q, d), (..., k, e) → (..., q, k). It
works in two steps: `prepare(keys)`, which does not depend on the query, so that a loop over queries
computes it once, and `compare(query, prepared)`. A `FactoredScore` is a plain dot product of
transformed queries and keys; it names these factors and so runs on torch's fused kernel, which
never builds the (q, k) matrix.

To add a score, write one class here and its options beside it: subclass `FactoredScore` if the
score has factors, `Score` if not. Recipes can name every score whose options are in `ScoreConfig`.
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
    """Base class of scores: one number for each pair of a query and a key.

    Attributes:
        needs_equal_widths: True if queries and keys must have the same width.
    """

    needs_equal_widths: ClassVar[bool] = False

    def prepare(self, keys: Float[Tensor, "*c k e"]) -> Float[Tensor, "*c k r"]:
        """Return the part of the score that depends on the keys alone."""
        return keys

    @abstractmethod
    def compare(
        self, query: Float[Tensor, "*b q d"], prepared: Float[Tensor, "*c k r"]
    ) -> Float[Tensor, "*a q k"]:
        """Return the score (..., q, k) of every query with every key that `prepare` returned."""

    def forward(
        self, query: Float[Tensor, "*b q d"], keys: Float[Tensor, "*c k e"]
    ) -> Float[Tensor, "*a q k"]:
        """Return the score of every query with every key.

        Args:
            query: Queries (..., q, d).
            keys: Keys (..., k, e); leading axes broadcast with those of the queries.

        Returns:
            Scores (..., q, k).

        Raises:
            ShapeError: If the widths do not fit this score.
        """
        return self.compare(query, self.prepare(keys))


class Factor(NamedTuple):
    """Transformed queries whose dot product with prepared keys, times `scale`, is the score."""

    query: Float[Tensor, "*b q r"]
    scale: float


class FactoredScore(Score):
    """A score that is the dot product of a transformed query and a transformed key.

    Such a score runs on torch's fused kernel. Subclasses implement `factor` and, if they transform
    keys, `prepare`.
    """

    @abstractmethod
    def factor(self, query: Float[Tensor, "*b q d"], prepared: Float[Tensor, "*c k r"]) -> Factor:
        """Return the queries and the scale whose dot product with `prepared` is this score."""

    def compare(
        self, query: Float[Tensor, "*b q d"], prepared: Float[Tensor, "*c k r"]
    ) -> Float[Tensor, "*a q k"]:
        query, scale = self.factor(query, prepared)
        if scale != 1.0:
            query = query * scale
        return query @ prepared.transpose(-2, -1)


class Dot(FactoredScore):
    """Dot product (Luong et al. 2015, "dot").

        e(q, k) = q · k

    It has no parameters and needs queries and keys of one width.

    Examples:
        >>> import torch
        >>> from saccade.attention import Dot
        >>> query, keys = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0], [0.0, 1.0]])
        >>> Dot()(query, keys).tolist()
        [[11.0, 2.0]]
    """

    needs_equal_widths = True

    def factor(self, query: Float[Tensor, "*b q d"], prepared: Float[Tensor, "*c k e"]) -> Factor:
        _require_equal_widths(query, prepared)
        return Factor(query, 1.0)


class ScaledDot(FactoredScore):
    """Scaled dot product (Vaswani et al. 2017, eq. 1).

        e(q, k) = q · k / √d_k

    The dot product of two vectors with independent entries of variance 1 has variance d_k; dividing
    by √d_k brings it back to 1, so that softmax does not saturate as vectors get wider. It has no
    parameters and needs queries and keys of one width.

    Examples:
        >>> import torch
        >>> from saccade.attention import ScaledDot
        >>> ScaledDot()(torch.ones(1, 4), torch.ones(2, 4)).tolist()
        [[2.0, 2.0]]
    """

    needs_equal_widths = True

    def factor(self, query: Float[Tensor, "*b q d"], prepared: Float[Tensor, "*c k e"]) -> Factor:
        _require_equal_widths(query, prepared)
        return Factor(query, 1.0 / math.sqrt(prepared.shape[-1]))


class Cosine(FactoredScore):
    """Cosine similarity, between -1 and 1 (Graves et al. 2014, eq. 6).

        e(q, k) = q · k / (|q| |k|)

    A zero vector scores 0. It has no parameters and needs queries and keys of one width.
    """

    needs_equal_widths = True

    def prepare(self, keys: Float[Tensor, "*c k e"]) -> Float[Tensor, "*c k e"]:
        return _unit(keys)

    def factor(self, query: Float[Tensor, "*b q d"], prepared: Float[Tensor, "*c k e"]) -> Factor:
        _require_equal_widths(query, prepared)
        return Factor(_unit(query), 1.0)


class General(FactoredScore):
    """Bilinear score (Luong et al. 2015, "general").

        e(q, k) = qᵀ W k

    Args:
        query_dim: Width of the queries.
        key_dim: Width of the keys, which may differ.
    """

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
    """Bilinear score of low rank: `General` with W = UᵀV.

        e(q, k) = (U q) · (V k)

    Args:
        query_dim: Width of the queries.
        key_dim: Width of the keys, which may differ.
        rank: Number of rows of U and V. A lower rank needs fewer parameters.
    """

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
    """Additive score (Bahdanau et al. 2015, appendix A.1.2).

        e(q, k) = vᵀ tanh(W q + U k)

    It has no factors, so it does not run on the fused kernel. The tanh of every pair needs
    (q, k, hidden_dim) numbers: they are computed in pieces of at most `max_elements` numbers (batch
    included) and, if there is more than one piece, computed again for the gradient.

    Args:
        query_dim: Width of the queries.
        key_dim: Width of the keys, which may differ.
        hidden_dim: Width of W q and U k.
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
    """v · tanh(query + key) of all pairs, `rows` x `columns` pairs at a time, with its gradient."""

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
    """Base class of the options of scores.

    kind   the score: dot, scaled_dot and cosine have no parameters and need queries and keys of
           one width; general, low_rank and additive learn to compare vectors of any widths

    `score` is the class that the options build.
    """

    score: ClassVar[type[Score]]

    kind: str

    def build(self, query_dim: int, key_dim: int) -> Score:
        """Build the score for queries and keys of these widths.

        Raises:
            ShapeError: If the score needs equal widths and they differ.
        """
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
        """Build the score for widths that are known to fit."""


@dataclass(frozen=True, kw_only=True)
class DotConfig(BaseScoreConfig):
    """Options of the score q · k; it has none."""

    score: ClassVar[type[Score]] = Dot
    kind: Literal["dot"] = "dot"

    def make(self, query_dim: int, key_dim: int) -> Dot:
        """Build the score."""
        return Dot()


@dataclass(frozen=True, kw_only=True)
class ScaledDotConfig(BaseScoreConfig):
    """Options of the score q · k / √d_k; it has none."""

    score: ClassVar[type[Score]] = ScaledDot
    kind: Literal["scaled_dot"] = "scaled_dot"

    def make(self, query_dim: int, key_dim: int) -> ScaledDot:
        """Build the score."""
        return ScaledDot()


@dataclass(frozen=True, kw_only=True)
class CosineConfig(BaseScoreConfig):
    """Options of the score q · k / (|q| |k|); it has none."""

    score: ClassVar[type[Score]] = Cosine
    kind: Literal["cosine"] = "cosine"

    def make(self, query_dim: int, key_dim: int) -> Cosine:
        """Build the score."""
        return Cosine()


@dataclass(frozen=True, kw_only=True)
class GeneralConfig(BaseScoreConfig):
    """Options of the score qᵀ W k; it has none."""

    score: ClassVar[type[Score]] = General
    kind: Literal["general"] = "general"

    def make(self, query_dim: int, key_dim: int) -> General:
        """Build the score."""
        return General(query_dim, key_dim)


@dataclass(frozen=True, kw_only=True)
class LowRankConfig(BaseScoreConfig):
    """Options of the score (U q) · (V k).

    hidden_dim   rank of the score, in numbers per vector; default: the width of the keys. Lower it
                 to save parameters
    """

    score: ClassVar[type[Score]] = LowRank
    kind: Literal["low_rank"] = "low_rank"
    hidden_dim: Count | None = None

    def make(self, query_dim: int, key_dim: int) -> LowRank:
        """Build the score."""
        return LowRank(query_dim, key_dim, self.hidden_dim or key_dim)


@dataclass(frozen=True, kw_only=True)
class AdditiveConfig(BaseScoreConfig):
    """Options of the score vᵀ tanh(W q + U k).

    hidden_dim   width of the hidden layer; default: the width of the keys. Lower it to save time
                 and memory, which grow with it
    """

    score: ClassVar[type[Score]] = Additive
    kind: Literal["additive"] = "additive"
    hidden_dim: Count | None = None

    def make(self, query_dim: int, key_dim: int) -> Additive:
        """Build the score."""
        return Additive(query_dim, key_dim, self.hidden_dim or key_dim)


ScoreConfig = (
    DotConfig | ScaledDotConfig | CosineConfig | GeneralConfig | LowRankConfig | AdditiveConfig
)


def score_of(score: Score | str, query_dim: int, key_dim: int) -> Score:
    """Return a score, built for these widths if only its kind is named.

    Raises:
        ShapeError: If there is no such kind, or it needs equal widths and they differ.
    """
    if isinstance(score, Score):
        return score
    options = kinds(ScoreConfig)
    if score not in options:
        raise ShapeError(f"{score!r} is not a score; use one of: {', '.join(options)}")
    built: Score = options[score]().build(query_dim, key_dim)
    return built


def _unit(vectors: Tensor) -> Tensor:
    """Return vectors of length 1; a zero vector stays zero, with a finite gradient."""
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
            f"got {vectors.shape[-1]}; build it with {name}_dim={vectors.shape[-1]}"
        )
