"""All scores, masks and positions by name, for tests of properties."""

from collections.abc import Callable

import torch
from torch import nn

from saccade import positions
from saccade.attention import (
    Additive,
    Cosine,
    Dot,
    General,
    LowRank,
    ScaledDot,
    Score,
    masks,
)

SCORES: dict[str, Callable[[int, int], Score]] = {
    "dot": lambda d, e: Dot(),
    "scaled_dot": lambda d, e: ScaledDot(),
    "cosine": lambda d, e: Cosine(),
    "general": General,
    "low_rank": lambda d, e: LowRank(d, e, 3),
    "additive": lambda d, e: Additive(d, e, 5),
}
FACTORED = [name for name in SCORES if name != "additive"]
WIDTHS_MAY_DIFFER = ["general", "low_rank", "additive"]

# by (b, q, k)
MASKS: dict[str, Callable[[int, int, int], masks.Mask | None]] = {
    "none": lambda b, q, k: None,
    "causal": lambda b, q, k: masks.causal(),
    "padding": lambda b, q, k: masks.padding(1 + torch.arange(b) % k),
    "padding_boolean": lambda b, q, k: masks.padding(torch.rand(b, k) > 0.4),
    "sliding": lambda b, q, k: masks.sliding(2),
    "dense": lambda b, q, k: masks.dense(torch.rand(q, k) > 0.4),
    "dense_batch": lambda b, q, k: masks.dense(torch.rand(b, q, k) > 0.4),
    "causal_and_padding": lambda b, q, k: masks.causal() & masks.padding(torch.arange(b) % (k + 1)),
    "nothing_visible": lambda b, q, k: masks.dense(torch.zeros(q, k, dtype=torch.bool)),
}

# by the width of tokens and of a head
POSITIONS: dict[str, Callable[[int, int], positions.Position]] = {
    "none": lambda d, h: positions.Position(),
    "sinusoidal": lambda d, h: positions.Sinusoidal(d),
    "sinusoidal_concat": lambda d, h: positions.Sinusoidal(6, fuse="concat"),
    "learned": lambda d, h: positions.Learned(d, 64),
    "learned_concat": lambda d, h: positions.Learned(6, 64, fuse="concat"),
    "relative": lambda d, h: positions.Relative(h, 5),
    "rotary": lambda d, h: positions.Rotary(h),
    "rotary_halves": lambda d, h: positions.Rotary(h, layout="halves"),
    "complex": lambda d, h: positions.Complex(d),
    "conditional": lambda d, h: positions.Conditional(d),
}


def strengthen(module: nn.Module) -> nn.Module:
    """Set larger weights than the initial ones, so that the effect of each part is visible."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn_like(parameter))
    return module
