"""Attention from scores to weights to context, the only place where attention weights exist.

    a_i = softmax_i(e(q, k_i))        weights, positive and summing to 1 over the visible keys
    context = Σ_i a_i v_i             the weighted sum of the values

A factored score runs on torch's fused kernel, which never builds the (q, k) matrix. Inside a
`watch` block, or if the score has no factors, the weights are computed explicitly. Both paths give
the same context; a test compares them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import nn
from torch.nn import functional as F

from saccade.attention.masks import Mask
from saccade.attention.scores import Factor, FactoredScore, Score
from saccade.errors import MaskError, ShapeError
from saccade.shapes import Float, Tensor


@runtime_checkable
class Watcher(Protocol):
    """A recorder of the weights of some `Attend` modules."""

    def wants(self, attend: "Attend") -> bool:
        """Return whether to record the weights of this module."""
        ...

    def record(self, attend: "Attend", weights: Float[Tensor, "*b q k"]) -> None:
        """Record the weights of one call, before dropout."""
        ...

    def join(self, attend: "Attend", since: int) -> None:
        """Merge all calls after the first `since` into one, their queries concatenated."""
        ...

    def count(self, attend: "Attend") -> int:
        """Return the number of calls recorded so far."""
        ...


watchers: ContextVar[tuple[Watcher, ...]] = ContextVar("watchers", default=())


@contextmanager
def one_call(attend: "Attend") -> Iterator[None]:
    """Record all calls of `attend` in this block as one, so that a loop over steps is one call."""
    watching = [(w, w.count(attend)) for w in watchers.get() if w.wants(attend)]
    yield
    for watcher, before in watching:
        watcher.join(attend, before)


class Prepared(NamedTuple):
    """Keys that went through the score's `prepare` once, for any number of queries."""

    keys: Float[Tensor, "*c k r"]


class Attend(nn.Module):
    """Attention with any score: the weighted sum of `values` by how well `query` fits `keys`.

        a = softmax(e(query, keys) + bias),    context = a · values

    A query that may see no key at all gets a context and weights of zero, without NaN in values or
    gradients. `saccade.watch` records the weights of every `Attend` below a module.

    Args:
        score: The score e, one of `saccade.attention.scores`.
        dropout: Probability with which a weight is set to 0, in training mode only.

    Examples:
        >>> import torch
        >>> from saccade.attention import Additive, Attend, masks
        >>> attend = Attend(Additive(query_dim=6, key_dim=4, hidden_dim=8))
        >>> query, keys = torch.randn(2, 3, 6), torch.randn(2, 5, 4)
        >>> attend(query, keys, keys, masks.padding([5, 2])).shape
        torch.Size([2, 3, 4])
    """

    def __init__(self, score: Score, dropout: float = 0.0) -> None:
        super().__init__()
        self.score = score
        self.dropout = dropout

    def forward(
        self,
        query: Float[Tensor, "*b q d"],
        keys: Float[Tensor, "*c k e"] | Prepared,
        values: Float[Tensor, "*f k w"],
        mask: Mask | None = None,
        bias: Float[Tensor, "*g q k"] | None = None,
    ) -> Float[Tensor, "*a q w"]:
        """Return the context of every query.

        Leading axes of all arguments broadcast.

        Args:
            query: Queries (..., q, d).
            keys: Keys (..., k, e), or what `prepare(keys)` returned.
            values: Values (..., k, w), one for each key.
            mask: Which keys each query may see; all, if None.
            bias: Numbers (..., q, k) to add to the scores, such as those of relative positions.

        Returns:
            The context (..., q, w).

        Raises:
            ShapeError: If widths do not fit the score, or the number of values is not that of keys.
            MaskError: If `mask` is not a `Mask` or does not fit.
        """
        prepared = (keys if isinstance(keys, Prepared) else self.prepare(keys)).keys
        _check(prepared, values, mask)
        watching = [watcher for watcher in watchers.get() if watcher.wants(self)]
        if isinstance(self.score, FactoredScore) and not watching:
            return self._fused(self.score.factor(query, prepared), prepared, values, mask, bias)
        weights = self._weights(query, prepared, mask, bias)
        for watcher in watching:
            watcher.record(self, weights)
        return F.dropout(weights, self.dropout, self.training) @ values

    def prepare(self, keys: Float[Tensor, "*c k e"]) -> Prepared:
        """Return the part of the score that depends on the keys alone, for a loop over queries."""
        return Prepared(self.score.prepare(keys))

    def _weights(
        self, query: Tensor, prepared: Tensor, mask: Mask | None, bias: Tensor | None
    ) -> Tensor:
        scores = self.score.compare(query, prepared)
        if bias is not None:
            scores = scores + bias
        visible = None if mask is None else mask.visible(scores.shape, scores.device)
        return scores.softmax(-1) if visible is None else masked_softmax(scores, visible)

    def _fused(
        self,
        factor: Factor,
        keys: Tensor,
        values: Tensor,
        mask: Mask | None,
        bias: Tensor | None,
    ) -> Tensor:
        query, scale = factor
        q, k, width = query.shape[-2], keys.shape[-2], values.shape[-1]
        batch = query.shape[:-2]
        if not batch == keys.shape[:-2] == values.shape[:-2]:
            batch = torch.broadcast_shapes(batch, keys.shape[:-2], values.shape[:-2])
        if q == 1 and not torch.is_grad_enabled():
            visible = None if mask is None else mask.visible((*batch, q, k), query.device)
            return _one_query(query, scale, keys, values, visible, bias)
        start_causal = bias is None and mask is not None and mask.is_start_causal(q, k)
        extra = bias
        if mask is not None and not start_causal:
            visible = mask.visible((*batch, q, k), query.device)
            if bias is None:
                extra = visible
            elif visible is not None:
                extra = torch.where(visible, bias, -torch.inf)
        wide = max(query.shape[-1], width)
        context = F.scaled_dot_product_attention(
            _for_kernel(query, batch, wide),
            _for_kernel(keys, batch, wide),
            _for_kernel(values, batch, wide),
            attn_mask=None if extra is None else _four_axes(extra, batch),
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=start_causal,
            scale=scale,
        )
        if len(batch) != 2:
            context = context.reshape(*batch, q, wide)
        return context if wide == width else context[..., :width]

    def extra_repr(self) -> str:
        return f"dropout={self.dropout}"


