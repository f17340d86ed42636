"""Marian folders against transformers."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from saccade.interop import huggingface
from saccade.models import Translator
from tests.interop.references import (
    CLOSE,
    assert_same_model,
    padding,
    randomised,
    read_back,
    tokens,
)

SIZES = {
    "vocab_size": 31,
    "d_model": 42,
    "encoder_layers": 1,
    "encoder_attention_heads": 3,
    "encoder_ffn_dim": 19,
    "decoder_layers": 2,
    "decoder_attention_heads": 7,
    "decoder_ffn_dim": 17,
    "max_position_embeddings": 23,
    "pad_token_id": 28,
    "eos_token_id": 0,
    "decoder_start_token_id": 28,
    "activation_function": "swish",
    "scale_embedding": True,
}
LENGTH = {"max_position_embeddings": 23}
SEPARATE = {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 29}


def reference(**options: Any) -> Any:
    theirs = randomised(
        transformers.MarianMTModel(transformers.MarianConfig(**{**SIZES, **options}))
    )
    theirs.final_logits_bias.normal_()
    return theirs


def assert_same_logits(theirs: Any, ours: Any) -> None:
    source, target, mask = tokens(31, 2, 11), tokens(29, 2, 7), padding(5, 11)
    expected = theirs(source, attention_mask=mask.long(), decoder_input_ids=target).logits
    torch.testing.assert_close(ours(source, target, mask), expected, **CLOSE)


@pytest.mark.parametrize(
    ("shards", "activation", "scale"),
    [
        ("50GB", "swish", True),
        ("4KB", "silu", True),
        ("50GB", "relu", False),
        ("50GB", "gelu", False),
    ],
)
def test_load_equals_transformers(shards: str, activation: str, scale: bool, folder: Path) -> None:
    theirs = reference(activation_function=activation, scale_embedding=scale)
    theirs.save_pretrained(folder, max_shard_size=shards)
    ours = huggingface.load(folder)
    assert type(ours) is Translator
    assert not ours.training
    assert_same_logits(theirs, ours)


def test_steps_equal_transformers(folder: Path) -> None:
    theirs = reference()
    theirs.save_pretrained(folder)
    ours = huggingface.load(folder)
    assert isinstance(ours, Translator)
    source, target, mask = tokens(31, 2, 11), tokens(31, 2, 7), padding(5, 11)
    expected = theirs(source, attention_mask=mask.long(), decoder_input_ids=target).logits
    state = ours.start(source, mask)
    for t in range(7):
        logits, state = ours.step(target[:, t], state)
        torch.testing.assert_close(logits, expected[:, t], **CLOSE)


@pytest.mark.parametrize(
    ("options", "shared", "tied"),
    [
        ({}, True, True),
        (SEPARATE, False, True),
        ({**SEPARATE, "tie_word_embeddings": False}, False, False),
    ],
    ids=["one for all", "two", "three"],
)
def test_shared_and_separate_embeddings(
    options: dict[str, Any], shared: bool, tied: bool, folder: Path, tmp_path: Path
) -> None:
    theirs = reference(**options)
    theirs.save_pretrained(folder)
    ours = huggingface.load(folder)
    assert isinstance(ours, Translator)
    assert (ours.encoder.stem.embedding is ours.decoder.embedding) == shared
    assert (ours.output.weight is ours.decoder.embedding.weight) == tied
    assert_same_logits(theirs, ours)
    assert_same_logits(read_back(ours, tmp_path / "ours", more=LENGTH), ours)
    assert_same_model(ours, huggingface.load(tmp_path / "ours"))


def test_other_keys_of_config_json_survive(folder: Path, tmp_path: Path) -> None:
    reference().save_pretrained(folder)
    config = huggingface.read_config(folder)
    assert config["decoder_start_token_id"] == 28
    again = read_back(huggingface.load(folder), tmp_path / "ours", more=config)
    assert again.config.decoder_start_token_id == again.config.pad_token_id == 28


def test_load_without_bias_on_logits(folder: Path) -> None:
    theirs = reference()
    theirs.final_logits_bias.zero_()
    theirs._keys_to_ignore_on_save = ["final_logits_bias"]
    theirs.save_pretrained(folder)
    assert_same_logits(theirs, huggingface.load(folder))


def test_dropout_survives_load_and_save(folder: Path, tmp_path: Path) -> None:
    theirs = reference(dropout=0.2, attention_dropout=0.3, activation_dropout=0.4)
    theirs.save_pretrained(folder)
    ours = huggingface.load(folder)
    for _ in range(2):
        assert isinstance(ours, Translator)
        block = ours.decoder.layers[1]
        assert ours.encoder.dropout.p == ours.decoder.dropout.p == 0.2
        assert block.around_attention.dropout.p == block.around_feed_forward.dropout.p == 0.2
        assert block.around_cross.dropout.p == 0.2
        assert block.self_attention.attend.dropout == block.cross.attend.dropout == 0.3
        assert block.feed_forward.dropout.p == 0.4
        huggingface.save(ours, tmp_path / "ours")
        ours = huggingface.load(tmp_path / "ours")
