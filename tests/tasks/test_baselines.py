"""Baselines of every task: equal to scikit-learn's and to those counted by hand."""

import math

import numpy as np
import pytest
from PIL import Image
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import Ridge

from saccade.data import sources
from saccade.errors import RunError
from saccade.metrics.score import MetricScore
from saccade.tasks import (
    BASELINE_FILE,
    Baseline,
    BaselineFile,
    HasBaselines,
    advice,
    language_modeling,
    measure_baselines,
    read_baselines,
    standing,
)
from saccade.tasks._shared import label_baselines
from saccade.tasks._shared.label_baselines import sampled
from saccade.training import recipe as recipes

SMALL = ["model.dim=8", "model.encoder.num_layers=1", "model.encoder.num_heads=2"]
SMALL += ["model.encoder.hidden_dim=8", "text.vocabulary.kind=token", "metrics.samples=50"]


def table(path, header, rows):
    path.write_text("\n".join("\t".join(row) for row in [header, *rows]) + "\n")


def measured(folder, recipe, changes, notify=lambda text: None):
    """Return the task of a recipe on the data of a folder, its items, and its baselines by name."""
    chosen = recipes.load(recipe, changes)
    corpus = sources.open_corpus(folder, chosen.options.columns)
    task = chosen.options.create(corpus.splits["train"])
    items = list(task.items(corpus.splits["valid"]))
    results = measure_baselines(task, corpus.splits["train"], items, split="valid", notify=notify)
    return task, items, {baseline.name: baseline for baseline in results}


def labelled(folder, train, valid):
    table(folder / "train.tsv", ("text", "label"), train)
    table(folder / "valid.tsv", ("text", "label"), valid)


WORDS = {"red": "colour", "blue": "colour", "cat": "animal", "dog": "animal", "oak": "tree"}
TRAIN = [(f"the {word} {i}", label) for word, label in WORDS.items() for i in range(6)]
VALID = [(f"a {word} 9", label) for word, label in WORDS.items()]


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    folder = tmp_path_factory.mktemp("one")
    labelled(folder, TRAIN, VALID)
    return measured(folder, "bert-mini", SMALL)


def test_majority_class_equals_dummy_classifier(one):
    _, _, baselines = one
    labels = [label for _, label in TRAIN]
    dummy = DummyClassifier(strategy="prior").fit([[0]] * len(TRAIN), labels)
    accuracy = dummy.score([[0]] * len(VALID), [label for _, label in VALID])
    trivial = baselines["majority class"]
    assert (trivial.kind, trivial.split, trivial.items) == ("trivial", "valid", 5)
    assert trivial.scores["accuracy"].value == accuracy == 0.4


def test_linear_model_learns_words(one):
    _, _, baselines = one
    simple = baselines["TF-IDF + logistic regression"]
    assert simple.kind == "simple"
    assert simple.values()["accuracy"] == 1.0
    assert simple.note == ""


def test_baselines_have_the_metrics_of_the_model(one):
    task, items, baselines = one
    model = task.evaluate(items)
    for baseline in baselines.values():
        assert baseline.scores.keys() == model.scores.keys()
        for name, score in model.scores.items():
            assert baseline.scores[name].signature == score.signature
            assert len(baseline.scores[name].resamples) == len(score.resamples) == 50


def test_without_scikit_learn_the_trivial_baseline_remains(tmp_path, monkeypatch):
    labelled(tmp_path, TRAIN, VALID)
    monkeypatch.setattr(label_baselines, "find_spec", lambda name: None)
    _, _, baselines = measured(tmp_path, "bert-mini", SMALL)
    assert list(baselines) == ["majority class"]


def test_linear_model_of_a_part_of_the_rows_reports_it(tmp_path, monkeypatch):
    labelled(tmp_path, TRAIN, VALID)
    monkeypatch.setattr(label_baselines.TextFeatures, "rows", 20)
    _, _, baselines = measured(tmp_path, "bert-mini", SMALL)
    assert baselines["TF-IDF + logistic regression"].note == "fitted to 20 of 30 rows"


