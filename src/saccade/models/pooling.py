"""Pooling: one vector for a complete input, as classifiers need it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from saccade.attention import AdditiveConfig, Attend, Score, ScoreConfig, masks
from saccade.attention.scores import score_of
from saccade.config import Conflict, Count, Fraction, without_effect
from saccade.encoders.transformer import TransformerEncoder
from saccade.interfaces import Memory
from saccade.shapes import Float, Tensor

Pooling = Literal["first", "mean", "summary"]
"""A pooling without parameters."""
PoolingKind = Literal["first", "mean", "summary", "attention"]
Join = Literal["project", "concat"]


class AttentionPooling(nn.Module):
    """Attention of learned queries over the states of an encoder, whatever it has read.

        a_j = softmax_i(e(q_j, h_i)),    z_j = Σ_i a_ji h_i,    j = 1 … queries

    The queries q_j are parameters: they ask every input the same question, and the weights show
    which words, cells or time steps answer it. (One query with the additive score is the word
    attention of Yang et al. 2016, "Hierarchical attention networks"; several queries are the hops
    of Lin et al. 2017, "A structured self-attentive sentence embedding".) Several contexts z_j are
    concatenated and, with `join="project"`, projected to the width of one.

    Args:
        dim: Width of the states.
        score: A score for queries and states of this width, or the kind of one, such as
            "additive" or "scaled_dot".
        queries: Number of queries.
        join: "project" or "concat"; no effect with one query.
        dropout: Probability with which a weight is set to 0, in training mode only.

    Attributes:
        out_dim: Width of the pooled vector.

    Examples:
        >>> import torch
        >>> from saccade.interfaces import Memory
        >>> from saccade.models import AttentionPooling
        >>> states, mask = torch.randn(2, 5, 8), torch.arange(5) < torch.tensor([[5], [2]])
        >>> AttentionPooling(8, queries=3)(Memory(states, mask)).shape
        torch.Size([2, 8])
    """

    def __init__(
        self,
        dim: int,
        score: Score | str = "additive",
        queries: int = 1,
        *,
        join: Join = "project",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.queries = nn.Parameter(torch.randn(queries, dim) / dim**0.5)
        self.attend = Attend(score_of(score, dim, dim), dropout)
        projects = queries > 1 and join == "project"
        self.out_dim = dim if projects else queries * dim
        self.project = nn.Linear(queries * dim, dim) if projects else nn.Identity()

    @property
    def query_names(self) -> tuple[str, ...]:
        """The names of the queries in attention records, numbered from 1 if there are several."""
        count = len(self.queries)
        return tuple(f"query {i}" for i in range(1, count + 1)) if count > 1 else ("query",)

    def forward(self, memory: Memory) -> Float[Tensor, "b e"]:
        """Return one vector per input; padding has no weight."""
        mask = None if memory.mask is None else masks.padding(memory.mask)
        contexts = self.attend(self.queries, memory.states, memory.states, mask)
        return self.project(contexts.flatten(1))

    def extra_repr(self) -> str:
        """Return the width and the number of queries."""
        return f"{self.queries.shape[1]}, queries={len(self.queries)}"


def pool(memory: Memory, kind: Pooling) -> Float[Tensor, "b d"]:
    """Return one vector per input.

    Args:
        memory: Output of an encoder.
        kind: "first": the first state, that of a class token; "mean": the mean of the real states;
            "summary": the encoder's own summary, or the mean if it has none.
    """
    if kind == "first":
        return memory.states[:, 0]
    if kind == "mean":
        return Memory(memory.states, memory.mask).pooled()
    return memory.pooled()


def encode_pooled(
    encoder: nn.Module,
    pooling: Pooling | AttentionPooling,
    *inputs: Tensor | None,
    **options: Tensor | None,
) -> Float[Tensor, "b d"]:
    """Encode inputs and return one vector per input.

    If it is that of the first token, the last layer of a Transformer computes no others: that saves
    7 % of the work with 12 layers, 14 % with 6.
    """
    if isinstance(pooling, AttentionPooling):
        return pooling(encoder(*inputs, **options))
    if pooling == "first" and isinstance(encoder, TransformerEncoder):
        return pool(encoder(*inputs, **options, num_states=1), pooling)
    return pool(encoder(*inputs, **options), pooling)


def pooled_dim(pooling: Pooling | AttentionPooling, dim: int) -> int:
    """Return the width of the pooled vector of an encoder with states of width `dim`."""
    return pooling.out_dim if isinstance(pooling, AttentionPooling) else dim


@dataclass(frozen=True, kw_only=True)
class AttentionPoolingConfig:
    """Options of attention pooling.

    score     how a query is compared with a state
    queries   number of learned queries; each may look at another part of an input
    join      how the contexts of several queries become one vector: "project", by a linear layer
              to the width of the states; "concat", side by side
    dropout   dropout on the attention weights, a fraction
    """

    score: ScoreConfig = AdditiveConfig()
    queries: Count = 1
    join: Join = "project"
    dropout: Fraction = 0.0

    def conflicts(self) -> Iterator[Conflict]:
        """Yield `join` if there is nothing to join."""
        if self.queries == 1:
            yield from without_effect(self, ["join"], "with one query")

    def build(self, dim: int) -> AttentionPooling:
        """Build the pooling of states of width `dim`."""
        return AttentionPooling(
            dim, self.score.build(dim, dim), self.queries, join=self.join, dropout=self.dropout
        )


@dataclass(frozen=True, kw_only=True)
class PoolingOptions:
    """Options of the pooling of classifiers; subclasses choose the kinds that fit their encoder.

    attention_pooling   options of pooling = "attention"
    """

    pooling: PoolingKind = "mean"
    attention_pooling: AttentionPoolingConfig = AttentionPoolingConfig()

    def conflicts(self) -> Iterator[Conflict]:
        """Also yield the options of attention pooling if another pooling is chosen."""
        yield from super().conflicts()  # type: ignore[misc]  # those of the encoder
        if self.pooling != "attention":
            reason = 'without pooling = "attention"'
            yield from without_effect(self, ["attention_pooling"], reason)

    def make_pooling(self, dim: int) -> Pooling | AttentionPooling:
        """Return the pooling of states of width `dim`, with new weights."""
        return self.attention_pooling.build(dim) if self.pooling == "attention" else self.pooling
