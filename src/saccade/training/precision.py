"""The device and precision of training, and whether this machine supports them.

A processor may advertise a precision and crash when it is used. So every precision other than
float32 is first tried in a process of its own, with what training does (see `trial`).
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Literal

import torch

from saccade.errors import RecipeError, brief


@dataclass(frozen=True)
class Precision:
    """float32, or bfloat16 for operations that are safe in it; weights and sums stay float32."""

    name: Literal["float32", "bfloat16"]
    device: str

    def autocast(self) -> AbstractContextManager[object]:
        """Return a context that computes in this precision."""
        if self.name == "float32":
            return nullcontext()
        return torch.autocast(self.device, dtype=torch.bfloat16)


def choose(name: str, device: torch.device) -> Precision:
    """Return a precision by its name.

    Args:
        name: "auto", "float32" or "bfloat16"; "auto" is bfloat16 on a GPU that supports it, else
            float32.
        device: where training computes.

    Raises:
        RecipeError: if the name is unknown, or the device does not support the precision.
    """
    if name not in ("auto", "float32", "bfloat16"):
        raise RecipeError(f"precision cannot be {name!r}; it can be: auto, float32, bfloat16")
    if name == "bfloat16" and not works(str(device)):
        raise RecipeError(
            f"bfloat16 does not work on {device} of this machine: a short training in a process of "
            "its own failed. Use --precision float32"
        )
    if name == "bfloat16" or (name == "auto" and device.type == "cuda" and works(str(device))):
        return Precision("bfloat16", device.type)
    return Precision("float32", device.type)


@cache
def works(device: str) -> bool:
    """Return whether a child process survives training in bfloat16 on this device."""
    command = [sys.executable, "-m", "saccade.training.trial", device]
    try:
        trial = subprocess.run(command, capture_output=True, timeout=120, check=False)
    except subprocess.TimeoutExpired:
        return False
    return trial.returncode == 0


def pick_device(name: str, process: int | None = None) -> torch.device:
    """Return a device by its name.

    Args:
        name: "auto", "cpu", "cuda" or "mps"; "auto" is a GPU if there is one.
        process: number of this process on the machine, if there are several: each has the GPU of
            its own number.

    Raises:
        RecipeError: if the device cannot be used.
    """
    if name == "auto" and not torch.cuda.is_available():
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device("cuda" if name == "auto" else name)
        if device.type == "cuda" and process is not None:
            _require_gpu(process)
            device = torch.device("cuda", process)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise RecipeError(
            f"device {name!r} cannot be used here ({brief(error, 80).splitlines()[0]}); "
            "it can be: auto, cpu, cuda, mps"
        ) from None
    return device


def _require_gpu(process: int) -> None:
    count = torch.cuda.device_count()
    if 0 < count <= process:
        raise RecipeError(
            f"process {process} of this machine needs a GPU of its own, but the number of GPUs is "
            f"{count}. Start at most that many processes, or train with --device cpu"
        )
