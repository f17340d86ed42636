"""Masks: which keys each query may see. True = may be seen.

A mask is an object that learns the number of queries and keys from the call it is used in:

    padding(lengths)   the first `length` keys of each item (or a boolean (b, k), True = real)
    causal()           keys no later than the query
    sliding(window)    keys less than `window` places from the query, on either side
    dense(visible)     any boolean (q, k), (b, q, k) or (b, h, q, k)

and `causal() & padding(lengths)` shows what both show. Queries and keys are aligned at the end:
query i stands at place i + k - q, so a single new query sees every key of a cache. (torch's own
`is_causal` is aligned at the start; the two agree only where q = k.)
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch

from saccade.errors import MaskError
from saccade.shapes import Tensor


class Mask(ABC):
    """Which keys each query may see; combine two with `&`."""

    @abstractmethod
    def visible(self, shape: Sequence[int], device: torch.device) -> Tensor | None:
        """A boolean tensor that broadcasts to scores of `shape` (..., q, k), True = may be seen.

        None says that everything may be seen, so that nothing needs to be computed.
        """

    def is_start_causal(self, q: int, k: int) -> bool:
        """Whether this is exactly torch's own `is_causal` for q queries and k keys."""
        return False

    def __and__(self, other: "Mask") -> "Mask":
        return _Both(self, other)


def padding(real: Tensor | Sequence[int]) -> Mask:
    """Hides the padding: `real` holds lengths (b,), or booleans (b, k), True = real."""
    return _Padding(torch.as_tensor(real))


def causal() -> Mask:
    """Hides the future: query i sees keys up to place i + k - q."""
    return _Causal()


def sliding(window: int) -> Mask:
    """Shows keys less than `window` places away; with `causal()`, the last `window` keys."""
    if window < 1:
        raise MaskError(f"a sliding window needs at least 1 key, got window={window}")
    return _Sliding(window)


def dense(visible: Tensor) -> Mask:
    """Shows what a boolean tensor (q, k), (b, q, k) or (b, h, q, k) marks True."""
    if not (isinstance(visible, Tensor) and visible.dtype == torch.bool):
        kind = getattr(visible, "dtype", type(visible).__name__)
        raise MaskError(f"dense() takes a boolean tensor, True = may be seen; got {kind}")
    if visible.ndim < 2:
        raise MaskError(f"dense() takes at least (q, k), got shape {tuple(visible.shape)}")
    return _Dense(visible)


class _Causal(Mask):
    def visible(self, shape: Sequence[int], device: torch.device) -> Tensor | None:
        q, k = shape[-2:]
        if q == 1:
            return None
        return torch.ones(q, k, dtype=torch.bool, device=device).tril(k - q)

    def is_start_causal(self, q: int, k: int) -> bool:
        return q == k


class _Sliding(Mask):
    def __init__(self, window: int) -> None:
        self.window = window

    def visible(self, shape: Sequence[int], device: torch.device) -> Tensor | None:
        q, k = shape[-2:]
        if self.window >= max(q, k):
            return None
        band = torch.ones(q, k, dtype=torch.bool, device=device)
        return band.tril(k - q + self.window - 1).triu(k - q - self.window + 1)


class _Padding(Mask):
    def __init__(self, real: Tensor) -> None:
        if real.is_floating_point() or real.is_complex():
            raise MaskError(
                f"padding() takes integer lengths (b,) or a boolean (b, k), got {real.dtype}"
            )
        self.real = real

    def visible(self, shape: Sequence[int], device: torch.device) -> Tensor | None:
        real, k = self.real.to(device), shape[-1]
        if real.dtype != torch.bool:
            if bool((real > k).any()):
                raise MaskError(f"a padding length of {int(real.max())} exceeds the {k} keys")
            if bool((real < 0).any()):
                raise MaskError(f"a padding length of {int(real.min())} is negative")
            real = torch.arange(k, device=device) < real.unsqueeze(-1)
        if real.shape[-1] != k:
            raise MaskError(f"the padding mask covers {real.shape[-1]} keys, there are {k}")
        return _fit(real.unsqueeze(-2), shape, "padding")


class _Dense(Mask):
    def __init__(self, marked: Tensor) -> None:
        self.marked = marked

    def visible(self, shape: Sequence[int], device: torch.device) -> Tensor | None:
        return _fit(self.marked.to(device), shape, "dense")


class _Both(Mask):
    def __init__(self, one: Mask, other: Mask) -> None:
        self.one, self.other = one, other

    def visible(self, shape: Sequence[int], device: torch.device) -> Tensor | None:
        one, other = self.one.visible(shape, device), self.other.visible(shape, device)
        if one is None or other is None:
            return other if one is None else one
        return one & other


class AlwaysSeen(Mask):
    """`mask` for all keys but the last `extra`, which every query sees (learned or zero keys)."""

    def __init__(self, mask: Mask, extra: int) -> None:
        self.mask, self.extra = mask, extra

    def visible(self, shape: Sequence[int], device: torch.device) -> Tensor | None:
        inner = self.mask.visible((*shape[:-1], shape[-1] - self.extra), device)
        if inner is None:
            return None
        return torch.cat((inner, inner.new_ones((*inner.shape[:-1], self.extra))), -1)


def _fit(marked: Tensor, shape: Sequence[int], name: str) -> Tensor:
    """Line up (q, k), (b, q, k) … with scores (b, …, q, k): the batch axes stay leftmost."""
    batch, last = marked.shape[:-2], marked.shape[-2:]
    missing = len(shape) - marked.ndim
    if missing > 0 and batch:
        marked = marked.reshape(*batch, *(1,) * missing, *last)
    try:
        fits = torch.broadcast_shapes(marked.shape, tuple(shape)) == tuple(shape)
    except RuntimeError:
        fits = False
    if not fits:
        raise MaskError(
            f"the {name} mask of shape {(*batch, *last)} does not fit scores of shape "
            f"{tuple(shape)} (…, queries, keys)"
        )
    return marked