def _one_query(
    query: Tensor,
    scale: float,
    keys: Tensor,
    values: Tensor,
    visible: Tensor | None,
    bias: Tensor | None,
) -> Tensor:
    """Attend with a single query, as generation does.

    There is no (q, k) matrix to avoid, and the fused kernel is slower for one query.
    """
    if query.shape[:-2] == keys.shape[:-2]:
        many, batch = query.flatten(0, -3), query.shape[:-2]
        none = query.new_empty(())
        scores = torch.baddbmm(none, many, keys.flatten(0, -3).mT, beta=0, alpha=scale)
        scores = scores.unflatten(0, batch)
    else:
        scores = (query * scale) @ keys.mT
    if bias is not None:
        scores = scores + bias
    weights = scores.softmax(-1) if visible is None else masked_softmax(scores, visible)
    return weights @ values


def masked_softmax(scores: Tensor, visible: Tensor) -> Tensor:
    """Return the softmax over the visible keys; hidden keys get exactly 0.

    The row of a query that sees no key is left unmasked for softmax and zeroed after it, because
    the softmax of a row of -inf is NaN, in its gradient too.
    """
    blind = ~visible.any(-1, keepdim=True)
    if not bool(blind.any()):
        return scores.masked_fill(~visible, -torch.inf).softmax(-1)
    weights = scores.masked_fill(~(visible | blind), -torch.inf).softmax(-1)
    return weights.masked_fill(blind, 0.0)


def _for_kernel(vectors: Tensor, batch: torch.Size, width: int) -> Tensor:
    """Return vectors in the form that the fused kernel needs: (b, h, n, width), padded with zeros.

    Zeros change no dot product. In any other form torch silently builds the (q, k) matrix.
    """
    if vectors.shape[:-2] != batch:
        vectors = vectors.expand(*batch, *vectors.shape[-2:])
    if vectors.shape[-1] != width:
        vectors = F.pad(vectors, (0, width - vectors.shape[-1]))
    if vectors.stride(-1) != 1:
        vectors = vectors.contiguous()
    return _four_axes(vectors, batch)


def _four_axes(tensor: Tensor, batch: torch.Size) -> Tensor:
    """Return (..., n, m) as (b, h, n, m), expanded to `batch` only where necessary."""
    if len(batch) == 2:
        return tensor[(None,) * (4 - tensor.ndim)] if tensor.ndim < 4 else tensor
    last = tensor.shape[-2:]
    if len(batch) > 2:
        return tensor.expand(*batch, *last).reshape(-1, batch[-1], *last)
    return tensor.reshape(*(tensor.shape[:-2] or (1,)), 1, *last)


def _check(keys: Tensor, values: Tensor, mask: Mask | None) -> None:
    if keys.shape[-2] == 0:
        raise ShapeError(
            f"there are no keys to attend to: keys have shape {tuple(keys.shape)}; attention needs "
            "at least one key"
        )
    if keys.shape[-2] != values.shape[-2]:
        raise ShapeError(
            f"every key needs its value: got {keys.shape[-2]} keys and {values.shape[-2]} values; "
            "pass as many values as keys"
        )
    if mask is not None and not isinstance(mask, Mask):
        raise MaskError(
            f"a mask is an object of saccade.attention.masks, got {type(mask).__name__}; "
            "for a boolean tensor write masks.dense(tensor), True = may be seen"
        )
