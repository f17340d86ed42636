"""Llama folders against transformers, and as language models that are imported and exported."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from saccade.errors import InteropError
from saccade.interop import huggingface
from saccade.interop.huggingface.task_export import write_task
from saccade.interop.huggingface.task_import import read_task
from saccade.models import LanguageModel
from saccade.text import Tokenizer, VocabularyConfig
from tests.interop.references import CLOSE, assert_same_model, randomised, read_back, tokens

SIZES = {
    "vocab_size": 31,
    "hidden_size": 18,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 3,
    "head_dim": 4,
    "intermediate_size": 19,
    "rms_norm_eps": 1e-3,
    "rope_parameters": {"rope_theta": 500.0, "rope_type": "default"},
    "pad_token_id": None,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
TEXTS = ["the old dogs are big", "a small cat sees the old dog", "dogs and cats are old"]


def reference(**options: Any) -> Any:
    config = transformers.LlamaConfig(**{**SIZES, **options})
    return randomised(transformers.LlamaForCausalLM(config))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"tie_word_embeddings": True},
        {"num_key_value_heads": 6, "hidden_act": "gelu"},
        {"hidden_size": 24, "head_dim": None, "num_key_value_heads": 1},
    ],
)
@torch.no_grad()
def test_loaded_and_saved_models_equal_transformers(
    options: dict[str, Any], folder: Path, tmp_path: Path
) -> None:
    theirs, text = reference(**options), tokens(31, 2, 11)
    theirs.save_pretrained(folder)
    ours = huggingface.load(folder)
    assert type(ours) is LanguageModel
    torch.testing.assert_close(ours(text), theirs(text).logits, **CLOSE)
    again = read_back(ours, tmp_path / "ours")
    assert type(again) is transformers.LlamaForCausalLM
    torch.testing.assert_close(ours(text), again(text).logits, **CLOSE)
    assert_same_model(ours, huggingface.load(tmp_path / "ours"))


@torch.no_grad()
def test_generation_with_a_cache_equals_transformers(folder: Path) -> None:
    theirs, text = reference(), tokens(31, 2, 5)
    theirs.save_pretrained(folder)
    ours = huggingface.load(folder)
    state = ours.start(text)
    token = text[:, -1]
    expected = theirs.generate(text, max_new_tokens=6, do_sample=False, eos_token_id=None)
    for place in range(5, 11):
        logits, state = ours.step(token, state)
        token = logits.argmax(-1)
        assert torch.equal(token, expected[:, place])


def test_the_base_of_older_folders_is_read(folder: Path) -> None:
    theirs = reference()
    theirs.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    config.pop("rope_parameters")
    (folder / "config.json").write_text(json.dumps({**config, "rope_theta": 500.0}))
    text = tokens(31, 2, 11)
    torch.testing.assert_close(huggingface.load(folder)(text), theirs(text).logits, **CLOSE)


@torch.no_grad()
def test_an_imported_language_model_answers_and_exports(folder: Path, tmp_path: Path) -> None:
    vocabulary = Tokenizer.train(TEXTS, VocabularyConfig(kind="word", size=40))
    ids = {"bos_token_id": vocabulary.start, "eos_token_id": vocabulary.stop}
    theirs = reference(vocab_size=len(vocabulary), **ids)
    theirs.save_pretrained(folder)
    vocabulary.save(folder / "tokenizer.json")
    task = read_task(folder).task
    assert task.config.text.layout == "packed"
    (answer,) = task.predict([TEXTS[0]], max_length=4, temperature=0.0)
    prompt = torch.tensor([[vocabulary.start, *vocabulary.encode(TEXTS[0])]])
    controls = sorted({*range(7)} - {vocabulary.stop})  # which a task never generates
    written = theirs.generate(prompt, max_new_tokens=4, do_sample=False, suppress_tokens=controls)[
        0, prompt.shape[1] :
    ]
    assert answer.text.strip().endswith(vocabulary.decode(written.tolist()).strip())
    write_task(task, tmp_path / "out")
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    assert type(again) is transformers.LlamaForCausalLM
    torch.testing.assert_close(again(prompt).logits, theirs(prompt).logits, **CLOSE)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attention_bias": True}, "biases of attention are not supported"),
        ({"mlp_bias": True}, "biases of the feed-forward network are not supported"),
        ({"rope_scaling": {"factor": 8.0}}, "scaled rotations"),
        ({"rope_parameters": {"rope_type": "llama3", "factor": 8.0}}, "only the plain rotation"),
        ({"architectures": ["LlamaModel"]}, "put it there if"),
    ],
)
def test_what_is_not_supported_is_named(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], **SIZES, **changes}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(InteropError, match=message):
        huggingface.describe(tmp_path)
