"""Activations by name."""

from typing import Literal

from torch import nn

Activation = Literal["relu", "gelu", "gelu_tanh", "silu", "tanh"]


def activation(name: Activation) -> nn.Module:
    """The non-linearity of that name; "gelu_tanh" is GPT-2's approximation of "gelu"."""
    match name:
        case "relu":
            return nn.ReLU()
        case "gelu":
            return nn.GELU()
        case "gelu_tanh":
            return nn.GELU(approximate="tanh")
        case "silu":
            return nn.SiLU()
        case "tanh":
            return nn.Tanh()
