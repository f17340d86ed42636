"""Dropout (Srivastava et al. 2014) whose random numbers are cheap on a CPU.

torch draws one random number for each element; on a CPU that costs about as much as the matrix
products of a small model. Here each 64 random bits decide for four elements. The share of zeros is
then a multiple of 1/65536, and what is kept is scaled by exactly that share.
"""

import torch
from torch import nn
from torch.nn import functional as F

from saccade.errors import ShapeError
from saccade.shapes import Float, Tensor

LEVELS = 1 << 16


class Dropout(nn.Module):
    """Sets a share `p` of the numbers to zero while training, and scales up the others."""

    def __init__(self, p: float = 0.0) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise ShapeError(f"dropout is a share from 0 up to, not including, 1; got {p}")
        self.p = p

    def forward(self, x: Float[Tensor, "*a"]) -> Float[Tensor, "*a"]:
        """In training some of x, else x."""
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
        """Shown in the print of a model."""
        return f"p={self.p}"