class Breaking:
    """A task whose second baseline cannot be measured."""

    def __init__(self, task):
        self.task = task

    def baselines(self, train):
        yield next(iter(self.task.baselines(train)))
        raise ValueError("empty vocabulary")


def test_baseline_that_cannot_be_measured_does_not_raise(one, tmp_path):
    labelled(tmp_path, TRAIN, VALID)
    task, items, _ = one
    train = sources.open_corpus(tmp_path, task.columns).splits["train"]
    lines = []
    [result] = measure_baselines(Breaking(task), train, items, split="test", notify=lines.append)
    assert (result.name, result.split) == ("majority class", "test")
    assert lines == ["a baseline could not be measured (ValueError: empty vocabulary)"]


def test_pairs_have_features_of_both_texts(tmp_path):
    """Only the second text decides."""
    rows = [(f"x {i}", f"{word} {i}", label) for word, label in WORDS.items() for i in range(6)]
    for name in ("train", "valid"):
        table(tmp_path / f"{name}.tsv", ("text", "text_pair", "label"), rows)
    _, _, baselines = measured(tmp_path, "bert-mini", SMALL)
    assert baselines["TF-IDF + logistic regression"].values()["accuracy"] == 1.0


def test_numbers_have_the_mean_and_ridge_regression(tmp_path):
    rows = [(f"{'good ' * n}bad", f"{n + 0.5}") for n in (0, 1, 2, 3)] * 5
    labelled(tmp_path, rows, rows)
    task, items, baselines = measured(tmp_path, "bert-mini", SMALL)
    assert baselines["mean"].values()["mean_squared_error"] == pytest.approx(1.25)
    assert baselines["mean"].values()["pearson"] == 0.0
    features = label_baselines.TextFeatures()
    matrix = features.fit([item.inputs for item in items])
    truth = np.array([float(item.references[0]) for item in items])
    ridge = Ridge().fit(matrix, (truth - task.labels.mean) / task.labels.scale)
    expected = ridge.predict(matrix) * task.labels.scale + task.labels.mean
    error = float(((expected - truth) ** 2).mean())
    result = baselines["TF-IDF + ridge regression"].values()["mean_squared_error"]
    assert result == pytest.approx(error, abs=1e-3)


def test_several_labels_have_the_most_frequent_set(tmp_path):
    """{a, b} occurs 6 times in either order; c alone occurs more often in fewer spellings."""
    rows = [("left", "a,b")] * 3 + [("right", "b, a")] * 3 + [("up", "c")] * 4 + [("down", "")] * 2
    labelled(tmp_path, rows, rows)
    changes = [*SMALL, "labels.kind=several", 'metrics.names=["accuracy","micro_f1"]']
    _, _, baselines = measured(tmp_path, "bert-mini", changes)
    assert baselines["most frequent labels"].values()["accuracy"] == 6 / 12
    assert baselines["TF-IDF + logistic regression"].values()["accuracy"] >= 10 / 12


def test_pixels_separate_dark_from_bright_images(tmp_path):
    chance = np.random.default_rng(0)
    rows = []
    for number in range(12):
        bright = number % 3 == 0
        pixels = chance.integers(150 if bright else 0, 250 if bright else 100, (40, 40, 3))
        Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / f"{number}.png")
        rows.append((f"{number}.png", "bright" if bright else "dark"))
    for name in ("train", "valid"):
        table(tmp_path / f"{name}.tsv", ("image", "label"), rows)
    changes = ["image.size=40", "model.widths=[4,4]", "model.blocks=1", "metrics.samples=50"]
    _, _, baselines = measured(tmp_path, "cnn-small", changes)
    assert baselines["majority class"].values()["accuracy"] == 8 / 12
    assert baselines["pixels + logistic regression"].values()["accuracy"] == 1.0


PAIR_CHANGES = ["model.dim=8", "model.encoder.dim=4", "text.source.kind=token"]
PAIR_CHANGES += ['metrics.names=["exact_match"]', "metrics.samples=50"]


