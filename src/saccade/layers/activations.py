"""Activation functions by name."""

from collections.abc import Callable
from typing import Literal, get_args

from torch import Tensor, nn
from torch.nn import functional as F

from saccade.errors import ShapeError

Activation = Literal["relu", "relu_squared", "gelu", "gelu_tanh", "silu", "tanh"]


class ReLUSquared(nn.Module):
    """The square of ReLU (So et al. 2021, "Primer")."""

    def forward(self, x: Tensor) -> Tensor:
        """Return max(x, 0)^2."""
        return F.relu(x).square()


def activation(name: Activation) -> nn.Module:
    """Return the activation of that name; "gelu_tanh" is GPT-2's approximation of "gelu"."""
    match name:
        case "relu":
            return nn.ReLU()
        case "relu_squared":
            return ReLUSquared()
        case "gelu":
            return nn.GELU()
        case "gelu_tanh":
            return nn.GELU(approximate="tanh")
        case "silu":
            return nn.SiLU()
        case "tanh":
            return nn.Tanh()


def name_of(function: Callable[[Tensor], Tensor]) -> Activation:
    """Return the name of an activation of torch.

    Raises:
        ShapeError: If it is not one of `Activation`.
    """
    if function is F.relu or isinstance(function, nn.ReLU):
        return "relu"
    if isinstance(function, ReLUSquared):
        return "relu_squared"
    if function is F.silu or isinstance(function, nn.SiLU):
        return "silu"
    if isinstance(function, nn.GELU):
        return "gelu" if function.approximate == "none" else "gelu_tanh"
    if function is F.gelu:
        return "gelu"
    raise ShapeError(
        f"the activation {function!r} has no counterpart here; use one of "
        f"{', '.join(get_args(Activation))}"
    )
