"""Comparisons of every task: metrics, predictions for samples, attention."""

import json

import numpy as np
import pytest
from PIL import Image

from saccade.training import recipe as recipes
from tests.compare.tiny import run, undrawn

quick = pytest.fixture(scope="module", autouse=True)(undrawn)
SENTENCES = [f"the {a} {b} is {c}" for a in ("old", "new") for b in "abcde" for c in ("up", "down")]
TEXT = ["text.vocabulary.kind=token", "text.vocabulary.size=40", "model.dim=16"]
READER = ["model.encoder.num_layers=1", "model.encoder.num_heads=2", "model.encoder.hidden_dim=16"]
RESNET = [
    "image.size=16",
    "model.encoder.kind=resnet",
    "model.encoder.widths=[4,8]",
    "model.encoder.blocks=1",
    "model.encoder.stem_stride=1",
]


def write(folder, header, rows):
    folder.mkdir()
    for name in ("train", "valid", "test"):
        text = "\n".join("\t".join(row) for row in ([header, *rows] if header else rows))
        (folder / f"{name}.{'tsv' if header else 'txt'}").write_text(text + "\n")


def labelled(folder):
    rows = [(text, "yes" if text.endswith("up") else "no") for text in SENTENCES]
    write(folder, ("text", "label"), rows)


def tagged(folder):
    rows = [(text, "O B-age B-thing O O") for text in SENTENCES]
    write(folder, ("words", "tags"), rows)


def paired(folder):
    rows = [(text, text[::-1], "yes" if text.endswith("up") else "no") for text in SENTENCES]
    write(folder, ("text", "text_pair", "label"), rows)


def running(folder):
    write(folder, None, [(text,) for text in SENTENCES])


def pictures(folder):
    folder.mkdir()
    chance = np.random.default_rng(0)
    for number in range(12):
        pixels = chance.integers(0, 255, (16, 16, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")


def labelled_images(folder):
    pictures(folder)
    rows = [f"{number}.png\t{'even' if number % 2 == 0 else 'odd'}" for number in range(12)]
    for name in ("train", "valid", "test"):
        (folder / f"{name}.tsv").write_text("\n".join(["image\tlabel", *rows]) + "\n")


def captioned(folder):
    pictures(folder)
    rows = [f"{number}.png\t{SENTENCES[number]}" for number in range(12)]
    for name in ("train", "valid", "test"):
        (folder / f"{name}.tsv").write_text("\n".join(["image\ttext", *rows]) + "\n")


def vectors(folder):
    folder.mkdir()
    chance = np.random.default_rng(0)
    for number in range(12):
        np.save(folder / f"{number}.npy", chance.normal(size=(3 + number, 4)))
    rows = [f"{number}.npy\t{'ab'[number % 2]}\t{SENTENCES[number]}" for number in range(12)]
    for name in ("train", "valid", "test"):
        (folder / f"{name}.tsv").write_text("\n".join(["vectors\tlabel\ttext", *rows]) + "\n")


CASES = {
    "labels": ("bert-mini", labelled, [*TEXT, *READER], "accuracy", True),
    "pairs": ("rnn-classifier", paired, [*TEXT, "model.encoder.dim=8"], "accuracy", False),
    "pooled words": (
        "rnn-attention-classifier",
        labelled,
        [*TEXT, "model.encoder.dim=8", "model.attention_pooling.queries=2"],
        "accuracy",
        True,
    ),
    "pooled regions": (
        "cnn-attention",
        labelled_images,
        ["image.size=16", "model.widths=[8,16]", "model.blocks=1"],
        "accuracy",
        True,
    ),
    "next": (
        "gpt-mini",
        running,
        [
            *TEXT,
            "model.decoder.num_layers=1",
            "model.decoder.num_heads=2",
            "model.decoder.hidden_dim=16",
            "generation.max_length=5",
        ],
        "bits_per_character",
        True,
    ),
    "holes": ("bert-mini-masked", running, [*TEXT, *READER], "loss", True),
    "images": (
        "vit-tiny",
        labelled_images,
        [*READER, "image.size=16", "model.dim=16", "model.patch_size=8"],
        "accuracy",
        True,
    ),
    "pooled steps": (
        "vector-classifier-rnn",
        vectors,
        ["model.dim=8", "model.encoder.dim=8"],
        "accuracy",
        True,
    ),
    "steps": ("vector-classifier", vectors, [*READER, "model.dim=16"], "accuracy", True),
    "spoken": (
        "vector-captioner",
        vectors,
        [
            "model.dim=8",
            "model.encoder.dim=8",
            "model.decoder.dim=8",
            "text.vocabulary.min_count=1",
            "generation.max_length=6",
            'metrics.names=["bleu"]',
        ],
        "bleu",
        True,
    ),
    "tags": ("transformer-tagger", tagged, [*TEXT, *READER], "span_f1", True),
    "without attention": (
        "cnn-small",
        labelled_images,
        ["image.size=16", "model.widths=[8,16]", "model.blocks=1", "model.stem_stride=1"],
        "accuracy",
        False,
    ),
    "captions": (
        "caption-attention",
        captioned,
        [
            *RESNET,
            "model.dim=16",
            "model.encoder.dim=16",
            "model.decoder.dim=16",
            "text.vocabulary.min_count=1",
            "generation.max_length=6",
            'metrics.names=["bleu_4"]',
        ],
        "bleu_4",
        True,
    ),
}


QUICKEST = {"labels", "next", "images", "pooled words", "pooled steps", "tags"}


@pytest.mark.parametrize(
    "case", [c if c in QUICKEST else pytest.param(c, marks=pytest.mark.slow) for c in CASES]
)
def test_task_can_be_compared(tmp_path, case):
    recipe, make, changes, metric, has_attention = CASES[case]
    make(tmp_path / "data")
    comparison, _ = run(
        tmp_path,
        recipe,
        changes=[*changes, "training.batch_tokens=256", "training.validate_items=4"],
        max_steps=2,
    )
    assert comparison.failures == []
    assert comparison.task == recipes.load(recipe).task
    table = json.loads((tmp_path / "out" / "compare.json").read_text())
    assert table["metric"] == metric
    assert metric in table["recipes"][0]["metrics"]
    assert len(table["samples"]) == min(4, table["items"])
    answers = [sample["answers"][recipe] for sample in table["samples"]]
    assert [answer["attention"] is not None for answer in answers] == [has_attention] * len(answers)
    measures = {row["measure"] for row in table["recipes"][0]["attention"]}
    # outputs with a probability
    erased = has_attention and metric in {"accuracy", "bleu", "bleu_4"}
    assert ("comprehensiveness" in measures) is erased
    page = (tmp_path / "out" / "compare.html").read_text()
    assert ("How far to trust attention" in page) is erased
    assert ('<script type="application/json" id="inputs">' in page) is has_attention
