"""Files of Hugging Face folders: older forms, and errors for unsupported or damaged ones."""

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor

from saccade.errors import InteropError, SaccadeError, WeightsError
from saccade.interop import huggingface
from tests.interop import test_bert, test_gpt2, test_marian, test_vit
from tests.interop.references import CLOSE, tokens

SIZES = {
    "bert": test_bert.SIZES,
    "gpt2": test_gpt2.SIZES,
    "vit": test_vit.SIZES,
    "marian": test_marian.SIZES,
}


def set_config(folder: Path, **values: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def change_tensors(folder: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    path = folder / "model.safetensors"
    tensors = {name: x.clone() for name, x in safetensors.torch.load_file(path).items()}
    change(tensors)
    safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})


@pytest.fixture
def bert(folder: Path) -> Path:
    test_bert.reference("BertForMaskedLM").save_pretrained(folder)
    return folder


@pytest.fixture
def gpt2(folder: Path) -> Path:
    test_gpt2.reference().save_pretrained(folder)
    return folder


# --- files of older versions


def test_load_reads_gamma_and_beta_of_norms(bert: Path) -> None:
    expected = huggingface.load(bert)

    def rename(tensors: dict[str, Tensor]) -> None:
        for name in [name for name in tensors if "LayerNorm" in name]:
            old = name.replace("LayerNorm.weight", "LayerNorm.gamma")
            tensors[old.replace("LayerNorm.bias", "LayerNorm.beta")] = tensors.pop(name)
        tensors["bert.embeddings.position_ids"] = torch.arange(23)
        tensors["cls.seq_relationship.weight"] = torch.zeros(2, 21)
        tensors["bert.pooler.dense.bias"] = torch.zeros(21)

    change_tensors(bert, rename)
    text = tokens(31, 2, 5)
    assert torch.equal(huggingface.load(bert)(text), expected(text))


def test_load_reads_body_without_prefix(gpt2: Path) -> None:
    """The first GPT-2 files have no prefix, a causal mask per block, and no output."""
    expected = huggingface.load(gpt2)

    def rename(tensors: dict[str, Tensor]) -> None:
        for name in list(tensors):
            tensors[name.removeprefix("transformer.")] = tensors.pop(name)
        tensors["h.0.attn.bias"] = torch.ones(1, 1, 23, 23).tril()
        tensors["h.0.attn.masked_bias"] = torch.tensor(-1e4)

    change_tensors(gpt2, rename)
    text = tokens(31, 2, 5)
    assert torch.equal(huggingface.load(gpt2)(text), expected(text))


def test_load_reads_prefix_without_head(folder: Path) -> None:
    theirs = test_bert.reference("BertModel")
    theirs.save_pretrained(folder)

    def rename(tensors: dict[str, Tensor]) -> None:
        for name in list(tensors):
            tensors[f"bert.{name}"] = tensors.pop(name)

    change_tensors(folder, rename)
    text = tokens(31, 2, 5)
    torch.testing.assert_close(huggingface.load(folder)(text), theirs(text)[0], **CLOSE)


def test_shared_tensor_may_have_any_of_its_names(folder: Path) -> None:
    test_marian.reference().save_pretrained(folder)
    expected = huggingface.load(folder).state_dict()

    def twice(tensors: dict[str, Tensor]) -> None:
        tensors["lm_head.weight"] = tensors["model.shared.weight"].clone()
        tensors["model.encoder.embed_positions.weight"] = torch.zeros(23, 42)

    def elsewhere(tensors: dict[str, Tensor]) -> None:
        del tensors["model.shared.weight"]

    for change in (twice, elsewhere):
        change_tensors(folder, change)
        loaded = huggingface.load(folder).state_dict()
        assert all(torch.equal(value, loaded[name]) for name, value in expected.items())


def test_raises_on_copies_that_differ(gpt2: Path) -> None:
    change_tensors(gpt2, lambda x: x.update({"lm_head.weight": torch.zeros(31, 21)}))
    with pytest.raises(
        WeightsError, match=r"lm_head\.weight and transformer\.wte\.weight .*tie_wo"
    ):
        huggingface.load(gpt2)
    set_config(gpt2, tie_word_embeddings=False)
    assert not huggingface.load(gpt2)(tokens(31, 2, 5)).any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_becomes_float32(dtype: torch.dtype, folder: Path) -> None:
    theirs = test_gpt2.reference().to(dtype)
    theirs.save_pretrained(folder)
    ours = huggingface.load(folder)
    assert {x.dtype for x in ours.parameters()} == {torch.float32}
    text = tokens(31, 2, 5)
    torch.testing.assert_close(ours(text), theirs.float()(text).logits, **CLOSE)


