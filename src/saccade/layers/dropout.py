"""Dropout (Srivastava et al. 2014) with cheap random numbers on a CPU.

torch generates one random number per element; on a CPU that costs about as much as the matrix
products of a small model. Here 64 random bits decide for four elements. The fraction of zeros is
then a multiple of 1/65536, and the other elements are scaled by exactly that fraction.
"""

import torch
from torch import nn
from torch.nn import functional as F

from saccade.errors import ShapeError
from saccade.shapes import Float, Tensor

LEVELS = 1 << 16


class Dropout(nn.Module):
    """Set a fraction `p` of the elements to zero in training, and scale the others by 1 / (1 - p).

    Args:
        p: Probability of an element to be zeroed, from 0 up to, but not including, 1.

    Raises:
        ShapeError: If `p` is outside this range.
    """

    def __init__(self, p: float = 0.0) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise ShapeError(
                f"dropout must be a fraction from 0 up to, but not including, 1; got {p}"
            )
        self.p = p

    def forward(self, x: Float[Tensor, "*a"]) -> Float[Tensor, "*a"]:
        """Return x with dropout in training mode, else x itself."""
        if not self.training or self.p == 0.0:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.p, training=True)
        zeros = round(self.p * LEVELS)
        bits = torch.empty(-(-x.numel() // 4), dtype=torch.int64, device=x.device)
        bits.random_(-(2**63), None)
        numbers = bits.view(torch.int16)[: x.numel()].view(x.shape)
        mask = torch.ge(numbers, zeros - LEVELS // 2, out=torch.empty_like(x))
        return x * mask.mul_(LEVELS / (LEVELS - zeros))

    def extra_repr(self) -> str:
        """Return the arguments for the repr."""
        return f"p={self.p}"
