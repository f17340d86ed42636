"""Exports of recipes: which formats can express them, advice about those that cannot, and cards."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
import yaml
from PIL import Image

from saccade import recipes
from saccade.errors import InteropError
from saccade.interop.export import CHECKS, FORMATS, export_task, formats_of
from saccade.interop.huggingface.task_export import require_exportable
from saccade.interop.model_card import CARD, CardFacts, model_card
from saccade.metrics.score import MetricScore
from saccade.tasks import Baseline
from tests.tiny_recipes import NAMES, tiny
from tools import make_exports


def test_recipes_list_the_formats_that_can_express_them():
    """After a change, run: python tools/make_exports.py."""
    assert make_exports.FILE.read_text() == make_exports.content()
    assert list(recipes.exports()) == NAMES
    assert FORMATS.keys() == CHECKS.keys()


@pytest.fixture(scope="module")
def marian():
    torch.manual_seed(0)
    return tiny("transformer-marian").task.eval()


def test_the_marian_recipe_is_read_by_transformers(marian, tmp_path):
    export_task(marian, "huggingface", tmp_path / "out")
    model, info = transformers.AutoModelForSeq2SeqLM.from_pretrained(
        tmp_path / "out", output_loading_info=True
    )
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    assert type(model).__name__ == "MarianMTModel"
    assert {key: value for key, value in info.items() if value} == {}
    texts = ["ash bay cot", "log"]
    inputs = tokenizer(texts, padding=True, return_tensors="pt")
    batch = marian.force(texts, ["cot bay", "log"])
    assert torch.equal(inputs.input_ids, batch.source)
    theirs = model.eval()(**inputs, decoder_input_ids=batch.target[:, :-1]).logits
    ours = marian.model(batch.source, batch.target[:, :-1], batch.source_mask)
    torch.testing.assert_close(theirs, ours, rtol=1e-4, atol=1e-4)
    written = tokenizer.batch_decode(model.generate(**inputs), skip_special_tokens=True)
    assert written == [answer.text for answer in marian.predict(texts)]


@pytest.fixture(scope="module", params=["model.channels=3", "model.channels=1"])
def classifier(request):
    """A trained run's task: calibrated, with another scale for each colour."""
    torch.manual_seed(0)
    task = tiny("vit-small", request.param, "image.size=20", "model.patch_size=5").task.eval()
    torch.nn.init.normal_(task.model.head.weight)
    task.temperature = 1.7
    return task


@pytest.mark.parametrize("size", [(33, 21), (7, 50), (20, 20)])
def test_an_image_classifier_is_read_by_transformers(classifier, size, tmp_path):
    export_task(classifier, "huggingface", tmp_path / "out")
    model, info = transformers.AutoModelForImageClassification.from_pretrained(
        tmp_path / "out", output_loading_info=True
    )
    processor = transformers.AutoImageProcessor.from_pretrained(tmp_path / "out")
    assert type(model).__name__ == "ViTForImageClassification"
    assert {key: value for key, value in info.items() if value} == {}
    noise = np.random.default_rng(0).integers(0, 256, (*size, 3), np.uint8)
    if classifier.config.model.channels == 1:
        noise[:] = noise[..., :1]  # the grey value of a colour is rounded here only
    image = Image.fromarray(noise)
    theirs = model.eval()(**processor(image, return_tensors="pt")).logits.softmax(-1)[0]
    [answer] = classifier.predict([image])
    ours = torch.tensor(
        [answer.probabilities[model.config.id2label[i]] for i in range(len(theirs))]
    )
    torch.testing.assert_close(theirs, ours, rtol=1e-4, atol=1e-4)
    assert model.config.id2label[int(theirs.argmax())] == answer.text


def test_patches_that_overlap_and_images_that_are_cut_have_no_counterpart(tmp_path):
    with pytest.raises(InteropError, match=r"train with --set model\.stem=linear$"):
        require_exportable(tiny("vit-tiny").task)
    with pytest.raises(InteropError, match=r"--set image\.how=squash"):
        require_exportable(tiny("vit-small", "image.how=crop").task)


