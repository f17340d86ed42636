"""The packages of the extra `onnx`, which are asked for when they are needed."""

import importlib
from types import ModuleType

import torch

from saccade.errors import InteropError


def require_exporter() -> None:
    """Refuse to export where something is missing for it."""
    for name in ("onnx", "onnxscript", "onnxruntime"):
        _found(name)
    if not hasattr(torch.onnx, "ops"):
        raise InteropError(
            f"ONNX is written with torch 2.8 or newer, this is {torch.__version__}: upgrade torch"
        )


def runtime() -> ModuleType:
    """onnxruntime."""
    return _found("onnxruntime")


def _found(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise InteropError(
            f"{name} is needed for ONNX and cannot be imported ({error}): "
            'pip install "saccade[onnx]"'
        ) from None
