"""Descriptions of folders: the options of a recipe that build the same network."""

import json
from pathlib import Path
from typing import Any

import pytest
import tomlkit
import torch
import transformers
from torch import nn

from saccade import config as configs
from saccade.decoders.transformer import TransformerDecoderConfig
from saccade.encoders.recurrent import RecurrentEncoderConfig
from saccade.encoders.transformer import TransformerEncoderConfig
from saccade.errors import InteropError
from saccade.interop import huggingface
from saccade.interop.huggingface.model_rewrites import NEVER, with_rows
from saccade.models import (
    ImageClassifierConfig,
    LanguageModelConfig,
    MaskedLanguageModelConfig,
    TaggerConfig,
    TextClassifierConfig,
    TextEncoderConfig,
    TranslatorConfig,
)
from saccade.positions import LearnedConfig, SinusoidalConfig
from tests.interop import test_bert, test_gpt2, test_marian
from tests.interop.references import assert_same_model, randomised, tokens

READER = TransformerEncoderConfig(
    num_layers=2,
    num_heads=3,
    hidden_dim=19,
    norm_order="post",
    activation="gelu",
    norm_eps=1e-3,
    dropout=0.1,
    attention_dropout=0.1,
    position=LearnedConfig(length=23),
    stem_norm=True,
)
WRITER = TransformerDecoderConfig(
    num_layers=2, num_heads=3, hidden_dim=19, position=LearnedConfig(length=23)
)
BERT = {"encoder": READER, "dim": 21, "num_segments": 3, "scale_embedding": False}
HALVES = SinusoidalConfig(layout="halves")

EXPECTED: dict[str, Any] = {
    "BertModel": TextEncoderConfig(**BERT),
    "BertForSequenceClassification": TextClassifierConfig(**BERT, dropout=0.1),
    "BertForMaskedLM": MaskedLanguageModelConfig(**BERT),
    "BertForPreTraining": MaskedLanguageModelConfig(**BERT),
    "BertForTokenClassification": TaggerConfig(**BERT, dropout=0.1),
    "GPT2LMHeadModel": LanguageModelConfig(
        decoder=TransformerDecoderConfig(
            num_layers=2,
            num_heads=3,
            hidden_dim=19,
            activation="gelu_tanh",
            norm_eps=1e-3,
            attention_dropout=0.1,
            position=LearnedConfig(length=23),
        ),
        dim=21,
        scale_embedding=False,
        embedding_dropout=0.1,
    ),
    "MarianMTModel": TranslatorConfig(
        encoder=TransformerEncoderConfig(
            num_layers=1,
            num_heads=3,
            hidden_dim=19,
            norm_order="post",
            activation="silu",
            position=HALVES,
        ),
        decoder=TransformerDecoderConfig(
            num_layers=2,
            num_heads=7,
            hidden_dim=17,
            norm_order="post",
            activation="silu",
            position=HALVES,
        ),
        dim=42,
        share_embeddings=True,
        output_bias=True,
    ),
}


def reference(architecture: str, **options: Any) -> Any:
    if architecture.startswith("Bert"):
        return test_bert.reference(architecture, **options)
    return (test_gpt2 if architecture.startswith("GPT2") else test_marian).reference(**options)


def built(config: Any) -> nn.Module:
    """Build the options with the sizes of the references."""
    classes = dict.fromkeys((TextClassifierConfig, TaggerConfig), (31, 5))
    sizes = {TranslatorConfig: (31, 31), **classes}.get(type(config), (31,))
    return config.build(*sizes)


@pytest.mark.parametrize("architecture", EXPECTED)
def test_describe_returns_options_of_a_recipe(architecture: str, folder: Path) -> None:
    """Without the weights; the options survive TOML and build the same model."""
    reference(architecture).save_pretrained(folder)
    loaded = huggingface.load(folder)
    (folder / "model.safetensors").unlink()
    described = huggingface.describe(folder)
    assert described.architecture == architecture
    assert described.vocabulary == 31
    assert described.facts == json.loads((folder / "config.json").read_text())
    assert described.config == EXPECTED[architecture]
    if described.config is None:
        return
    text = tomlkit.dumps(configs.plain(described.config))
    again = configs.read(type(described.config), tomlkit.parse(text).unwrap())
    assert again == described.config
    model = built(again)
    model.load_state_dict(loaded.state_dict())
    assert_same_model(model.eval(), loaded)