def advised(error: pytest.ExceptionInfo[InteropError]) -> list[str]:
    """Return the assignments of the advice, as a shell would pass them on."""
    words = shlex.split(str(error.value).split("train with ")[1])
    assert words[::2] == ["--set"] * (len(words) // 2)
    return words[1::2]


@pytest.mark.parametrize(
    ("name", "changes", "advice"),
    [
        (
            "transformer-tiny",
            [],
            {
                f"model.{side}.{key}"
                for side in ("encoder", "decoder")
                for key in ("norm_order=post", "position.layout=halves")
            },
        ),
        ("bert-mini", ["model.encoder.norm_order=pre"], {"model.encoder.norm_order=post"}),
        (
            "bert-mini",
            ["model.encoder.position.kind=rotary", "model.encoder.norm=rms"],
            {"model.encoder.norm=layer", "model.encoder.position.kind=learned"},
        ),
        ("gpt-mini", ["model.decoder.feed_forward=gated"], {"model.decoder.feed_forward=plain"}),
    ],
)
def test_advice_for_hugging_face_works(name, changes, advice):
    with pytest.raises(InteropError) as error:
        require_exportable(tiny(name, *changes).task)
    assignments = advised(error)
    assert set(assignments) == advice
    for i in range(len(assignments)):  # none is superfluous
        with pytest.raises(InteropError):
            require_exportable(tiny(name, *changes, *assignments[:i], *assignments[i + 1 :]).task)
    require_exportable(tiny(name, *changes, *assignments).task)


@pytest.mark.parametrize(
    "changes",
    [
        ["model.encoder.norm=batch"],
        ["model.decoder.score.kind=cosine", "model.decoder.norm_eps=0.001"],
        ["model.encoder.position.kind=complex", "model.share_embeddings=false"],
        ["model.decoder.qk_norm=true"],
    ],
)
def test_advice_for_ctranslate2_works(changes):
    with pytest.raises(InteropError) as error:
        CHECKS["ctranslate2"](tiny("transformer-tiny", *changes).task)
    fixed = tiny("transformer-tiny", *changes, *advised(error)).task
    assert "ctranslate2" in formats_of(fixed)


def test_a_model_of_another_kind_is_advised_to_use_another_recipe():
    with pytest.raises(InteropError, match=r"exported to huggingface: transformer-marian$"):
        require_exportable(tiny("rnn-attention").task)
    with pytest.raises(InteropError, match="export it to onnx instead"):
        require_exportable(tiny("caption-rnn").task)


# --- model cards

SCORES = {
    name: MetricScore(name=name, value=value, signature=f"of {name}", interval=(0.25, 0.75))
    for name, value in (("accuracy", 0.5), ("macro_f1", 0.375))
}
FACTS = CardFacts(
    name="moods",
    recipe="bert-mini",
    data='my "own" data.csv',
    examples={"train": 1200, "valid": 100},
    training="60 steps",
    metric="accuracy",
    scores=SCORES,
    items=100,
    baselines=[
        Baseline(
            name="majority class",
            kind="trivial",
            scores={"accuracy": MetricScore(name="accuracy", value=0.625, signature="")},
            items=100,
        )
    ],
)


@pytest.mark.parametrize(
    ("name", "to"),
    [
        (name, to)
        for name in ("bert-mini", "gpt-mini", "transformer-marian", "vit-tiny")
        for to in recipes.exports()[name]
    ],
)
def test_a_card_has_all_sections(name, to):
    card = model_card(tiny(name).task, to, FACTS)
    titles = re.findall(r"^## (.*)$", card, re.MULTILINE)
    assert titles == ["Training data", "Scores", "Limits", "How to use it", "Licence"]
    assert "| accuracy | 0.5 | [0.25, 0.75] | 0.625 |" in card
    assert "| macro_f1 | 0.375 | [0.25, 0.75] |  |" in card
    assert "The model is not better than a trivial baseline" in card
    assert "1,200 in train" in card
    assert card.startswith("---\n" if to == "huggingface" else "# moods\n")
    assert card.count("```") == 2


def test_the_metadata_of_a_card_is_valid(tmp_path):
    export_task(tiny("bert-mini").task, "huggingface", tmp_path / "out", facts=FACTS)
    _, head, _ = (tmp_path / "out" / CARD).read_text().split("---\n", 2)
    table = yaml.safe_load(head)
    assert table["pipeline_tag"] == "text-classification"
    assert "license" not in table
    [entry] = table["model-index"]
    [result] = entry["results"]
    assert result["dataset"]["name"] == 'my "own" data.csv'
    assert result["metrics"][0] == {"type": "accuracy", "value": 0.5}


def test_a_card_without_facts_reports_that(tmp_path):
    card = model_card(tiny("bert-mini").task, "huggingface", CardFacts(name="x"))
    assert "Not recorded." in card
    assert "Not measured." in card
    assert "model-index" not in card


def use_of(folder: Path) -> str:
    """Return the code of a card, with the folder filled in."""
    [code] = re.findall(r"```python\n(.*?)```", (folder / CARD).read_text(), re.DOTALL)
    return code.replace("path/to/this/folder", str(folder))


@pytest.mark.parametrize(
    "name", [name for name, formats in recipes.exports().items() if "huggingface" in formats]
)
def test_the_code_of_a_card_runs(name, tmp_path, capsys):
    notices: list[str] = []
    export_task(tiny(name).task, "huggingface", tmp_path / "out", notify=notices.append)
    Image.new("RGB", (40, 30), (200, 90, 10)).save(tmp_path / "photo.jpg")
    exec(use_of(tmp_path / "out").replace("photo.jpg", str(tmp_path / "photo.jpg")), {})
    assert capsys.readouterr().out
    assert notices


def test_the_export_of_a_run_carries_its_scores(tmp_path, marian):
    facts = CardFacts(name="x", scores=SCORES, metric="accuracy", items=3)
    export_task(marian, "ctranslate2", tmp_path / "out", facts=facts)
    assert "| accuracy | 0.5 |" in (tmp_path / "out" / CARD).read_text()
    assert json.loads((tmp_path / "out" / "config.json").read_text())
