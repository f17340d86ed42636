"""Baselines of runs: in the run folder, in the report, in evaluate, and in runs that lack them."""

import json

import pytest

from saccade.tasks import BASELINE_FILE, read_baselines
from saccade.training.baselines import DataPlace, baseline_remarks, baselines_on, next_steps
from saccade.training.learning_curve import still_improving
from saccade.training.manifest import Manifest
from saccade.training.run import Run
from tests.pages import Seen
from tests.training.runs import prepare, train

NAMES = ["most frequent output", "copy of the input"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A finished run, and its data."""
    folder = prepare(tmp_path_factory.mktemp("baselines") / "it")
    train(folder, "run")
    return folder


def on(place, data, lines, split="test"):
    """Return the baselines of the run on a split of some data."""
    run = Run(place / "run")
    task = run.task()
    corpus = DataPlace(data=str(data))
    items = list(task.items(corpus.train(task)))
    return baselines_on(run, task, items, split=split, place=corpus, notify=lines.append)


def test_training_keeps_its_baselines(place):
    baselines = read_baselines(place / "run")
    assert [baseline.name for baseline in baselines] == NAMES
    assert {(b.kind, b.split, b.items) for b in baselines} == {("trivial", "valid", 8)}
    assert BASELINE_FILE in Manifest.read(place / "run").files
    table = json.loads((place / "run" / BASELINE_FILE).read_text())
    assert table["data"]["data"] == str((place / "data").resolve())


def test_report_shows_the_model_beside_its_baselines(place):
    seen = Seen((place / "run" / "report.html").read_text(encoding="utf-8"))
    assert "Result and baselines on 8 validation items" in seen.text
    for part in ("this model", *(f"{name} (trivial baseline)" for name in NAMES)):
        assert part in seen.text
    assert "Exact match on 8 validation items" in seen.text
    assert "baseline, " in seen.text  # the verdict


def test_model_that_does_not_beat_its_baseline_gets_advice(place):
    run = Run(place / "run")
    task, baselines = run.task(), read_baselines(run.folder)
    result, lines = baseline_remarks(run, task, baselines[1].scores, baselines)
    assert not result.beats
    assert lines[0].startswith("the model is not better than a trivial baseline: exact_match")
    assert lines[1].startswith("what may help: ")
    assert any("--init" in part for part in next_steps(run, task, baselines))


def test_baselines_are_fitted_again_to_the_training_data(place):
    lines = []
    baselines = on(place, place / "data", lines)
    assert [baseline.split for baseline in baselines] == ["test", "test"]
    assert lines == []


def test_training_data_is_found_where_it_was(place, tmp_path):
    lines = []
    (tmp_path / "train.tsv").write_text("source\ttarget\na\ta\n")
    (tmp_path / "valid.tsv").write_text("source\ttarget\na\ta\n")
    [_, copy] = on(place, tmp_path, lines)
    assert (copy.split, copy.items, copy.values()["exact_match"]) == ("test", 1, 1.0)
    assert lines == []


def test_without_training_data_the_validation_scores_remain(tmp_path):
    folder = prepare(tmp_path / "it")
    train(folder, "run", "training.max_steps=2")
    (folder / "data").rename(folder / "moved")
    (folder / "moved" / "train.tsv").write_text("source\ttarget\na\ta\n")
    lines = []
    baselines = on(folder, folder / "moved", lines)
    assert [(b.name, b.split) for b in baselines] == [(name, "valid") for name in NAMES]
    assert "training data of this run was not found" in lines[0]
    (folder / "run" / BASELINE_FILE).unlink()  # as in a run of an earlier version
    assert on(folder, folder / "moved", lines) == []
    assert read_baselines(folder / "run") == []


def curve(*values, key="bleu"):
    return [{"step": 10 * (i + 1), "valid_loss": 9.0, key: v} for i, v in enumerate(values)]


def test_even_improvement_is_still_improving():
    assert still_improving(curve(1.0, 2.0, 3.0, 4.0, 5.0), "bleu", higher_is_better=True)
    falling = curve(5.0, 4.0, 3.0, 2.0, 1.0)
    assert still_improving(falling, "bleu", higher_is_better=False)
    assert still_improving(falling, "bleu", higher_is_better=True) is False


def test_flat_end_is_not_improving():
    flat = curve(1.0, 20.0, 30.0, 30.5, 31.0, 31.0)
    assert still_improving(flat, "bleu", higher_is_better=True) is False
    noisy = curve(1.0, 20.0, 30.0, 28.0, 26.0, 29.0)
    assert still_improving(noisy, "bleu", higher_is_better=True) is False


def test_start_counts_as_part_of_the_improvement():
    late = curve(0.80, 0.81, 0.82, 0.825, 0.83)
    assert still_improving(late, "bleu", higher_is_better=True)
    assert still_improving(late, "bleu", higher_is_better=True, start=0.2) is False


def test_few_validations_do_not_tell():
    assert still_improving(curve(1.0, 2.0, 3.0), "bleu", higher_is_better=True) is None


def test_validation_loss_stands_in_for_a_metric():
    losses = curve(5.0, 4.0, 3.0, 2.0, 1.0, key="valid_loss")
    assert still_improving(losses, "bleu", higher_is_better=True)
