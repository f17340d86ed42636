"""RoBERTa, XLM-RoBERTa, DistilBERT and ELECTRA folders against transformers, in both directions."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import nn

from saccade.errors import InteropError
from saccade.interop import huggingface
from saccade.interop.huggingface.families import families
from saccade.models import TextEncoder
from tests.interop.references import CLOSE, assert_same_model, padding, randomised, tokens

BERT = {
    "vocab_size": 31,
    "hidden_size": 21,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 19,
    "max_position_embeddings": 23,
    "type_vocab_size": 1,
    "num_labels": 5,
    "layer_norm_eps": 1e-3,
}
DISTILBERT = {
    "vocab_size": 31,
    "dim": 21,
    "n_layers": 2,
    "n_heads": 3,
    "hidden_dim": 19,
    "max_position_embeddings": 23,
    "num_labels": 5,
}
FAMILIES = {
    "roberta": ("Roberta", BERT),
    "xlm-roberta": ("XLMRoberta", {**BERT, "pad_token_id": 3}),
    "distilbert": ("DistilBert", DISTILBERT),
    "electra": ("Electra", {**BERT, "embedding_size": 21, "type_vocab_size": 3}),
}
HEADS = ("Model", "ForSequenceClassification", "ForTokenClassification", "ForMaskedLM")


def reference(family: str, head: str, **options: Any) -> Any:
    name, sizes = FAMILIES[family]
    config = getattr(transformers, f"{name}Config")(**{**sizes, **options})
    return randomised(getattr(transformers, f"{name}{head}")(config))


def assert_same_outputs(theirs: Any, ours: nn.Module) -> None:
    """Compare a padded batch whose padding has the token that transformers expects."""
    mask = padding(7, 11)
    text = (4 + tokens(27, 2, 11)).masked_fill(~mask, theirs.config.pad_token_id or 0)
    expected, actual = theirs(text, attention_mask=mask.long())[0], ours(text, mask)
    if expected.ndim == 3:
        expected, actual = expected * mask.unsqueeze(-1), actual * mask.unsqueeze(-1)
    torch.testing.assert_close(actual, expected, **CLOSE)


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_loaded_and_saved_models_equal_transformers(
    family: str, head: str, folder: Path, tmp_path: Path
) -> None:
    theirs = reference(family, head)
    theirs.save_pretrained(folder)
    ours = huggingface.load(folder)
    assert_same_outputs(theirs, ours)
    written = huggingface.read_config(folder)
    huggingface.save(ours, tmp_path / "ours", written)
    assert huggingface.read_config(tmp_path / "ours")["model_type"] == family
    assert_same_model(ours, huggingface.load(tmp_path / "ours"))
    again, info = type(theirs).from_pretrained(tmp_path / "ours", output_loading_info=True)
    missing = {name for name in info["missing_keys"] if not name.startswith("pooler.")}
    assert not missing
    assert not info["unexpected_keys"]
    assert_same_outputs(again.eval(), ours)


@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_outputs_that_are_not_shared(family: str, folder: Path, tmp_path: Path) -> None:
    theirs = reference(family, "ForMaskedLM", tie_word_embeddings=False)
    theirs.save_pretrained(folder)
    ours = huggingface.load(folder)
    assert_same_outputs(theirs, ours)
    huggingface.save(ours, tmp_path / "ours", family=family)
    kind = type(theirs)
    assert_same_outputs(kind.from_pretrained(tmp_path / "ours").eval(), ours)


@torch.no_grad()
def test_positions_of_roberta_follow_the_padding_token_that_is_written(tmp_path: Path) -> None:
    reference("roberta", "Model").save_pretrained(tmp_path / "theirs")
    ours = huggingface.load(tmp_path / "theirs")
    for token in (0, 2, 5):
        huggingface.save(ours, tmp_path / "ours", {"pad_token_id": token}, family="roberta")
        config = huggingface.read_config(tmp_path / "ours")
        assert (config["pad_token_id"], config["max_position_embeddings"]) == (token, 22 + token)
        theirs = transformers.RobertaModel.from_pretrained(
            tmp_path / "ours", add_pooling_layer=False
        ).eval()
        text = 6 + tokens(25, 2, 11)
        torch.testing.assert_close(ours(text), theirs(text)[0], **CLOSE)


def test_a_model_of_bert_is_written_as_bert_unless_another_family_is_named(tmp_path: Path) -> None:
    reference("roberta", "ForTokenClassification").save_pretrained(tmp_path / "theirs")
    ours = huggingface.load(tmp_path / "theirs")
    huggingface.save(ours, tmp_path / "ours")
    assert huggingface.read_config(tmp_path / "ours")["model_type"] == "bert"
    huggingface.save(ours, tmp_path / "ours", {"model_type": "vit"})  # which it does not fit
    assert huggingface.read_config(tmp_path / "ours")["model_type"] == "bert"


@pytest.mark.parametrize(
    ("family", "head", "changes", "message"),
    [
        ("electra", "Model", {"embedding_size": 128}, "embeddings are as wide as their states"),
        ("electra", "ForMaskedLM", {"hidden_act": "relu"}, "always has gelu"),
        ("roberta", "ForMaskedLM", {"hidden_act": "relu"}, "always has gelu"),
        ("roberta", "Model", {"pad_token_id": None}, "pad_token_id is None"),
        ("roberta", "Model", {"is_decoder": True}, "is_decoder is True"),
        ("distilbert", "Model", {"sinusoidal_pos_embds": True}, "sinusoidal positions are not"),
        (
            "electra",
            "Model",
            {"architectures": ["ElectraForPreTraining"]},
            "name the encoder alone",
        ),
    ],
)
def test_what_is_not_supported_is_named(
    family: str, head: str, changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    name, sizes = FAMILIES[family]
    config = {"model_type": family, "architectures": [f"{name}{head}"], **sizes, **changes}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(InteropError, match=message):
        huggingface.describe(tmp_path)


def test_headless_folders_need_no_architecture() -> None:
    for family in FAMILIES:
        kind = families()[family]
        assert kind.architectures[kind.unnamed].model is TextEncoder
