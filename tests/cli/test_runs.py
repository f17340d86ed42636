"""show, runs and clean."""

import json
import shutil
from pathlib import Path

import pytest

import saccade as front
from saccade.cli.show import sparkline
from saccade.metrics.score import MetricScore
from saccade.tasks import BASELINE_FILE, Baseline, BaselineFile
from saccade.training.run import Run
from saccade.training.summary import ValidationScores, find_runs, summarize
from tests.cli.conftest import begin


@pytest.fixture
def place(run, pairs, tmp_path) -> Path:
    """A folder with a finished run, one that has no weights yet, a damaged one and no run."""
    folder = tmp_path / "runs"
    shutil.copytree(run, folder / "done")
    begin(folder / "begun", "reverse", pairs, weights=False)
    (folder / "old" / "damaged").mkdir(parents=True)
    (folder / "old" / "damaged" / "run.json").write_text("{")
    (folder / "notes").mkdir()
    (folder / ".hidden").mkdir()
    shutil.copy(run / "run.json", folder / ".hidden")
    return folder


def with_baseline(folder: Path, value: float) -> None:
    score = MetricScore(name="exact_match", value=value, signature="test", interval=None)
    baseline = Baseline(name="copy the source", kind="trivial", scores={"exact_match": score})
    content = BaselineFile(baselines=[baseline]).to_string()
    (folder / BASELINE_FILE).write_text(content)


def test_show_prints_what_a_run_is(saccade, place, pairs):
    done = place / "done"
    result = saccade("show", done)
    assert result.code == 0
    assert result.err == ""
    assert result.lines[0] == f"{done}: text_to_text, recipe reverse, finished"
    for part in (str(pairs), "Translator, ", " weights, ", "6 steps, ", " minutes on cpu, float32"):
        assert part in result.out
    valid = ValidationScores.read(Run(done))
    assert f"Scores on {valid.items} validation items:" in result.out
    assert "  exact_match " in result.out
    for command in (
        f'predict       saccade predict {done} "Your text"',
        f"serve         saccade serve {done}",
        f"export        saccade export {done} --to onnx OUT",
        f"train longer  saccade train reverse --data {pairs} --out {done} --resume --minutes",
    ):
        assert command in result.out


def test_show_as_json(saccade, place):
    table = json.loads(saccade("show", place / "done", "--json").out)
    assert (table["state"], table["task"], table["recipe"]) == (
        "finished",
        "text_to_text",
        "reverse",
    )
    assert table["metric"] in table["scores"]
    assert table["value"] == table["scores"][table["metric"]]["value"]
    assert table["scores"]["exact_match"]["interval"] is not None
    assert table["steps"] == table["curve"][-1]["step"] == 6
    assert table["parameters"] == sum(
        p.numel() for p in front.load(place / "done").model.parameters()
    )
    assert table["examples"]["train"] > table["examples"]["valid"] > 0
    assert table["total_bytes"] > table["model_bytes"] > 0


def test_show_reports_a_baseline_that_is_not_beaten(saccade, place):
    with_baseline(place / "done", 1.0)
    result = saccade("show", place / "done")
    assert "Baseline copy the source (trivial):\n  exact_match 100.0 %" in result.out
    assert "the model is not better than a trivial baseline" in result.out


def test_show_of_a_run_without_weights(saccade, place):
    result = saccade("show", place / "begun")
    assert "unfinished" in result.lines[0]
    assert "no weights yet" in result.out
    assert "predict" not in result.out.split("Next commands:")[1]
    assert "--resume" in result.out


@pytest.mark.parametrize("verb", ["show", "clean"])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing", "does not exist; check the path"),
        ("notes", "is not a run folder: it has no run.json"),
        ("old/damaged", "run.json is damaged"),
    ],
)
def test_raises_on_folders_that_are_not_runs_in_one_line(saccade, place, verb, name, message):
    result = saccade(verb, place / name)
    assert result.code == 2
    assert result.out == ""
    assert message in result.err
    assert len(result.err.splitlines()) == 1


def test_raises_on_a_damaged_evaluation(saccade, place):
    (place / "done" / "evaluation.json").write_text('{"metric": 1}')
    result = saccade("show", place / "done")
    assert result.code == 2
    assert "evaluation.json cannot be read: KeyError" in result.err


def test_runs_lists_finished_unfinished_and_damaged_runs(saccade, place):
    with_baseline(place / "done", 0.25)
    result = saccade("runs", place)
    assert result.code == 0
    header, begun, done, *_ = result.lines
    assert header.split()[:4] == ["run", "task", "recipe", "metric"]
    assert begun.startswith(str(place / "begun"))
    assert begun.endswith("unfinished")
    assert done.split()[:4] == [str(place / "done"), "text_to_text", "reverse", "exact_match"]
    assert "  0.25  " in done
    assert done.endswith("finished")
    assert "1 folder that cannot be read:" in result.out
    assert f"  {place / 'old' / 'damaged'}: " in result.out
    assert ".hidden" not in result.out


def test_runs_as_json(saccade, place):
    table = json.loads(saccade("runs", place, "--json").out)
    states = {Path(entry["folder"]).name: entry["state"] for entry in table["runs"]}
    assert states == {"begun": "unfinished", "done": "finished", "damaged": "damaged"}


def test_runs_of_a_folder_without_runs(saccade, tmp_path):
    assert "There are no runs in" in saccade("runs", tmp_path).out
    result = saccade("runs", tmp_path / "missing")
    assert result.code == 2
    assert "does not exist; check the path" in result.err


def test_runs_inside_runs_are_not_searched(place):
    shutil.copytree(place / "done", place / "done" / "engines" / "copy")
    assert [path.name for path in find_runs(place)] == ["begun", "done", "damaged"]


def test_an_imported_run_is_recognised(place):
    path = place / "done" / "run.json"
    about = {**json.loads(path.read_text()), "imported": "opus-mt-en-de"}
    path.write_text(json.dumps(about))
    summary = summarize(place / "done")
    assert summary.state == "imported"
    assert "--init" in summary.commands()["train further"]


def test_clean_needs_consent_and_keeps_predictions(saccade, place):
    done = place / "done"
    before = [answer.text for answer in front.load(done).predict(["a b c"])]
    result = saccade("clean", done)
    assert result.code == 2
    assert "checkpoints" in result.out
    assert "Give --yes" in result.err
    assert (done / "checkpoints").exists()
    result = saccade("clean", done, "--yes")
    assert result.code == 0
    assert result.lines[-1].startswith("removed ")
    assert not (done / "checkpoints").exists()
    assert [answer.text for answer in front.load(done).predict(["a b c"])] == before
    assert "has nothing to remove" in saccade("clean", done).out
    shown = saccade("show", done).out
    assert "finished" in shown.splitlines()[0]
    assert f"--init {done} --out OTHER" in shown


@pytest.mark.parametrize(
    ("values", "line"),
    [([1.0, 1.0], "▁▁"), ([0.0, 7.0], "▁█"), ([i / 7 for i in range(1000)], None)],
)
def test_sparkline(values, line):
    drawn = sparkline(values, width=8)
    assert drawn == (line or "▁▂▃▄▅▆▇█")