@pytest.mark.parametrize("architecture", ["ViTModel", "ViTForImageClassification"])
def test_describe_returns_the_options_of_images(architecture: str, folder: Path) -> None:
    config = transformers.ViTConfig(
        hidden_size=12, num_hidden_layers=1, num_attention_heads=2, image_size=6, patch_size=3
    )
    getattr(transformers, architecture)(config).save_pretrained(folder)
    described = huggingface.describe(folder)
    assert described.config == ImageClassifierConfig(
        encoder=TransformerEncoderConfig(
            num_layers=1,
            num_heads=2,
            hidden_dim=3072,
            activation="gelu",
            dropout=0.0,
            norm_eps=1e-12,
            position=LearnedConfig(grid=(2, 2)),
        ),
        dim=12,
        patch_size=3,
    )
    assert described.vocabulary is None
    classes = ("LABEL_0", "LABEL_1") if "Classification" in architecture else ()
    assert described.labels == classes


@pytest.mark.parametrize(
    ("architecture", "options", "expected"),
    [
        ("BertForMaskedLM", {"tie_word_embeddings": False}, {"tie_output": False}),
        ("BertForMaskedLM", {"hidden_act": "relu"}, {"head_activation": "relu"}),
        ("BertForSequenceClassification", {"classifier_dropout": 0.4}, {"dropout": 0.4}),
        ("GPT2LMHeadModel", {"tie_word_embeddings": False}, {"tie_output": False}),
        ("GPT2LMHeadModel", {"embd_pdrop": 0.3}, {"embedding_dropout": 0.3}),
        ("MarianMTModel", {"scale_embedding": False}, {"scale_embedding": False}),
        ("MarianMTModel", test_marian.SEPARATE, {"share_embeddings": False, "tie_output": True}),
    ],
)
def test_describe_follows_the_keys_of_config_json(
    architecture: str, options: dict[str, Any], expected: dict[str, Any], folder: Path
) -> None:
    reference(architecture, **options).save_pretrained(folder)
    config = huggingface.describe(folder).config
    assert {name: getattr(config, name) for name in expected} == expected


# --- labels


def test_labels_are_in_the_order_of_their_ids(folder: Path) -> None:
    names = {number: f"class {number}" for number in (3, 0, 11, 7, 1, 10, 2, 4, 5, 6, 8, 9)}
    reference("BertForSequenceClassification", num_labels=12, id2label=names).save_pretrained(
        folder
    )
    assert huggingface.describe(folder).labels == tuple(f"class {i}" for i in range(12))


def test_labels_have_default_names(folder: Path) -> None:
    reference("BertForTokenClassification", num_labels=3).save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    del config["id2label"]
    (folder / "config.json").write_text(json.dumps({**config, "num_labels": 3}))
    assert huggingface.describe(folder).labels == ("LABEL_0", "LABEL_1", "LABEL_2")


def test_model_without_classes_has_no_labels(folder: Path) -> None:
    reference("BertForMaskedLM").save_pretrained(folder)
    assert huggingface.describe(folder).labels == ()


@pytest.mark.parametrize("names", [{"0": "a", "2": "b"}, ["a", "b"], {"no": "a", "yes": "b"}])
def test_raises_on_invalid_label_ids(names: Any, folder: Path) -> None:
    reference("BertForSequenceClassification", num_labels=2).save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "id2label": names}))
    with pytest.raises(InteropError, match=r"config.json: id2label must name the classes 0 to 1"):
        huggingface.describe(folder)


# --- errors


def test_describe_raises_on_invalid_folder(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InteropError, match=r"the folder .* does not exist"):
        huggingface.describe(tmp_path / "nowhere")
    reference("MarianMTModel", tie_word_embeddings=False, **test_marian.SEPARATE).save_pretrained(
        folder
    )
    config = json.loads((folder / "config.json").read_text())
    config["share_encoder_decoder_embeddings"] = True
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(InteropError, match=r"config.json: share_encoder_decoder_embeddings is"):
        huggingface.describe(folder)
    (folder / "config.json").write_text(json.dumps({**config, "d_model": "wide"}))
    with pytest.raises(InteropError, match="d_model is 'wide'"):
        huggingface.describe(folder)


