"""ViT folders against transformers."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import nn

from saccade.interop import huggingface
from saccade.models import ImageClassifier, ImageEncoder
from tests.interop.references import CLOSE, assert_same_model, randomised, read_back

SIZES = {
    "hidden_size": 21,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 19,
    "image_size": [6, 15],
    "patch_size": 3,
    "num_channels": 2,
    "num_labels": 5,
    "layer_norm_eps": 1e-3,
}
KINDS = {"ViTModel": ImageEncoder, "ViTForImageClassification": ImageClassifier}


def reference(kind: str, **options: Any) -> Any:
    config = transformers.ViTConfig(**{**SIZES, **options})
    return randomised(getattr(transformers, kind)(config))


def assert_same_logits(theirs: Any, ours: nn.Module, height: int = 6, width: int = 15) -> None:
    image = torch.randn(2, 2, height, width)
    torch.testing.assert_close(ours(image), theirs(image)[0], **CLOSE)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("shards", "activation"), [("50GB", "gelu_new"), ("4KB", "relu")])
def test_load_equals_transformers(kind: str, shards: str, activation: str, folder: Path) -> None:
    theirs = reference(kind, hidden_act=activation)
    theirs.save_pretrained(folder, max_shard_size=shards)
    ours = huggingface.load(folder)
    assert type(ours) is KINDS[kind]
    assert not ours.training
    assert_same_logits(theirs, ours)


@pytest.mark.parametrize(
    "options", [{"image_size": 9}, {"qkv_bias": False}, {"patch_size": [3, 3]}]
)
@pytest.mark.parametrize("kind", KINDS)
def test_saved_model_equals_loaded_model_in_both_libraries(
    kind: str, options: dict[str, Any], folder: Path, tmp_path: Path
) -> None:
    theirs = reference(kind, **options)
    theirs.save_pretrained(folder)
    ours = huggingface.load(folder)
    size = (9, 9) if "image_size" in options else (6, 15)
    assert_same_logits(theirs, ours, *size)
    assert_same_logits(read_back(ours, tmp_path / "ours"), ours, *size)
    assert_same_model(ours, huggingface.load(tmp_path / "ours"))


def test_load_without_head_needs_no_architecture(folder: Path) -> None:
    theirs = reference("ViTModel")
    theirs.save_pretrained(folder)
    config = (folder / "config.json").read_text()
    (folder / "config.json").write_text(config.replace('"architectures"', '"other"'))
    ours = huggingface.load(folder)
    assert type(ours) is ImageEncoder
    assert_same_logits(theirs, ours)


def test_dropout_survives_load_and_save(folder: Path, tmp_path: Path) -> None:
    theirs = reference(
        "ViTForImageClassification", hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.3
    )
    theirs.save_pretrained(folder)
    ours = huggingface.load(folder)
    for _ in range(2):
        assert isinstance(ours, ImageClassifier)
        block = ours.encoder.layers[1]
        assert ours.encoder.dropout.p == 0.2
        assert block.around_attention.dropout.p == block.around_feed_forward.dropout.p == 0.2
        assert block.self_attention.attend.dropout == 0.3
        assert block.feed_forward.dropout.p == ours.dropout.p == 0.0
        huggingface.save(ours, tmp_path / "ours")
        ours = huggingface.load(tmp_path / "ours")
