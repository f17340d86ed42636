"""What heads do: how widely each looks, how far they differ, and what the model loses without one.

entropy            bits of a row of weights: 0 looks at one token, log2(n) at all n alike
divergence         mean Jensen-Shannon divergence between the heads of a layer, in bits: 0 where
                   all look alike, 1 where no two look at the same tokens
without_head       a block in which a head reads nothing
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations

import numpy as np
from jaxtyping import Float
from torch import nn

from saccade.attention.attend import Attend
from saccade.errors import WatchError
from saccade.shapes import Tensor


def entropy(weights: Float[np.ndarray, "heads queries keys"]) -> Float[np.ndarray, " heads"]:
    """Of each head in bits, the mean over its queries; a query that sees nothing has 0."""
    return _bits(weights.astype(np.float64)).mean(-1)


def divergence(
    weights: Float[np.ndarray, "heads queries keys"],
) -> Float[np.ndarray, "heads heads"]:
    """Between each two heads in bits, the mean over their queries (Lin 1991).

    JS(p, q) = H((p + q) / 2) - (H(p) + H(q)) / 2, and 0 on the diagonal.
    """
    rows = weights.astype(np.float64)
    own = _bits(rows)
    found = np.zeros((len(rows), len(rows)))
    for i, j in combinations(range(len(rows)), 2):
        apart = _bits((rows[i] + rows[j]) / 2) - (own[i] + own[j]) / 2
        found[i, j] = found[j, i] = max(0.0, float(apart.mean()))  # rounding can fall below 0
    return found


@contextmanager
def without_head(model: nn.Module, layer: str, head: int) -> Iterator[None]:
    """What this head of the attention named `layer` reads is zero in the block, and only there."""
    attend = _attend(model, layer)

    def silence(module: nn.Module, inputs: object, context: Tensor) -> Tensor:
        if context.ndim < 4 and head == 0:  # without heads
            return context.new_zeros(context.shape)
        if not (context.ndim >= 4 and 0 <= head < context.shape[-3]):
            raise WatchError(f"the attention {layer!r} has no head {head}")
        silenced = context.clone()
        silenced[..., head, :, :] = 0.0
        return silenced

    handle = attend.register_forward_hook(silence)
    try:
        yield
    finally:
        handle.remove()


def _bits(rows: Float[np.ndarray, "*rows keys"]) -> Float[np.ndarray, "*rows"]:
    return -(rows * np.log2(np.where(rows > 0, rows, 1.0))).sum(-1)


def _attend(model: nn.Module, layer: str) -> Attend:
    """The attention that `watch` calls by this name: it is its own, or its owner's."""
    owner = dict(model.named_modules()).get(layer)
    found = [] if owner is None else [part for part in owner.modules() if isinstance(part, Attend)]
    if len(found) != 1:
        raise WatchError(f"{type(model).__name__} has no attention named {layer!r}")
    return found[0]
