"""Exports to ONNX in tests, where shape annotations are checked at run time."""

from typing import Any

import jaxtyping
import pytest
import torch


def without_shape_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switch shape checks off while torch exports a model: a symbolic size is not an int."""
    export = torch.onnx.export

    def unchecked(*args: Any, **options: Any) -> Any:
        jaxtyping.config.update("jaxtyping_disable", True)
        try:
            return export(*args, **options)
        finally:
            jaxtyping.config.update("jaxtyping_disable", False)

    monkeypatch.setattr(torch.onnx, "export", unchecked)
