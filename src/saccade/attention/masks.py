"""Masks: which keys each query may see. True = may be seen.

A mask is an object; it takes the number of queries and keys from the call it is used in.

    padding(lengths)   the first `length` keys of each item, or a boolean (b, k), True = real
    causal()           keys that are not later than the query
    sliding(window)    keys less than `window` places from the query, on either side
    dense(visible)     any boolean (q, k), (b, q, k) or (b, h, q, k)

`causal() & padding(lengths)` shows the keys that both show. Queries and keys are aligned at the
end: query i stands at place i + k - q, so a single new query sees every key of a cache. (torch's
own `is_causal` is aligned at the start; the two agree only if q = k.)
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch

from saccade.errors import MaskError
from saccade.shapes import Tensor


class Mask(ABC):
    """Base class of masks: which keys each query may see. Combine two masks with `&`.

    Examples:
        >>> import torch
        >>> from saccade.attention import masks
        >>> mask = masks.causal() & masks.padding([3, 2])
        >>> mask.visible((2, 3, 3), torch.device("cpu"))[1].int()
        tensor([[1, 0, 0],
                [1, 1, 0],
                [1, 1, 0]], dtype=torch.int32)
    """

    @abstractmethod
    def visible(self, shape: Sequence[int], device: torch.device) -> Tensor | None:
        """Return a boolean tensor that broadcasts to scores of `shape` (..., q, k).

        True = may be seen. None means that every key may be seen, so nothing is computed.

        Raises:
            MaskError: If the mask does not fit `shape`.
        """

    def is_start_causal(self, q: int, k: int) -> bool:
        """Return whether this equals torch's own `is_causal` for q queries and k keys."""
        return False

    def __and__(self, other: "Mask") -> "Mask":
        return _Both(self, other)


def padding(real: Tensor | Sequence[int]) -> Mask:
    """Hide padding at the end of each item.

    Args:
        real: The length of each item (b,), or a boolean (b, k) that is True at real keys.

    Raises:
        MaskError: If `real` holds floating-point numbers, or, when used, a length is negative or
            exceeds the number of keys.

    Examples:
        >>> import torch
        >>> padding([1, 3]).visible((2, 1, 3), torch.device("cpu")).tolist()
        [[[True, False, False]], [[True, True, True]]]
    """
    return _Padding(torch.as_tensor(real))


def causal() -> Mask:
    """Hide the future: query i sees keys up to place i + k - q.

    Examples:
        >>> import torch
        >>> causal().visible((2, 3), torch.device("cpu")).tolist()  # the last 2 of 3 tokens
        [[True, True, False], [True, True, True]]
    """
    return _Causal()


def sliding(window: int) -> Mask:
    """Show keys less than `window` places away (local attention; Beltagy et al. 2020, Longformer).

    Args:
        window: At least 1. Together with `causal()` each query sees the last `window` keys.

    Raises:
        MaskError: If `window` is below 1.
    """
    if window < 1:
        raise MaskError(
            f"a sliding window needs at least 1 key, got window={window}; use 1 for the query's "
            "own place alone"
        )
    return _Sliding(window)


def dense(visible: Tensor) -> Mask:
    """Show the keys that a boolean tensor marks True.

    Args:
        visible: A boolean tensor (q, k), (b, q, k) or (b, h, q, k).

    Raises:
        MaskError: If `visible` is not boolean or has fewer than two axes.
    """
    if not (isinstance(visible, Tensor) and visible.dtype == torch.bool):
        kind = getattr(visible, "dtype", type(visible).__name__)
        raise MaskError(
            f"dense() takes a boolean tensor, True = may be seen; got {kind}; convert it, for "
            "example with `tensor.bool()`"
        )
    if visible.ndim < 2:
        raise MaskError(
            f"dense() takes at least (q, k), got shape {tuple(visible.shape)}; for one mark per "
            "key use padding()"
        )
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
                f"padding() takes integer lengths (b,) or a boolean (b, k), got {real.dtype}; "
                "convert it to one of them"
            )
        self.real = real

    def visible(self, shape: Sequence[int], device: torch.device) -> Tensor | None:
        real, k = self.real.to(device), shape[-1]
        if real.dtype != torch.bool:
            if bool((real > k).any()):
                raise MaskError(
                    f"a padding length of {int(real.max())} exceeds the {k} keys; lengths are from "
                    f"0 to {k}"
                )
            if bool((real < 0).any()):
                raise MaskError(
                    f"a padding length of {int(real.min())} is negative; lengths are from 0 to {k}"
                )
            real = torch.arange(k, device=device) < real.unsqueeze(-1)
        if real.shape[-1] != k:
            raise MaskError(
                f"the padding mask covers {real.shape[-1]} keys, there are {k}; it needs one mark "
                "for each key"
            )
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
    """Apply `mask` to all keys but the last `extra`, which every query sees.

    `MultiHeadAttention` uses it for its learned key and its zero key.
    """

    def __init__(self, mask: Mask, extra: int) -> None:
        self.mask, self.extra = mask, extra

    def visible(self, shape: Sequence[int], device: torch.device) -> Tensor | None:
        inner = self.mask.visible((*shape[:-1], shape[-1] - self.extra), device)
        if inner is None:
            return None
        return torch.cat((inner, inner.new_ones((*inner.shape[:-1], self.extra))), -1)


def _fit(marked: Tensor, shape: Sequence[int], name: str) -> Tensor:
    """Align (q, k), (b, q, k) … with scores (b, …, q, k); batch axes stay leftmost."""
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
            f"{tuple(shape)} (…, queries, keys); its axes must be equal to them, or 1"
        )
    return marked