def test_loaded_model_does_not_depend_on_the_file(gpt2: Path) -> None:
    ours = huggingface.load(gpt2)
    text = tokens(31, 2, 5)
    expected = ours(text)
    size = (gpt2 / "model.safetensors").stat().st_size
    with (gpt2 / "model.safetensors").open("r+b") as file:
        file.write(bytes(size))
    assert torch.equal(ours(text), expected)


def test_load_does_not_use_the_random_generator(gpt2: Path) -> None:
    state = torch.get_rng_state()
    huggingface.load(str(gpt2))
    assert torch.equal(torch.get_rng_state(), state)


# --- errors in config.json


@pytest.mark.parametrize(
    ("model_type", "value", "message"),
    [
        (
            "bert",
            {"position_embedding_type": "relative_key"},
            "relative positions are not supported",
        ),
        (
            "bert",
            {"is_decoder": True},
            "is_decoder is True and must be False: BERT decoders are not",
        ),
        ("bert", {"add_cross_attention": True}, "cross-attention in BERT is not supported"),
        ("bert", {"hidden_act": "quick_gelu"}, "hidden_act is 'quick_gelu'.*'relu2', 'gelu'"),
        ("bert", {"hidden_size": "21"}, "hidden_size is '21'.*integer"),
        ("bert", {"hidden_dropout_prob": 1.5}, "hidden_dropout_prob is 1.5.*less than 1"),
        ("bert", {"num_hidden_layers": 0}, "num_hidden_layers is 0.*greater than 0"),
        ("bert", {"num_attention_heads": 2}, "21 is not divisible by 2"),
        ("bert", {"quantization_config": {"bits": 4}}, "quantised weights are not supported"),
        ("bert", {"architectures": ["BertForQuestionAnswering"]}, "QuestionA.*BertForMaskedLM"),
        ("bert", {"architectures": [["BertModel"]]}, "architectures is"),
        ("bert", {"num_labels": 0}, "num_labels is 0"),
        ("bert", {"architectures": "BertModel"}, "architectures is 'BertModel'"),
        ("gpt2", {"add_cross_attention": True}, "cross-attention in GPT-2 is not supported"),
        ("gpt2", {"scale_attn_weights": False}, "scale_attn_weights is False"),
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "scaled by layer"),
        ("gpt2", {"reorder_and_upcast_attn": True}, "attention in another precision"),
        ("gpt2", {"architectures": ["GPT2Model"]}, r"\['GPT2Model'\].*GPT2LMHeadModel; put it"),
        ("gpt2", {"architectures": None}, "architectures is None.*GPT2LMHeadModel"),
        ("vit", {"patch_size": [3, 5]}, "only square patches are supported"),
        ("vit", {"image_size": 16}, r"image_size is \(16, 16\).*patches of 3 x 3"),
        ("vit", {"image_size": [3, 3, 3]}, "image_size"),
        ("vit", {"architectures": ["ViTForMaskedImageModeling"]}, "ViTForImageClassification"),
        ("marian", {"normalize_before": True}, "pre-norm Marian"),
        ("marian", {"normalize_embedding": True}, "norms on embeddings"),
        ("marian", {"add_final_layer_norm": True}, "a final norm"),
        ("marian", {"static_position_embeddings": False}, "learned positions"),
        ("marian", {"encoder_layerdrop": 0.1}, "layer dropout is not supported"),
        ("marian", {"tie_word_embeddings": False}, "tie_word_embeddings false"),
        ("marian", {"architectures": ["MarianModel"]}, "MarianMTModel"),
        ("opt", {}, "model_type is 'opt'.*bert, .*, vit"),
        (None, {}, "model_type is None.*bert, .*, vit"),
    ],
)
def test_raises_on_unsupported_config(
    model_type: str | None, value: dict[str, Any], message: str, tmp_path: Path
) -> None:
    """The config alone is enough, without any weights."""
    names = {
        "bert": "BertModel",
        "gpt2": "GPT2LMHeadModel",
        "vit": "ViTModel",
        "marian": "MarianMTModel",
    }
    config = {"model_type": model_type, "architectures": [names.get(str(model_type), "X")]}
    config |= SIZES.get(str(model_type), {})
    (tmp_path / "config.json").write_text(json.dumps(config | value))
    with pytest.raises(InteropError, match=message) as raised:
        huggingface.load(tmp_path)
    assert str(tmp_path) in str(raised.value)
    assert isinstance(raised.value, SaccadeError)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "config.json is not valid JSON.*line 1"),
        ("[1]", "must contain a JSON object, got list"),
    ],
)
def test_raises_on_invalid_json(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(InteropError, match=message):
        huggingface.load(tmp_path)


def test_raises_without_folder_or_config(tmp_path: Path) -> None:
    with pytest.raises(InteropError, match=r"the folder .*nowhere does not exist"):
        huggingface.load(tmp_path / "nowhere")
    with pytest.raises(InteropError, match=r"has no config\.json.*it contains no files"):
        huggingface.load(tmp_path)


# --- errors in the weights


def test_raises_without_weights(bert: Path) -> None:
    (bert / "model.safetensors").unlink()
    with pytest.raises(
        WeightsError, match=r"neither model\.safetensors nor .*it contains config\.json"
    ):
        huggingface.load(bert)


def test_pickle_is_never_opened(bert: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return exec, ("raise AssertionError('a pickle was read')",)

    (bert / "model.safetensors").unlink()
    (bert / "pytorch_model.bin").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(
        WeightsError, match=r"pytorch_model\.bin, a pickle.*convert it to safetensors"
    ):
        huggingface.load(bert)


@pytest.mark.parametrize("keep", [0, 5, 1000])
def test_raises_on_truncated_file(keep: int, bert: Path) -> None:
    content = (bert / "model.safetensors").read_bytes()
    (bert / "model.safetensors").write_bytes(content[:keep])
    with pytest.raises(
        WeightsError, match=r"model\.safetensors is not a complete safetensors file"
    ):
        huggingface.load(bert)


def test_error_names_missing_unexpected_and_misshapen_tensors(bert: Path) -> None:
    def change(tensors: dict[str, Tensor]) -> None:
        del tensors["bert.encoder.layer.1.attention.self.key.weight"]
        tensors["bert.encoder.layer.0.intermediate.dense.weight"] = torch.zeros(17, 21)
        tensors["bert.something.else"] = torch.zeros(1)

    change_tensors(bert, change)
    with pytest.raises(WeightsError) as raised:
        huggingface.load(bert)
    message = str(raised.value)
    assert "layer.0.intermediate.dense.weight is F32 (17, 21), expected floats (19, 21)" in message
    assert "bert.encoder.layer.1.attention.self.key.weight (21, 21) is missing" in message
    assert "bert.something.else is not part of this model" in message
    assert "more" not in message


def test_error_counts_many_mistakes(bert: Path) -> None:
    set_config(bert, num_hidden_layers=3)
    with pytest.raises(WeightsError, match=r"bert\.encoder\.layer\.2\..*; and 13 more"):
        huggingface.load(bert)


def test_raises_on_integer_weights(bert: Path) -> None:
    change_tensors(bert, lambda x: x.update({"cls.predictions.bias": torch.arange(31)}))
    with pytest.raises(
        WeightsError, match=r"cls\.predictions\.bias is I64 \(31\), expected floats"
    ):
        huggingface.load(bert)


def test_raises_on_duplicate_tensor(bert: Path) -> None:
    name = "embeddings.word_embeddings.weight"
    change_tensors(bert, lambda x: x.update({name: torch.zeros(31, 21)}))
    with pytest.raises(WeightsError, match="are the same tensor"):
        huggingface.load(bert)


def test_raises_on_head_in_folder_without_head(bert: Path) -> None:
    set_config(bert, architectures=["BertModel"])
    with pytest.raises(WeightsError, match=r"cls\.predictions\.\S+ is not part of this model"):
        huggingface.load(bert)


@pytest.fixture
def sharded(folder: Path) -> Path:
    test_bert.reference("BertModel").save_pretrained(folder, max_shard_size="4KB")
    return folder


def test_raises_on_missing_shard(sharded: Path) -> None:
    shards = sorted(sharded.glob("*.safetensors"))
    shards[1].unlink()
    with pytest.raises(WeightsError, match=f"lacks {shards[1].name} of the {len(shards)} files"):
        huggingface.load(sharded)


@pytest.mark.parametrize("index", [{}, {"weight_map": 3}, {"weight_map": {"a": 1}}])
def test_raises_on_invalid_index(index: dict[str, Any], sharded: Path) -> None:
    (sharded / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(WeightsError, match='no "weight_map"'):
        huggingface.load(sharded)


def test_raises_on_index_with_outside_path(sharded: Path) -> None:
    index = {"weight_map": {"a": "../secret.safetensors"}}
    (sharded / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(WeightsError, match=r"names \.\./secret\S+, which is outside"):
        huggingface.load(sharded)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_raises_on_named_pipes_without_waiting(bert: Path, name: str) -> None:
    (bert / name).unlink()
    os.mkfifo(bert / name)
    with pytest.raises(SaccadeError, match=name):
        huggingface.load(bert)


def test_raises_on_deeply_nested_config(bert: Path) -> None:
    (bert / "config.json").write_text('{"a":' * 200_000)
    with pytest.raises(
        InteropError, match=r"config\.json is not valid JSON: it is nested too deeply"
    ):
        huggingface.load(bert)