def test_pairs_have_the_most_frequent_output_and_a_copy(tmp_path):
    train = [("a b", "x"), ("b c", "x"), ("c", "c"), ("d", " ")]
    table(tmp_path / "train.tsv", ("source", "target"), train)
    table(tmp_path / "valid.tsv", ("source", "target"), [("a", "x"), ("c", "c"), ("c d", "c d")])
    task, items, baselines = measured(tmp_path, "rnn", PAIR_CHANGES)
    assert {name: b.values()["exact_match"] for name, b in baselines.items()} == {
        "most frequent output": pytest.approx(1 / 3),
        "copy of the input": pytest.approx(2 / 3),
    }
    best = standing(task.evaluate(items).scores, baselines.values(), "exact_match")
    assert best.baseline.name == "copy of the input"


def test_captions_have_the_most_frequent_caption_and_no_copy(tmp_path):
    for number in range(4):
        Image.new("RGB", (8, 8), (number * 60, 0, 0)).save(tmp_path / f"{number}.png")
    captions = ["a dog", "a cat", "a dog", "a bird"]
    rows = [(f"{number}.png", text) for number, text in enumerate(captions)]
    for name in ("train", "valid"):
        table(tmp_path / f"{name}.tsv", ("image", "text"), rows)
    changes = ["image.size=16", "model.encoder.kind=resnet", "model.encoder.widths=[4,8]"]
    changes += ["model.encoder.blocks=1", "model.encoder.stem_stride=1", "model.dim=8"]
    changes += ["model.encoder.dim=8", "model.decoder.dim=8", "text.vocabulary.min_count=1"]
    changes += ['metrics.names=["exact_match"]', "metrics.samples=50"]
    _, _, baselines = measured(tmp_path, "caption-attention", changes)
    assert {name: b.values() for name, b in baselines.items()} == {
        "most frequent output": {"exact_match": 0.5}
    }


LINES = [f"the {a} {b} is {c}" for a in ("old", "new") for b in "abcde" for c in ("up", "down")]
DECODER = ["model.dim=8", "model.decoder.num_layers=1", "model.decoder.num_heads=2"]
DECODER += ["model.decoder.hidden_dim=8", "text.vocabulary.kind=token", "metrics.samples=50"]


def texts(folder):
    for name in ("train", "valid"):
        (folder / f"{name}.txt").write_text("\n".join(LINES) + "\n")


def test_language_models_have_an_ngram_model_in_the_same_units(tmp_path):
    texts(tmp_path)
    task, items, baselines = measured(tmp_path, "gpt-mini", DECODER)
    [baseline] = baselines.values()
    model = task.evaluate(items, quick=True)
    assert (baseline.name, baseline.kind) == ("5-gram model", "trivial")
    assert baseline.scores.keys() == model.scores.keys()
    values = baseline.values()
    assert values["perplexity"] == pytest.approx(math.exp(values["loss"]))
    ratio = values["bits_per_character"] / values["loss"]
    expected = model.values()["bits_per_character"] / model.values()["loss"]
    assert ratio == pytest.approx(expected)
    assert values["loss"] < model.values()["loss"]


def test_ngram_model_of_a_part_of_the_text_reports_it(tmp_path, monkeypatch):
    table(tmp_path / "train.tsv", ("text",), [(line,) for line in LINES])
    table(tmp_path / "valid.tsv", ("text",), [(line,) for line in LINES])
    monkeypatch.setattr(language_modeling, "COUNTED", 20)
    monkeypatch.setattr(language_modeling, "TOGETHER", 1)
    _, _, baselines = measured(tmp_path, "gpt-mini", DECODER)
    [baseline] = baselines.values()
    assert baseline.note == "fitted to the first 25 tokens"


def test_holes_have_frequencies_and_neighbours(tmp_path):
    texts(tmp_path)
    task, items, baselines = measured(tmp_path, "bert-mini-masked", SMALL)
    frequent, neighbours = baselines["most frequent token"], baselines["neighbouring tokens"]
    assert (frequent.kind, neighbours.kind) == ("trivial", "simple")
    assert neighbours.values()["accuracy"] > frequent.values()["accuracy"] > 0
    assert neighbours.values()["loss"] < frequent.values()["loss"]
    assert frequent.scores.keys() == task.evaluate(items, quick=True).scores.keys()


