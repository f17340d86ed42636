"""The packages of the extra `onnx`, which are imported when they are needed."""

import importlib
from types import ModuleType

import torch

from saccade.errors import InteropError


def require_exporter() -> None:
    """Raise if a package that exporting needs is missing or too old."""
    for name in ("onnx", "onnxscript", "onnxruntime"):
        _import(name)
    if not hasattr(torch.onnx, "ops"):
        raise InteropError(
            f"ONNX needs torch 2.8 or newer, this is {torch.__version__}; upgrade torch"
        )


def runtime() -> ModuleType:
    """Return the package onnxruntime."""
    return _import("onnxruntime")


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise InteropError(
            f"{name} is needed for ONNX and cannot be imported ({error}): "
            'pip install "saccade-attention[onnx]"; '
            "then export again"
        ) from None
