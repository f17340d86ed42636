"""Attention rollout: attention multiplied through the layers of self-attention."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Float32

from saccade.errors import ShapeError, WatchError


def rollout(layers: Sequence[Float[np.ndarray, "_ _"]]) -> Float32[np.ndarray, "n n"]:
    """Return how much of each input token reaches each output token (Abnar and Zuidema 2020).

        A' = 0.5 A + 0.5 I, with its rows normalised to sum to 1
        rollout = A'ₗ · … · A'₂ · A'₁

    The identity stands for the residual connection around each attention, which carries half of a
    token past it.

    Args:
        layers: the weights A (queries, keys) of each layer from first to last, heads averaged.

    Returns:
        Weights (tokens out, tokens in) whose rows sum to 1. A query that sees nothing keeps its
        own token.

    Raises:
        WatchError: if there are no layers.
        ShapeError: if the weights are not square, differ in size, or are not finite and at
            least 0.

    Example:
        >>> rollout([np.array([[0.0, 1.0], [0.5, 0.5]])]).tolist()
        [[0.5, 0.5], [0.25, 0.75]]
    """
    if not layers:
        raise WatchError(
            "attention rollout needs at least one layer of attention, got none; "
            "use a model with self-attention"
        )
    size = len(layers[0])
    rolled = np.eye(size)
    for number, weights in enumerate(layers):
        if weights.shape != (size, size) or size == 0:
            raise ShapeError(
                "attention rollout needs weights (tokens, tokens) of the same size in every "
                f"layer; layer {number} of {len(layers)} has {weights.shape}, layer 0 has "
                f"{layers[0].shape}"
            )
        if not ((weights >= 0) & (weights < np.inf)).all():
            raise ShapeError(
                f"attention weights are finite and at least 0; layer {number} of {len(layers)} "
                "holds negative weights, NaN or infinity"
            )
        mixed = 0.5 * weights.astype(np.float64) + 0.5 * np.eye(size)
        rolled = mixed / mixed.sum(1, keepdims=True) @ rolled
    return rolled.astype(np.float32)
