"""Tests of measures of attention for models that are not ours, and of heads removed from them."""

import html
import json
import re

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from torch import nn
from typer.testing import CliRunner

import saccade
from saccade.cli import app
from saccade.errors import WatchError
from saccade.interop.look_measure import measure_look
from saccade.lens.faithfulness.heads import without_head
from saccade.lens.record import AttentionRecord, Side
from tests.interop.test_look import WORDS, image_processor, word_piece
from tests.interop.test_watch import BART, BERT, GPT2, IMAGE, build, inputs_of

TEXTS = ["two men are talking .", "a dog runs .", "two men are in a house ."]
ALWAYS = {
    *(f"{x}{y}" for x in ("comprehensiveness", "sufficiency") for y in ("", "_over_random")),
    "attention_entropy",
    "head_divergence",
}


def spread(model):
    """Return a model whose attention is far from uniform."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.copy_(torch.randn_like(parameter) / 3)
    return model.eval()


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@pytest.mark.parametrize(
    ("kind", "layer", "output"),
    [
        ("Bert", "encoder.layer.1.attention.self", "encoder.layer.1.attention.output.dense"),
        ("Llama", "layers.0.self_attn", "layers.0.self_attn.o_proj"),
        ("T5", "decoder.block.1.layer.1.EncDecAttention", None),
    ],
)
@torch.no_grad()
def test_a_head_removed_from_a_foreign_model_contributes_nothing(
    kind, layer, output, implementation
):
    model, inputs = build(kind, implementation, scale=4)
    inputs = inputs_of(inputs)
    complete = model(**inputs)[0]
    with without_head(model, layer, 2):
        ablated = model(**inputs)[0]
    assert not torch.allclose(ablated, complete, atol=1e-4)
    assert torch.equal(model(**inputs)[0], complete)
    projection = model.get_submodule(output or f"{layer}.o")
    projection.weight[:, 8:12] = 0  # the columns of this head
    torch.testing.assert_close(model(**inputs)[0], ablated)


@pytest.mark.parametrize("need_weights", [True, False])
@torch.no_grad()
def test_a_head_removed_from_attention_of_torch_contributes_nothing(need_weights):
    attention, x = nn.MultiheadAttention(12, 3, batch_first=True), torch.randn(2, 5, 12)
    with without_head(attention, "", 1):
        ablated, _ = attention(x, x, x, need_weights=need_weights)
    attention.out_proj.weight[:, 4:8] = 0
    torch.testing.assert_close(attention(x, x, x)[0], ablated)


def test_raises_on_heads_that_cannot_be_removed():
    attention, x = nn.MultiheadAttention(12, 3), torch.randn(2, 5, 12)
    with pytest.raises(WatchError, match="has no head 3"), without_head(attention, "", 3):
        attention(x, x, x)
    message = r"no attention named '' .* was called"
    with pytest.raises(WatchError, match=message), without_head(attention, "", 0):
        pass


def test_measures_follow_what_a_model_depends_on():
    """A predictor reads one word: attention to it is comprehensive, that to others is not."""
    texts = [f"{'filler ' * n}good{' filler' * (6 - n)}" for n in range(7)]
    sides = [Side.of_words(text.split()) for text in texts]

    def records(to_it):
        rows = ([float((word == "good") == to_it) for word in side.words] for side in sides)
        return [
            AttentionRecord(side, Side.of_words(["yes"]), {"cross": np.array([[row]])})
            for side, row in zip(sides, rows, strict=True)
        ]

    def predict(some):
        likely = torch.tensor([0.9 if "good" in text else 0.1 for text in some])
        return torch.stack([1 - likely, likely], 1)

    right, wrong = (saccade.measure(predict, texts, records(to_it)) for to_it in (True, False))
    assert right["comprehensiveness"] == pytest.approx(0.8)
    assert right["sufficiency"] == pytest.approx(0.0)
    assert wrong["comprehensiveness"] == pytest.approx(0.0)
    assert wrong["sufficiency"] == pytest.approx(0.8)
    assert "matter more than random" in str(right)
    assert "matter less than random" in str(wrong)
    low, high = right.findings[1].score.interval
    assert 0 < low <= right["comprehensiveness_over_random"] <= high
    with pytest.raises(WatchError, match="got 7 inputs and 1 records"):
        saccade.measure(predict, texts, records(to_it=True)[:1])
    with pytest.raises(WatchError, match=r"probabilities \(1, answers\) for 1 inputs"):
        saccade.measure(lambda some: [[[0.5]]], texts, records(to_it=True))


def test_a_causal_record_is_read_from_its_last_token():
    text = Side.of_words(["a", "b", "c"])
    weights = np.array([[[1, 0, 0], [0, 1, 0], [0, 1, 0]]], dtype=np.float32)
    record = AttentionRecord(text, text, {"layer": weights})
    assert record.is_causal
    np.testing.assert_allclose(record.glance(), [0, 0.5, 0.5])


def models():
    tiny = {"vocab_size": len(WORDS), "attn_implementation": "eager"}
    text = word_piece()
    return {
        "encoder": (transformers.BertModel(transformers.BertConfig(**{**BERT, **tiny})), text),
        "classifier": (
            transformers.BertForSequenceClassification(
                transformers.BertConfig(**{**BERT, **tiny}, num_labels=3)
            ),
            text,
        ),
        "decoder": (
            transformers.GPT2LMHeadModel(transformers.GPT2Config(**{**GPT2, **tiny})),
            text,
        ),
        "translator": (
            transformers.MarianMTModel(transformers.MarianConfig(**{**BART, **tiny})),
            text,
        ),
        "images": (
            transformers.ViTForImageClassification(
                transformers.ViTConfig(**IMAGE, num_labels=3, attn_implementation="eager")
            ),
            image_processor(),
        ),
    }


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=[pytest.mark.slow] * (kind in ("decoder", "encoder")))
        for kind in ("encoder", "classifier", "decoder", "translator", "images")
    ],
)
def test_models_of_transformers_are_measured(kind):
    model, processor = models()[kind]
    inputs = TEXTS
    if kind == "images":
        noise = np.random.default_rng(0).integers(0, 255, (3, 8, 8, 3), dtype=np.uint8)
        inputs = list(map(Image.fromarray, noise))
    measures = measure_look(spread(model), processor, inputs, max_new_tokens=3)
    assert {one.score.name for one in measures.findings} == {*ALWAYS, "head_importance"}
    assert all(np.isfinite(one.score.value) for one in measures.findings)
    assert abs(measures["comprehensiveness"]) > 1e-5
    assert any(abs(row["importance"]) > 1e-5 for row in measures.heads)
    text = "\n".join(one.meaning for one in measures.findings)
    assert ("likeness of the states" in text) == (kind == "encoder")
    json.dumps(measures.as_json(), allow_nan=False)


def test_the_command_measures(tmp_path):
    """The page shows the measures and holds the same JSON as the file beside it."""
    model, processor = models()["classifier"]
    model.save_pretrained(tmp_path / "bert")
    processor.save_pretrained(tmp_path / "bert")
    out = tmp_path / "look.html"
    result = CliRunner().invoke(
        app, ["look", str(tmp_path / "bert"), *TEXTS[:2], "--measure", "--out", str(out)]
    )
    assert result.exit_code == 0, result.output
    assert "comprehensiveness|" in result.output
    saved = json.loads((tmp_path / "look-measures.json").read_text())
    assert len(saved["heads"]) == 8
    assert saved["scores"]["sufficiency"]["interval"]
    page = out.read_text()
    data = re.search(r'<script type="application/json" id="measures">(.*?)</script>', page)[1]
    assert json.loads(data) == saved
    assert "How far to trust its attention" in page
    assert html.escape(saved["scores"]["sufficiency"]["meaning"], quote=False) in html.unescape(
        page
    )
