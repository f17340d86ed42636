"""Helpers for comparing models with those of transformers."""

from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from saccade.interop import huggingface

CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def randomised(model: Any) -> Any:
    """Add noise to every parameter, also of norms, so that nothing is trivially 0 or 1."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" not in name:
                parameter.add_(0.2 * torch.randn_like(parameter))
    return model.eval()


def tokens(vocabulary: int, *shape: int) -> Tensor:
    return torch.randint(vocabulary, shape)


def padding(*lengths: int) -> Tensor:
    """Return a mask that is True at real tokens."""
    return torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)


def read_back(model: nn.Module, folder: Path, **options: Any) -> Any:
    """Save ours, load it with transformers, and check that no tensor is missing or unused."""
    huggingface.save(model, folder, **options)
    kind = getattr(transformers, huggingface.read_config(folder)["architectures"][0])
    headless = kind.__name__ in ("BertModel", "ViTModel", "DeiTModel")
    pooler = {"add_pooling_layer": False} if headless else {}
    theirs, info = kind.from_pretrained(folder, output_loading_info=True, **pooler)
    assert {key: value for key, value in info.items() if value} == {}
    return theirs.eval()


def assert_same_model(ours: nn.Module, other: nn.Module) -> None:
    """Check that modules, tensors (to the bit) and shared tensors are the same."""
    assert repr(ours) == repr(other)
    names, others = ours.state_dict(), other.state_dict()
    assert names.keys() == others.keys()
    for name, value in names.items():
        assert torch.equal(value, others[name]), name
    assert [name for name, _ in ours.named_parameters()] == [
        name for name, _ in other.named_parameters()
    ]
