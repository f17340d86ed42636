"""Models of our own configs as folders: equal logits in transformers, or an error with reasons."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import nn

from saccade.attention import CosineConfig
from saccade.decoders.transformer import TransformerDecoderConfig
from saccade.encoders.recurrent import RecurrentEncoderConfig
from saccade.encoders.transformer import TransformerEncoderConfig
from saccade.errors import DiskFullError, InteropError
from saccade.interop import huggingface
from saccade.layers.embeddings import OutputProjection, TokenEmbedding
from saccade.models import (
    ImageClassifierConfig,
    LanguageModelConfig,
    MaskedLanguageModelConfig,
    TextClassifierConfig,
    TextEncoderConfig,
    Transformer,
    Translator,
    TranslatorConfig,
)
from saccade.positions import LearnedConfig, NoPositionConfig, RelativeConfig, SinusoidalConfig
from tests.interop.references import (
    CLOSE,
    assert_same_model,
    padding,
    randomised,
    read_back,
    tokens,
)

LEARNED = LearnedConfig(length=23)
READER = TransformerEncoderConfig(
    num_layers=2,
    num_heads=3,
    hidden_dim=19,
    norm_order="post",
    activation="gelu",
    position=LEARNED,
    stem_norm=True,
)
WRITER = TransformerDecoderConfig(
    num_layers=2, num_heads=3, hidden_dim=19, activation="gelu_tanh", position=LEARNED
)
VIEWER = ImageClassifierConfig(
    encoder=TransformerEncoderConfig(
        num_layers=2,
        num_heads=3,
        hidden_dim=19,
        activation="gelu",
        position=LearnedConfig(grid=(2, 5)),
    ),
    dim=21,
    patch_size=3,
    channels=2,
)
HALVES = SinusoidalConfig(layout="halves")
MARIAN = TranslatorConfig(
    encoder=TransformerEncoderConfig(
        num_layers=1, num_heads=3, hidden_dim=19, norm_order="post", position=HALVES
    ),
    decoder=TransformerDecoderConfig(
        num_layers=2, num_heads=7, hidden_dim=17, norm_order="post", position=HALVES
    ),
    dim=42,
)


def interleaved() -> TranslatorConfig:
    position = SinusoidalConfig()
    return replace(
        MARIAN,
        encoder=replace(MARIAN.encoder, position=position),
        decoder=replace(MARIAN.decoder, position=position),
    )


def translator(config: TranslatorConfig = MARIAN, target: int = 31) -> Translator:
    return randomised(config.build(31, target))


# --- models with a counterpart


@pytest.mark.parametrize("num_segments", [0, 2])
def test_save_text_classifier(num_segments: int, tmp_path: Path) -> None:
    config = TextClassifierConfig(encoder=READER, dim=21, num_segments=num_segments)
    ours = randomised(config.build(31, 5))
    theirs = read_back(ours, tmp_path)
    text, mask = tokens(31, 2, 11), padding(7, 11)
    logits = theirs(text, attention_mask=mask.long()).logits
    torch.testing.assert_close(ours(text, mask), logits, **CLOSE)
    assert torch.equal(huggingface.load(tmp_path)(text, mask), ours(text, mask))


def test_save_masked_language_model_with_scaled_shared_embedding(tmp_path: Path) -> None:
    """The format has no scale: the embedding is stored multiplied, the output as it is."""
    ours = randomised(MaskedLanguageModelConfig(encoder=READER, dim=21).build(31))
    before = {name: x.clone() for name, x in ours.state_dict().items()}
    text, mask = tokens(31, 2, 11), padding(7, 11)
    expected = ours(text, mask) * mask.unsqueeze(-1)
    logits = read_back(ours, tmp_path)(text, attention_mask=mask.long()).logits
    torch.testing.assert_close(logits * mask.unsqueeze(-1), expected, **CLOSE)
    assert torch.equal(huggingface.load(tmp_path)(text, mask) * mask.unsqueeze(-1), expected)
    assert ours.output.weight is ours.encoder.stem.embedding.weight
    assert all(torch.equal(before[name], x) for name, x in ours.state_dict().items())


def test_save_language_model(tmp_path: Path) -> None:
    ours = randomised(LanguageModelConfig(decoder=WRITER, dim=21).build(31))
    text = tokens(31, 2, 11)
    torch.testing.assert_close(read_back(ours, tmp_path)(text).logits, ours(text), **CLOSE)
    assert torch.equal(huggingface.load(tmp_path)(text), ours(text))


def test_save_image_classifier(tmp_path: Path) -> None:
    ours = randomised(VIEWER.build(5))
    image = torch.randn(2, 2, 6, 15)
    torch.testing.assert_close(read_back(ours, tmp_path)(image).logits, ours(image), **CLOSE)
    assert_same_model(ours, huggingface.load(tmp_path))


@pytest.mark.parametrize("share_embeddings", [True, False])
@pytest.mark.parametrize("tie_output", [True, False])
def test_save_translator(share_embeddings: bool, tie_output: bool, tmp_path: Path) -> None:
    config = replace(MARIAN, share_embeddings=share_embeddings, tie_output=tie_output)
    ours = translator(config, 31 if share_embeddings else 29)
    source, target, mask = tokens(31, 2, 11), tokens(29, 2, 7), padding(5, 11)
    theirs = read_back(ours, tmp_path, more={"max_position_embeddings": 23})
    logits = theirs(source, attention_mask=mask.long(), decoder_input_ids=target).logits
    torch.testing.assert_close(ours(source, target, mask), logits, **CLOSE)
    assert torch.equal(huggingface.load(tmp_path)(source, target, mask), ours(source, target, mask))


def test_dropout_without_counterpart_is_not_written(tmp_path: Path) -> None:
    writer = replace(WRITER, activation_dropout=0.3)
    read_back(LanguageModelConfig(decoder=writer, dim=21).build(31), tmp_path)
    loaded: Any = huggingface.load(tmp_path)
    assert loaded.decoder.layers[0].feed_forward.dropout.p == 0.0


def test_save_writes_label_names(tmp_path: Path) -> None:
    ours = VIEWER.build(3)
    huggingface.save(ours, tmp_path)
    config = huggingface.read_config(tmp_path)
    assert config["id2label"] == {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"}
    theirs = read_back(ours, tmp_path, more={"id2label": {0: "cat", 1: "dog", 2: "emu"}})
    assert theirs.config.id2label == {0: "cat", 1: "dog", 2: "emu"}
    assert theirs.config.label2id == {"cat": 0, "dog": 1, "emu": 2}
    with pytest.raises(InteropError, match="classes 0 to 2 of this model, got"):
        huggingface.save(ours, tmp_path, {"id2label": {0: "cat", 1: "dog"}})


def test_keys_of_the_network_are_not_overwritten(tmp_path: Path) -> None:
    other = {"hidden_size": 1000, "num_labels": 7, "torch_dtype": "float16", "note": "kept"}
    huggingface.save(VIEWER.build(3), tmp_path, other)
    config = huggingface.read_config(tmp_path)
    assert (config["hidden_size"], config["note"]) == (21, "kept")
    assert config.keys().isdisjoint({"num_labels", "torch_dtype"})
    ours = LanguageModelConfig(decoder=WRITER, dim=21).build(31)
    read_back(ours, tmp_path, more={"scale_attn_weights": False, "quantization_config": {}})


# --- the files


def test_save_writes_two_readable_files(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "down"
    huggingface.save(VIEWER.build(3), folder)
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors"]
    if os.name == "posix":
        assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o644}


def test_failed_write_keeps_the_old_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    huggingface.save(VIEWER.build(3), tmp_path)
    old = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(safetensors.torch, "save_file", full)
    with pytest.raises(DiskFullError, match="the disk is full"):
        huggingface.save(VIEWER.build(5), tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == old


def test_save_overwrites_completely(tmp_path: Path) -> None:
    for classes in (3, 5):
        huggingface.save(VIEWER.build(classes), tmp_path)
    assert huggingface.load(tmp_path)(torch.randn(1, 2, 6, 15)).shape == (1, 5)


def test_raises_if_folder_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(InteropError, match=r"cannot write .*taken"):
        huggingface.save(VIEWER.build(3), tmp_path / "taken")


def test_raises_on_value_that_json_cannot_hold(tmp_path: Path) -> None:
    with pytest.raises(InteropError, match=r"cannot be written into config\.json: .*Path"):
        huggingface.save(VIEWER.build(3), tmp_path / "ours", {"here": tmp_path})
    assert not (tmp_path / "ours").exists()


def test_save_keeps_precision(tmp_path: Path) -> None:
    ours = VIEWER.build(3).double()
    huggingface.save(ours, tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["dtype"] == "float64"
    assert_same_model(ours.eval(), huggingface.load(tmp_path))


# --- models without a counterpart


def reader(**options: Any) -> nn.Module:
    return TextEncoderConfig(encoder=replace(READER, **options), dim=21).build(31)


def writer(**options: Any) -> nn.Module:
    return LanguageModelConfig(decoder=replace(WRITER, **options), dim=21).build(31)


def viewer(pooling: Any = "first", **options: Any) -> nn.Module:
    encoder = replace(VIEWER.encoder, **options)
    return replace(VIEWER, encoder=encoder, pooling=pooling).build(5)


def changed(model: nn.Module, part: str, **values: Any) -> nn.Module:
    for name, value in values.items():
        setattr(model.get_submodule(part), name, value)
    return model


def one_block_twice(model: Any) -> nn.Module:
    model.decoder.layers[1] = model.decoder.layers[0]
    return model


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Transformer(16, 1, 1),
            "a Transformer has no counterpart.*TextEncoder, TextClassifier",
        ),
        (lambda: nn.Linear(2, 2), "a Linear has no counterpart"),
        (
            lambda: TextEncoderConfig(encoder=RecurrentEncoderConfig(), dim=21).build(31),
            "encoder of this TextEncoder is RecurrentEncoder.*needs a TransformerEncoder",
        ),
        (
            lambda: reader(stem_norm=False),
            "encoder.stem_norm of this TextEncoder is Identity.*LayerNorm",
        ),
        (
            lambda: reader(norm_order="pre"),
            r"encoder.layers.0.around_attention.order is 'pre', there 'post'.*and 4 more",
        ),
        (
            lambda: reader(position=NoPositionConfig()),
            "encoder.position .* is Position.*needs a Learned",
        ),
        (
            lambda: reader(position=LearnedConfig(fuse="concat", width=3)),
            "encoder.position.fuse is 'concat', there 'add'",
        ),
        (
            lambda: reader(score=CosineConfig()),
            "attend.score is Cosine, there ScaledDot",
        ),
        (lambda: reader(num_kv_heads=1), "self_attention.num_kv_heads is 1, there 3"),
        (lambda: reader(norm="batch"), "encoder.stem_norm of this TextEncoder is BatchNorm"),
        (
            lambda: changed(reader(), "encoder.layers.1.around_attention.norm", eps=0.5),
            "layers.1.*eps is",
        ),
        (
            lambda: changed(reader(), "encoder.layers.1.feed_forward", activation=nn.ReLU()),
            "encoder.layers.1.feed_forward.activation is ReLU, there GELU",
        ),
        (
            lambda: changed(reader(), "encoder.layers.0.feed_forward", activation=nn.ELU()),
            r"activation ELU\(alpha=1.0\) has no name in transformers; those with a name are relu",
        ),
        (
            lambda: TextClassifierConfig(encoder=READER, dim=21, pooling="mean").build(31, 5),
            "pooling is 'mean', there 'first'",
        ),
        (
            lambda: TextClassifierConfig(encoder=READER, dim=21, pooler=False).build(31, 5),
            "pooler is Identity, there Sequential",
        ),
        (lambda: writer(norm_order="post"), "decoder.norm of this LanguageModel is Identity"),
        (
            lambda: writer(position=RelativeConfig()),
            "decoder.position .* is Relative",
        ),
        (
            lambda: changed(writer(), "decoder", output=OutputProjection(21, 31, bias=True)),
            r"decoder.output.bias is \(31,\), there nothing",
        ),
        (
            lambda: one_block_twice(writer()),
            "decoder.layers.1.self_attention.projection.weight is shared with "
            "decoder.layers.0.self_attention.projection.weight, there its own",
        ),
        (lambda: viewer(pooling="mean"), r"pooling is 'mean', there 'first'"),
        (lambda: viewer(position=LearnedConfig(length=11)), "11 places in a row"),
        (lambda: viewer(norm_order="post"), "encoder.norm of this ImageClassifier is Identity"),
        (
            lambda: interleaved().build(31, 31),
            "encoder.position.layout is 'interleaved', there 'halves'; decoder.position.layout",
        ),
        (
            lambda: TranslatorConfig(
                encoder=RecurrentEncoderConfig(), decoder=WRITER, dim=21
            ).build(7, 7),
            "encoder of this Translator is RecurrentEncoder",
        ),
        (
            lambda: changed(translator(), "decoder", embedding=TokenEmbedding(31, 42, scale=False)),
            "decoder.embedding.scale is 1.0, there 6.48",
        ),
    ],
)
def test_raises_on_model_without_counterpart(
    make: Callable[[], nn.Module], message: str, tmp_path: Path
) -> None:
    model = make()
    with pytest.raises(InteropError, match=message):
        huggingface.save(model, tmp_path / "ours")
    assert not (tmp_path / "ours").exists()
