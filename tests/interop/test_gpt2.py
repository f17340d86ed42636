"""GPT-2 folders against transformers."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from saccade.interop import huggingface
from saccade.models import LanguageModel
from tests.interop.references import CLOSE, assert_same_model, randomised, read_back, tokens

SIZES = {
    "vocab_size": 31,
    "n_embd": 21,
    "n_layer": 2,
    "n_head": 3,
    "n_inner": 19,
    "n_positions": 23,
    "bos_token_id": None,
    "eos_token_id": None,
    "layer_norm_epsilon": 1e-3,
}


def reference(**options: Any) -> Any:
    config = transformers.GPT2Config(**{**SIZES, **options})
    return randomised(transformers.GPT2LMHeadModel(config))


def assert_same_logits(theirs: Any, ours: Any, length: int = 13) -> None:
    text = tokens(31, 2, length)
    torch.testing.assert_close(ours(text), theirs(text).logits, **CLOSE)


@pytest.mark.parametrize(
    ("shards", "activation"),
    [("50GB", "gelu_new"), ("4KB", "relu"), ("50GB", "gelu"), ("50GB", "silu")],
)
def test_load_equals_transformers(shards: str, activation: str, folder: Path) -> None:
    theirs = reference(activation_function=activation)
    theirs.save_pretrained(folder, max_shard_size=shards)
    ours = huggingface.load(folder)
    assert type(ours) is LanguageModel
    assert not ours.training
    assert ours.output.weight is ours.decoder.embedding.weight
    assert_same_logits(theirs, ours)
    assert_same_logits(theirs, ours, length=23)


def test_null_inner_width_is_four_times_the_outer(folder: Path) -> None:
    theirs = reference(n_inner=None)
    theirs.save_pretrained(folder)
    assert '"n_inner": null' in (folder / "config.json").read_text()
    assert_same_logits(theirs, huggingface.load(folder))


def test_steps_equal_transformers(folder: Path) -> None:
    theirs = reference()
    theirs.save_pretrained(folder)
    ours = huggingface.load(folder)
    assert isinstance(ours, LanguageModel)
    text = tokens(31, 2, 7)
    expected = theirs(text).logits
    state = ours.start()
    for t in range(7):
        logits, state = ours.step(text[:, t], state)
        torch.testing.assert_close(logits, expected[:, t], **CLOSE)


@pytest.mark.parametrize("tied", [True, False])
def test_saved_model_equals_loaded_model_in_both_libraries(
    tied: bool, folder: Path, tmp_path: Path
) -> None:
    theirs = reference(tie_word_embeddings=tied)
    theirs.save_pretrained(folder)
    ours = huggingface.load(folder)
    assert isinstance(ours, LanguageModel)
    assert (ours.output.weight is ours.decoder.embedding.weight) == tied
    assert_same_logits(theirs, ours)
    assert_same_logits(read_back(ours, tmp_path / "ours"), ours)
    assert_same_model(ours, huggingface.load(tmp_path / "ours"))


def test_dropout_survives_load_and_save(folder: Path, tmp_path: Path) -> None:
    reference(resid_pdrop=0.2, embd_pdrop=0.3, attn_pdrop=0.4).save_pretrained(folder)
    ours = huggingface.load(folder)
    for _ in range(2):
        assert isinstance(ours, LanguageModel)
        block = ours.decoder.layers[1]
        assert ours.decoder.dropout.p == 0.3
        assert block.around_attention.dropout.p == block.around_feed_forward.dropout.p == 0.2
        assert block.self_attention.attend.dropout == 0.4
        assert block.feed_forward.dropout.p == 0.0
        huggingface.save(ours, tmp_path / "ours")
        ours = huggingface.load(tmp_path / "ours")
