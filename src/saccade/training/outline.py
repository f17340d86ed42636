"""Models without memory, to be compared with a file of weights before memory is allocated."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.overrides import TorchFunctionMode

from saccade.errors import RunError

RANDOM = ("normal_", "uniform_", "trunc_normal_", "exponential_", "random_")
"""Functions that fill a tensor at random: without memory there is nothing to fill, and torch would
load its compiler for it, which takes a second.
"""


@contextmanager
def without_memory(most: int, where: str) -> Iterator[None]:
    """Build modules inside the block on torch's meta device, which allocates nothing.

    A width or a number of layers that makes no sense then costs neither memory nor time.

    Args:
        most: the largest number of tensors.
        where: the file that describes the model, for the error.

    Raises:
        RunError: as soon as there are more than `most` tensors.
    """
    count, thread = 0, threading.get_ident()

    def counted(module: nn.Module, name: str, parameter: nn.Parameter) -> None:
        nonlocal count
        if threading.get_ident() == thread:
            count += 1
            if count > most:
                raise RunError(
                    f"{where} describes a model of more than {most} tensors. Restore recipe.toml "
                    "from a copy"
                )

    hook = register_module_parameter_registration_hook(counted)
    try:
        with torch.device("meta"), _Unfilled():
            yield
    finally:
        hook.remove()


class _Unfilled(TorchFunctionMode):
    """Leave tensors without memory as they are where they would be filled at random."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") in RANDOM:
            tensor = args[0] if args else kwargs["tensor"]
            if tensor.is_meta:
                return tensor
        return func(*args, **kwargs)
