"""A second device, computed on the CPU: tensors on it do not mix with those of the CPU.

While `OtherDevice` is active, `DEVICE` holds real numbers. As on a GPU, an operator raises if its
tensors are on two devices; torch itself allows a CPU tensor there only

- without axes (it is a number), in any operator,
- as the index of another, and as the lengths of packed sequences,
- in copies from device to device.

`OtherDevice` also raises if the code of a model (the folders in `MODEL_CODE`) creates a tensor
without a device. Data, augmentation and tasks create theirs on the CPU before a batch is moved.
The random numbers of sampling are equal on every device, so they are created on the CPU
explicitly.

The device is called "meta", which torch has in every build; no meta tensor is used.
"""

import sys
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

import saccade

DEVICE = torch.device("meta")
MODEL_CODE = ("attention", "positions", "layers", "encoders", "decoders", "models", "decoding")
ROOT = Path(saccade.__file__).parent
CREATORS = {
    torch.arange,
    torch.as_tensor,
    torch.empty,
    torch.eye,
    torch.from_numpy,
    torch.full,
    torch.linspace,
    torch.normal,
    torch.ones,
    torch.rand,
    torch.randint,
    torch.randn,
    torch.randperm,
    torch.tensor,
    torch.zeros,
}
"""Functions that create a tensor on the CPU unless they get a device."""
COPIES = {"aten::_to_copy", "aten::copy_", "aten::to"}
INDEXED = {"aten::index", "aten::index_put", "aten::index_put_", "aten::_unsafe_index"}
PACKING = "aten::_pack_padded_sequence"


class MixedDevicesError(RuntimeError):
    """The error that torch would raise with a GPU."""


class Elsewhere(torch.Tensor):
    """A tensor on the other device, which wraps one on the CPU."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> "Elsewhere":
        return torch.Tensor._make_wrapper_subclass(
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=DEVICE,
        )

    def __init__(self, inner: torch.Tensor) -> None:
        self.inner = inner

    def tolist(self) -> Any:
        return self.inner.tolist()

    def numpy(self, *_: Any, **__: Any) -> Any:
        raise TypeError("cannot convert a tensor of another device to numpy; use .cpu() first")

    def __getitem__(self, index: Any) -> Any:
        return super().__getitem__(indexed(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(indexed(index), value)

    def __repr__(self) -> str:
        return f"Elsewhere({self.inner!r})"

    @classmethod
    def __torch_dispatch__(
        cls, call: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        return computed(call, args, kwargs or {})


class OtherDevice(TorchDispatchMode):
    """A mode in which the other device can be used."""

    def __torch_dispatch__(
        self, call: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        return computed(call, args, kwargs or {})

    def __enter__(self) -> "OtherDevice":
        self.creation = Creation()
        self.creation.__enter__()
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self.creation.__exit__(*error)


class Creation(TorchFunctionMode):
    """A mode that intercepts calls that create a tensor from Python values."""

    def __torch_function__(
        self, call: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if call not in CREATORS or (args and isinstance(args[0], torch.Tensor)):
            return call(*args, **kwargs)
        if kwargs.get("device") is None:
            require_no_model_code(call.__name__)
        elif torch.device(kwargs["device"]) == DEVICE and call in (torch.tensor, torch.as_tensor):
            return call(*args, **{**kwargs, "device": "cpu"}).to(DEVICE)
        return call(*args, **kwargs)


def indexed(index: Any) -> Any:
    """Return an index with lists as tensors; torch would create them on the real meta device."""
    if isinstance(index, tuple):
        return tuple(map(indexed, index))
    return torch.tensor(index, device="cpu") if isinstance(index, list) else index


def computed(call: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the result of an operator, on the device where a GPU would have it."""
    name = call._schema.name
    tensors = [x for x in tree_flatten((args, kwargs))[0] if isinstance(x, torch.Tensor)]
    there = any(isinstance(x, Elsewhere) for x in tensors)
    assert all(isinstance(x, Elsewhere) or x.device != DEVICE for x in tensors), name
    if there and any(x.ndim and not isinstance(x, Elsewhere) for x in tensors):
        require_allowed(name, args)
    device = kwargs.get("device")
    if device is not None:
        there, kwargs = torch.device(device) == DEVICE, {**kwargs, "device": "cpu"}
    if name == "aten::copy_":
        there = isinstance(args[0], Elsewhere)
    inner = tree_map(lambda x: x.inner if isinstance(x, Elsewhere) else x, (args, kwargs))
    result = call(*inner[0], **inner[1])
    if not there:
        return result
    if torch.Tag.inplace_view in call.tags:  # the shape of the outer tensor also changes
        with no_dispatch():
            return call(*args, **kwargs)
    if name.endswith("_") and not name.endswith("__"):  # in place
        return None if result is None else args[0]
    if name == PACKING:  # its lengths stay on the CPU
        return Elsewhere(result[0]), result[1]
    return tree_map(lambda x: Elsewhere(x) if isinstance(x, torch.Tensor) else x, result)


def require_allowed(name: str, args: tuple[Any, ...]) -> None:
    """Raise unless a GPU accepts a tensor of the CPU here."""
    if name in COPIES or name == PACKING:
        return
    if name in INDEXED:
        values = [args[0], *args[2:3]]
        if all(isinstance(x, Elsewhere) for x in values if isinstance(x, torch.Tensor) and x.ndim):
            return
    raise MixedDevicesError(f"{name}: expected all tensors to be on the same device")


def require_no_model_code(name: str) -> None:
    """Raise if the nearest frame of the package belongs to a model."""
    frame = sys._getframe(1)
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(ROOT):
            if path.relative_to(ROOT).parts[0] in MODEL_CODE:
                raise MixedDevicesError(
                    f"{path}:{frame.f_lineno}: {name} makes a tensor without a device"
                )
            return
        frame = frame.f_back
