"""Heads: how widely each attends, how far they differ, and ablation of one of them.

The importance of a head is the rise of the loss while `without_head` removes it (Michel, Levy and
Neubig 2019, "Are sixteen heads really better than one?").
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations

import numpy as np
from jaxtyping import Float
from torch import nn

from saccade.attention.attend import Attend
from saccade.attention.intercept import ablated, may_attend
from saccade.errors import WatchError
from saccade.shapes import Tensor


def entropy(weights: Float[np.ndarray, "heads queries keys"]) -> Float[np.ndarray, " heads"]:
    """Return the entropy of each head in bits, averaged over its queries.

        H(p) = -Σ p log2 p

    It is 0 where a query attends to one key only, and log2(n) where it attends to n keys equally.
    A query that sees nothing counts as 0.

    Example:
        >>> entropy(np.array([[[1.0, 0.0]], [[0.5, 0.5]]])).tolist()
        [0.0, 1.0]
    """
    return _bits(weights.astype(np.float64)).mean(-1)


def divergence(
    weights: Float[np.ndarray, "heads queries keys"],
) -> Float[np.ndarray, "heads heads"]:
    """Return the Jensen-Shannon divergence of each pair of heads in bits (Lin 1991).

        JS(p, q) = H((p + q) / 2) - (H(p) + H(q)) / 2

    It is averaged over the queries: 0 where two heads attend alike, 1 where they never attend to
    the same keys.
    """
    rows = weights.astype(np.float64)
    own = _bits(rows)
    divergences = np.zeros((len(rows), len(rows)))
    for i, j in combinations(range(len(rows)), 2):
        between = _bits((rows[i] + rows[j]) / 2) - (own[i] + own[j]) / 2
        divergences[i, j] = divergences[j, i] = max(0.0, float(between.mean()))  # rounding errors
    return divergences


@contextmanager
def without_head(model: nn.Module, layer: str, head: int) -> Iterator[None]:
    """Ablate a head inside a `with` block: what it reads becomes zero.

    Args:
        model: the model that holds the attention: ours, or any that `saccade.watch` can watch.
        layer: the dotted name of the attention, as `saccade.watch` gives it. `saccade.look` numbers
            the calls of a layer whose weights are shared (`name#2`); the head is removed from all.
        head: the index of the head; an attention without heads has head 0.

    Raises:
        WatchError: if there is no such attention, or it has no such head.
    """
    part = dict(model.named_modules()).get(layer.partition("#")[0])
    if part is not None and may_attend(part) and not _attends(part):
        with ablated(model, layer.partition("#")[0], head):
            yield
        return
    attend = _attend(model, layer)

    def ablate(module: nn.Module, inputs: object, context: Tensor) -> Tensor:
        if context.ndim < 4 and head == 0:  # without heads
            return context.new_zeros(context.shape)
        if not (context.ndim >= 4 and 0 <= head < context.shape[-3]):
            raise WatchError(f"attention {layer!r} has no head {head}; heads count from 0")
        ablated = context.clone()
        ablated[..., head, :, :] = 0.0
        return ablated

    handle = attend.register_forward_hook(ablate)
    try:
        yield
    finally:
        handle.remove()


def _bits(rows: Float[np.ndarray, "*rows keys"]) -> Float[np.ndarray, "*rows"]:
    return -(rows * np.log2(np.where(rows > 0, rows, 1.0))).sum(-1)


def _attend(model: nn.Module, layer: str) -> Attend:
    """Return the `Attend` that `watch` gives this name: the module, or the only one in it."""
    owner = dict(model.named_modules()).get(layer)
    parts = [] if owner is None else _attends(owner)
    if len(parts) != 1:
        raise WatchError(
            f"{type(model).__name__} has no attention named {layer!r}; "
            "use a name that saccade.watch shows"
        )
    return parts[0]


def _attends(module: nn.Module) -> list[Attend]:
    return [part for part in module.modules() if isinstance(part, Attend)]
