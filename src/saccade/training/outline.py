"""Models without memory, to be compared with a file of weights before memory is asked for."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from saccade.errors import RunError


@contextmanager
def without_memory(most: int, where: str) -> Iterator[None]:
    """Build modules on torch's meta device; a RunError once they have more than `most` tensors.

    So neither a width nor a number of layers that makes no sense takes memory or time.
    """
    count, thread = 0, threading.get_ident()

    def counted(module: nn.Module, name: str, parameter: nn.Parameter) -> None:
        nonlocal count
        if threading.get_ident() == thread:
            count += 1
            if count > most:
                raise RunError(f"{where} describes a model of more than {most} tensors")

    hook = register_module_parameter_registration_hook(counted)
    try:
        with torch.device("meta"):
            yield
    finally:
        hook.remove()
