"""Attention rollout: what each token holds of each at the end of all layers of self-attention."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Float32

from saccade.errors import ShapeError, WatchError


def rollout(layers: Sequence[Float[np.ndarray, "_ _"]]) -> Float32[np.ndarray, "n n"]:
    """Attention multiplied through the layers (Abnar and Zuidema 2020, section 3).

    `layers` holds the weights A (queries, keys) of each layer from first to last, the heads
    averaged. A residual connection carries half of what a token was past each of them:

        A' = 0.5 A + 0.5 I, its rows made to sum to 1
        rollout = A'ₗ · … · A'₂ · A'₁

    Row i says of what token i is made at the end, so it sums to 1. A query that may see nothing
    keeps what it was. Through a single layer it is A' alone.
    """
    if not layers:
        raise WatchError("a rollout goes through layers of attention, and there are none here")
    size = len(layers[0])
    found = np.eye(size)
    for number, weights in enumerate(layers):
        if weights.shape != (size, size) or size == 0:
            raise ShapeError(
                "a rollout needs weights (tokens, tokens) of every layer, of as many tokens in "
                f"each; layer {number} of {len(layers)} has {weights.shape}, layer 0 has "
                f"{layers[0].shape}"
            )
        if not ((weights >= 0) & (weights < np.inf)).all():
            raise ShapeError(
                f"weights of attention are 0 or more; layer {number} of {len(layers)} holds "
                "negative ones, NaN or infinity"
            )
        mixed = 0.5 * weights.astype(np.float64) + 0.5 * np.eye(size)
        found = mixed / mixed.sum(1, keepdims=True) @ found
    return found.astype(np.float32)
