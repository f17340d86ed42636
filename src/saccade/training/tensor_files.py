"""Tensors in safetensors files, written and read one after another.

safetensors' own `save` builds one string of everything, which takes a model's memory twice. The
files are the same to the byte.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from saccade.errors import RunError, brief
from saccade.files import open_file
from saccade.shapes import Tensor
from saccade.training.sharded_tensors import is_sharded, whole

TYPES = {
    torch.bool: "BOOL",
    torch.uint8: "U8",
    torch.int8: "I8",
    torch.int16: "I16",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int32: "I32",
    torch.float32: "F32",
    torch.float64: "F64",
    torch.int64: "I64",
}
"""The format's names of types, in its own order: tensors of the last type come first."""


def serialized(tensors: Mapping[str, Tensor]) -> Iterator[bytes | memoryview]:
    """Yield the content of a safetensors file: a header, then one tensor after another.

    Tensors that processes have divided among them are gathered one by one; all of these processes
    must read this to the end.
    """
    ranks = {dtype: rank for rank, dtype in enumerate(TYPES)}
    names = sorted(tensors, key=lambda name: (-ranks[tensors[name].dtype], name.encode()))
    header, end = {}, 0
    for name in names:
        tensor, start = tensors[name], end
        end += tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": TYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for name in names:
        plain = whole(tensors[name].detach()).cpu().contiguous().reshape(-1).view(torch.uint8)
        yield plain.numpy().data


def give_rows(groups: Mapping[str, Mapping[str, Tensor]]) -> None:
    """Give the rows of this process to the one that writes these groups of tensors into files."""
    for tensors in groups.values():
        for _ in serialized({name: x for name, x in tensors.items() if is_sharded(x)}):
            pass


def read_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the names and shapes of the tensors in a file, from its header alone.

    Raises:
        RunError: if the file cannot be read.
    """
    with _opened(path) as file:
        return {name: tuple(file.get_slice(name).get_shape()) for name in _names(file)}


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Return the tensors in a file, in memory of their own.

    Raises:
        RunError: if the file cannot be read.
    """
    try:
        with _opened(path) as file:
            return {name: file.get_tensor(name).clone() for name in _names(file)}
    except (RuntimeError, AttributeError, TypeError) as error:  # a type that torch does not have
        raise _unreadable(path, error) from None


def _opened(path: Path) -> safe_open:
    try:
        open_file(path).close()  # safetensors itself would block on a pipe
        return safe_open(path, "pt")
    except (OSError, SafetensorError, MemoryError) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> RunError:
    return RunError(
        f"the weights {path} cannot be read: {brief(error)}. Restore the file from a copy"
    )


def _names(file: safe_open) -> list[str]:
    return list(file.keys())
