"""Tensors of which each process holds some rows, and the complete tensors they stand for.

With `--parallel fsdp`, weights, gradients and the state of the optimizer are such tensors (torch
calls them DTensors). The functions here leave plain tensors as they are.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from saccade.shapes import Tensor


def is_sharded(tensor: Tensor) -> bool:
    """Return whether this process holds only some rows of a tensor."""
    return hasattr(tensor, "full_tensor")


def local(tensor: Tensor) -> Tensor:
    """Return the rows of a tensor that this process holds, without a copy."""
    return tensor.to_local() if is_sharded(tensor) else tensor  # type: ignore[attr-defined]


def whole(tensor: Tensor) -> Tensor:
    """Return the complete tensor; all processes must call this in the same order."""
    return tensor.full_tensor() if is_sharded(tensor) else tensor  # type: ignore[attr-defined]


def rows_of(full: Tensor, like: Tensor) -> Tensor:
    """Return the rows of a complete tensor that this process holds of another one."""
    if not is_sharded(like):
        return full
    mesh = like.device_mesh  # type: ignore[attr-defined]
    chunks = full.chunk(mesh.size())
    rank = mesh.get_local_rank()
    return chunks[rank] if rank < len(chunks) else full[:0]


def with_rows(rows: Tensor, like: Tensor) -> Tensor:
    """Return the tensor that consists of the rows of all processes, divided as another one is."""
    if not is_sharded(like):
        return rows
    from torch.distributed.tensor import DTensor

    return DTensor.from_local(
        rows.contiguous(),
        like.device_mesh,  # type: ignore[attr-defined]
        like.placements,  # type: ignore[attr-defined]
        run_check=False,
        shape=like.shape,
        stride=torch.empty(like.shape, device="meta").stride(),
    )


@torch.no_grad()
def put_rows(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Replace the weights and buffers of a model by the rows of complete tensors."""
    own = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    for name, tensor in tensors.items():
        local(own[name]).copy_(rows_of(tensor, own[name]))