def test_tasks_without_the_capability_have_no_baselines(one, tmp_path):
    labelled(tmp_path, TRAIN, VALID)
    task, items, _ = one
    train = sources.open_corpus(tmp_path, task.columns).splits["train"]
    assert measure_baselines(object(), train, items, split="valid") == []
    assert isinstance(one[0], HasBaselines)
    assert not isinstance(object(), HasBaselines)


def test_sample_of_rows_is_even_and_repeatable():
    chosen = [sampled(range(100), 10, seed) for seed in range(300)]
    assert chosen[0] == sampled(range(100), 10, 0)
    assert all(len(set(numbers)) == 10 for numbers in chosen)
    assert np.mean(chosen) == pytest.approx(49.5, abs=2)
    assert sorted(sampled(range(4), 10)) == [0, 1, 2, 3]


def score(value, resamples=(), *, name="accuracy", interval=None, higher=True):
    return MetricScore(
        name=name,
        value=value,
        signature="s",
        interval=interval,
        resamples=tuple(resamples),
        higher_is_better=higher,
    )


def baseline_of(value, resamples=(), *, higher=True, kind="trivial"):
    scores = {"accuracy": score(value, resamples, higher=higher)}
    return Baseline(name=f"method {value}", kind=kind, scores=scores, items=9)


NOISE = np.random.default_rng(1).normal(0, 0.02, 500)


@pytest.mark.parametrize(
    ("model", "beats"), [(0.9, True), (0.805, False), (0.8, False), (0.6, False)]
)
def test_model_beats_a_baseline_only_beyond_noise(model, beats):
    other = np.random.default_rng(2).normal(0, 0.02, 500)
    scores = {"accuracy": score(model, model + NOISE)}
    baselines = [baseline_of(0.2, 0.2 + other), baseline_of(0.8, 0.8 + other, kind="simple")]
    result = standing(scores, baselines, "accuracy")
    assert (result.baseline.name, result.beats) == ("method 0.8", beats)
    assert ("not" in str(result)) is not beats
    assert result.as_json()["p_value"] == result.p_value


def test_lower_is_better_for_errors():
    model = {"accuracy": score(0.1, 0.1 + NOISE, higher=False)}
    result = standing(model, [baseline_of(0.5, 0.5 + NOISE, higher=False)], "accuracy")
    assert (result.beats, result.gain) == (True, pytest.approx(0.4))


def test_without_resamples_the_interval_decides():
    def beats(model, interval):
        scores = {"accuracy": score(model, interval=interval)}
        return standing(scores, [baseline_of(0.5)], "accuracy").beats

    assert beats(0.6, (0.55, 0.65))
    assert not beats(0.6, (0.45, 0.7))
    assert beats(0.6, None)
    assert standing({"accuracy": score(0.6)}, [], "accuracy") is None
    assert standing({"other": score(0.6)}, [baseline_of(0.5)], "accuracy") is None


def test_advice_depends_on_task_and_curve(one):
    about = one[0].describe()
    longer, *rest = advice(about, pretrained=False, improving=True, epochs=9.0)
    assert "still improving" in longer
    assert any("--init" in part for part in rest)
    parts = " ".join(advice(about, pretrained=True, improving=False, epochs=9.0))
    assert "--init" not in parts
    assert "smaller recipe" in parts
    assert "0.5 times" in advice(about, pretrained=True, improving=None, epochs=0.5)[0]


def test_file_is_read_as_written(tmp_path, one):
    results = list(one[2].values())
    content = BaselineFile(baselines=results, data={"data": "x"}).to_string()
    (tmp_path / BASELINE_FILE).write_text(content)
    for before, after in zip(results, read_baselines(tmp_path), strict=True):
        assert (after.name, after.kind, after.items) == (before.name, before.kind, before.items)
        assert after.values() == before.values()
        assert after.scores["accuracy"].interval == before.scores["accuracy"].interval
    assert read_baselines(tmp_path / "nowhere") == []


@pytest.mark.parametrize("content", ["{", "[]", '{"baselines": [{}], "data": {}}'])
def test_damaged_file_raises(tmp_path, content):
    (tmp_path / BASELINE_FILE).write_text(content)
    with pytest.raises(RunError, match=r"baseline\.json cannot be read.*Delete it"):
        read_baselines(tmp_path)
