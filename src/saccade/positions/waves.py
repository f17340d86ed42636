"""Frequencies and rotations that sinusoidal, rotary and complex positions share."""

from typing import Literal

import torch

from saccade.errors import ShapeError
from saccade.positions.base import Grid, Places
from saccade.shapes import Float, Tensor

Layout = Literal["interleaved", "halves"]


def require_even(dim: int, name: str, *, parts: int = 2) -> None:
    """Raise `ShapeError` unless `dim` is divisible by `parts`: 2 for text, 4 for a grid."""
    if dim < parts or dim % parts:
        raise ShapeError(
            f"{name} needs a width divisible by {parts}, got {dim}; use "
            f"{max(1, round(dim / parts)) * parts}"
        )


def frequencies(dim: int, base: float, device: torch.device) -> Float[Tensor, " j"]:
    """Return ω_j = base^(-2j/dim) for j = 0 … dim/2 - 1, one for each pair of numbers."""
    return base ** -(torch.arange(0, dim, 2, dtype=precise(device), device=device) / dim)


def angles(at: Places, dim: int, base: float) -> Float[Tensor, "*b n j"]:
    """Return the angles ω_j · place; 0 for a token without a place.

    On a grid the first half of the pairs is rotated by row, the second by column.
    """
    if isinstance(at, Grid):
        require_even(dim, "an encoding of rows and columns by waves", parts=4)
        by_row = angles(at.rows.clamp(min=0), dim // 2, base)
        return torch.cat((by_row, angles(at.columns.clamp(min=0), dim // 2, base)), -1)
    return at.unsqueeze(-1) * frequencies(dim, base, at.device)


def rotated(
    x: Float[Tensor, "*b n d"], angle: Float[Tensor, "*c n j"], layout: Layout = "interleaved"
) -> Float[Tensor, "*b n d"]:
    """Return each pair of numbers (a, b), as the complex a + ib, times e^(i·angle).

    "interleaved" pairs neighbours (0, 1), (2, 3) …; "halves" pairs (0, d/2), (1, d/2 + 1) …
    """
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    if layout == "interleaved" and _has_complex_numbers(x):
        return torch.view_as_real(_as_complex(x) * torch.complex(cos, sin)).flatten(-2)
    return rotated_in_parts(x, cos, sin, layout)


def rotated_in_parts(
    x: Float[Tensor, "*b n d"],
    cos: Float[Tensor, "*c n j"],
    sin: Float[Tensor, "*c n j"],
    layout: Layout,
) -> Float[Tensor, "*b n d"]:
    """Return the same by real numbers: for every device, dtype and exporter, and as reference.

    Args:
        x: The numbers.
        cos: The cosine of the angle of each pair.
        sin: The sine.
        layout: Which numbers form a pair.
    """
    if layout == "halves":
        real, imaginary = x.chunk(2, -1)
        return torch.cat((real * cos - imaginary * sin, real * sin + imaginary * cos), -1)
    real, imaginary = x[..., 0::2], x[..., 1::2]
    pairs = torch.stack((real * cos - imaginary * sin, real * sin + imaginary * cos), -1)
    return pairs.flatten(-2)


def _has_complex_numbers(x: Tensor) -> bool:
    """Return whether one complex product is possible, and faster than products of the parts."""
    wide = x.dtype in (torch.float32, torch.float64)
    return wide and x.device.type == "cpu" and not torch.compiler.is_exporting()


def _as_complex(x: Float[Tensor, "*b n d"]) -> Tensor:
    """Return neighbours as complex numbers; without a copy if every pair is aligned."""
    aligned = x.stride(-1) == 1 and not any(
        start % 2 for start in (x.storage_offset(), *x.stride()[:-1])
    )
    if not aligned:
        x = x.clone(memory_format=torch.contiguous_format)
    return torch.view_as_complex(x.unflatten(-1, (-1, 2)))


def precise(device: torch.device) -> torch.dtype:
    """Return the dtype for angles: float64 if the device has it, since angles grow with length."""
    return torch.float32 if device.type == "mps" else torch.float64