# --- options of the models


def test_scale_embedding_scales_embeddings() -> None:
    for scaled in (True, False):
        reader = TextEncoderConfig(encoder=READER, dim=21, scale_embedding=scaled).build(31)
        writer = LanguageModelConfig(decoder=WRITER, dim=21, scale_embedding=scaled).build(31)
        both = TranslatorConfig(
            encoder=READER, decoder=WRITER, dim=21, scale_embedding=scaled
        ).build(31, 29)
        for embedding in (
            reader.encoder.stem.embedding,
            writer.decoder.embedding,
            both.encoder.stem.embedding,
            both.decoder.embedding,
        ):
            assert embedding.scale == (pytest.approx(21**0.5) if scaled else 1.0)


def test_recurrent_encoder_never_scales_embeddings() -> None:
    encoder = RecurrentEncoderConfig(dim=8)
    assert TextEncoderConfig(encoder=encoder, dim=12).build(9).encoder.stem.embedding.scale == 1.0
    mixed = TranslatorConfig(encoder=encoder, decoder=WRITER, dim=21).build(9, 9)
    assert mixed.encoder.stem.embedding.scale == 1.0
    assert mixed.decoder.embedding.scale == pytest.approx(21**0.5)


def test_output_bias_changes_no_other_weight() -> None:
    models = []
    for bias in (False, True):
        torch.manual_seed(3)
        config = TranslatorConfig(encoder=READER, decoder=WRITER, dim=21, output_bias=bias)
        models.append(config.build(31, 29))
    plain, biased = (dict(model.named_parameters()) for model in models)
    added = biased.pop("decoder.output.bias")
    assert torch.equal(added, torch.zeros(29))
    assert plain.keys() == biased.keys()
    assert all(torch.equal(plain[name], biased[name]) for name in plain)
    source, target = tokens(31, 2, 5), tokens(29, 2, 4)
    logits = models[1].eval()(source, target)
    with torch.no_grad():
        added[7] = 2.5
    difference = models[1](source, target) - logits
    assert torch.allclose(difference[..., 7], torch.tensor(2.5), atol=1e-5)
    assert not difference[..., :7].any()


def test_head_of_masked_language_model_follows_the_encoder() -> None:
    model = MaskedLanguageModelConfig(encoder=READER, dim=21, tie_output=False).build(31)
    assert model.transform[2].eps == 1e-3
    assert model.output.weight is not model.encoder.stem.embedding.weight
    recurrent = RecurrentEncoderConfig(dim=8)
    assert MaskedLanguageModelConfig(encoder=recurrent).build(31).transform[2].eps == 1e-5


# --- vocabularies of other sizes


def test_with_rows_removes_and_adds_rows() -> None:
    config = TranslatorConfig(
        encoder=READER, decoder=WRITER, dim=21, share_embeddings=True, output_bias=True
    )
    model = randomised(config.build(31, 31))
    source, target = tokens(20, 2, 5), tokens(20, 2, 4)
    logits = model(source, target)
    fewer = with_rows(model, source=20, target=20)
    torch.testing.assert_close(fewer(source, target), logits[..., :20])
    more = with_rows(model, source=40, target=40)
    assert more.encoder.stem.embedding is more.decoder.embedding
    assert more.output.weight is more.decoder.embedding.weight
    torch.testing.assert_close(more(source, target)[..., :31], logits)
    assert bool((more(source, target)[..., 31:] == NEVER).all())
    torch.testing.assert_close(model(source, target), logits)


def test_with_rows_of_two_vocabularies() -> None:
    config = TranslatorConfig(encoder=READER, decoder=WRITER, dim=21)
    model = with_rows(config.build(31, 29), source=30, target=28)
    assert model.encoder.stem.embedding.weight.shape == (30, 21)
    assert model.decoder.embedding.weight.shape == (28, 21)
    assert model.output.weight is model.decoder.embedding.weight
    assert model(tokens(30, 1, 3), tokens(28, 1, 3)).shape == (1, 3, 28)
