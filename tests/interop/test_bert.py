"""BERT folders against transformers."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import nn

from saccade.interop import huggingface
from saccade.models import MaskedLanguageModel, Tagger, TextClassifier, TextEncoder
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
    "hidden_size": 21,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 19,
    "max_position_embeddings": 23,
    "type_vocab_size": 3,
    "num_labels": 5,
    "layer_norm_eps": 1e-3,
}
KINDS = {
    "BertModel": TextEncoder,
    "BertForSequenceClassification": TextClassifier,
    "BertForTokenClassification": Tagger,
    "BertForMaskedLM": MaskedLanguageModel,
}


def reference(kind: str, **options: Any) -> Any:
    config = transformers.BertConfig(**{**SIZES, **options})
    return randomised(getattr(transformers, kind)(config))


def theirs_and_ours(theirs: Any, ours: nn.Module) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the outputs of both for a padded batch with segments; padding is set to 0."""
    text, segments, mask = tokens(31, 2, 11), tokens(3, 2, 11), padding(7, 11)
    expected = theirs(text, attention_mask=mask.long(), token_type_ids=segments)[0]
    actual = ours(text, mask, segments)
    if expected.ndim == 3:
        expected = expected * mask.unsqueeze(-1)
        actual = actual * mask.unsqueeze(-1)
    return expected, actual


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shards", ["whole", "sharded"])
def test_load_equals_transformers(kind: str, shards: str, folder: Path) -> None:
    theirs = reference(kind)
    theirs.save_pretrained(folder, max_shard_size="50GB" if shards == "whole" else "4KB")
    assert (len(list(folder.glob("*.safetensors"))) > 2) == (shards == "sharded")
    ours = huggingface.load(folder)
    assert type(ours) is KINDS[kind]
    assert not ours.training
    torch.testing.assert_close(*reversed(theirs_and_ours(theirs, ours)), **CLOSE)


@pytest.mark.parametrize(
    "activation",
    [
        "relu",
        "relu2",
        "gelu",
        "gelu_new",
        "gelu_fast",
        "gelu_pytorch_tanh",
        "silu",
        "swish",
        "tanh",
    ],
)
def test_activations_equal_transformers(activation: str, folder: Path) -> None:
    theirs = reference("BertForMaskedLM", hidden_act=activation)
    theirs.save_pretrained(folder)
    ours = huggingface.load(folder)
    torch.testing.assert_close(*reversed(theirs_and_ours(theirs, ours)), **CLOSE)


def test_wrong_activation_changes_outputs(folder: Path) -> None:
    """So the test above would fail on a wrong activation, even on the approximation of gelu."""
    theirs = reference("BertForMaskedLM", hidden_act="gelu")
    theirs.save_pretrained(folder)
    config = (folder / "config.json").read_text()
    (folder / "config.json").write_text(config.replace('"gelu"', '"gelu_new"'))
    expected, actual = theirs_and_ours(theirs, huggingface.load(folder))
    assert float((expected - actual).detach().abs().max()) > 1e-4


@pytest.mark.parametrize("kind", KINDS)
def test_saved_model_equals_loaded_model_in_both_libraries(
    kind: str, folder: Path, tmp_path: Path
) -> None:
    reference(kind).save_pretrained(folder)
    ours = huggingface.load(folder)
    theirs = read_back(ours, tmp_path / "ours")
    torch.testing.assert_close(*reversed(theirs_and_ours(theirs, ours)), **CLOSE)
    assert_same_model(ours, huggingface.load(tmp_path / "ours"))


def test_load_without_head_needs_no_architecture(folder: Path) -> None:
    theirs = reference("BertModel")
    theirs.save_pretrained(folder)
    config = (folder / "config.json").read_text()
    (folder / "config.json").write_text(config.replace('"architectures"', '"other"'))
    ours = huggingface.load(folder)
    assert type(ours) is TextEncoder
    torch.testing.assert_close(*reversed(theirs_and_ours(theirs, ours)), **CLOSE)


def test_next_sentence_head_of_pretraining_is_ignored(folder: Path) -> None:
    theirs = reference("BertForPreTraining")
    theirs.save_pretrained(folder)
    ours = huggingface.load(folder)
    assert type(ours) is MaskedLanguageModel
    torch.testing.assert_close(*reversed(theirs_and_ours(theirs, ours)), **CLOSE)


def test_untied_output(folder: Path, tmp_path: Path) -> None:
    theirs = reference("BertForMaskedLM", tie_word_embeddings=False)
    theirs.save_pretrained(folder)
    ours = huggingface.load(folder)
    assert isinstance(ours, MaskedLanguageModel)
    assert ours.output.weight is not ours.encoder.stem.embedding.weight
    torch.testing.assert_close(*reversed(theirs_and_ours(theirs, ours)), **CLOSE)
    again = read_back(ours, tmp_path / "ours")
    torch.testing.assert_close(*reversed(theirs_and_ours(again, ours)), **CLOSE)


def test_tied_output_stays_tied(folder: Path) -> None:
    reference("BertForMaskedLM").save_pretrained(folder)
    ours = huggingface.load(folder)
    assert isinstance(ours, MaskedLanguageModel)
    assert ours.output.weight is ours.encoder.stem.embedding.weight


def test_dropout_survives_load_and_save(folder: Path, tmp_path: Path) -> None:
    theirs = reference(
        "BertForSequenceClassification",
        hidden_dropout_prob=0.2,
        attention_probs_dropout_prob=0.3,
        classifier_dropout=0.4,
    )
    theirs.save_pretrained(folder)
    ours = huggingface.load(folder)
    for _ in range(2):
        assert isinstance(ours, TextClassifier)
        block = ours.encoder.layers[1]
        assert ours.encoder.dropout.p == 0.2
        assert block.around_attention.dropout.p == block.around_feed_forward.dropout.p == 0.2
        assert block.self_attention.attend.dropout == 0.3
        assert block.feed_forward.dropout.p == 0.0
        assert ours.dropout.p == 0.4
        huggingface.save(ours, tmp_path / "ours")
        ours = huggingface.load(tmp_path / "ours")


def test_head_dropout_defaults_to_that_of_the_body(folder: Path) -> None:
    reference("BertForTokenClassification", hidden_dropout_prob=0.2).save_pretrained(folder)
    ours = huggingface.load(folder)
    assert isinstance(ours, Tagger)
    assert ours.dropout.p == 0.2
