"""A comparison from end to end: results, files, resuming, and errors."""

import json
import shutil
import signal

import pytest
import torch

from saccade.compare.comparison import verdicts_of
from saccade.compare.folder import ComparisonFolder
from saccade.compare.training_job import perform
from saccade.data import sources
from saccade.errors import DataError, RecipeError, RunError, StoppedError
from saccade.metrics import paired_bootstrap
from saccade.metrics.error_rates import exact_match_tally
from saccade.training import recipe as recipes
from saccade.training import session as training
from saccade.training.console import Console, TrainingBar
from tests.compare.tiny import perform_here, place, run, undrawn
from tests.training.runs import everything, metrics, write_rows

quick = pytest.fixture(scope="module", autouse=True)(undrawn)


def fail(job, notify):
    raise AssertionError(f"{job.name}, seed {job.seed} was complete already")


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    """Two recipes with two seeds each."""
    torch.set_num_threads(1)
    folder = place(tmp_path_factory.mktemp("complete") / "it")
    return folder, *run(folder, seeds=(0, 1))


@pytest.fixture
def copy(complete, tmp_path):
    """A copy of it that a test may change."""
    shutil.copytree(complete[0], tmp_path / "it")
    return tmp_path / "it"


@pytest.fixture(scope="module")
def table(complete):
    return json.loads((complete[0] / "out" / "compare.json").read_text())


def test_json_has_all_results(table, complete):
    assert (table["task"], table["split"], table["items"]) == ("text_to_text", "test", 10)
    assert (table["budget"], table["seeds"]) == ("6 steps", [0, 1])
    assert (table["metric"], table["failed"]) == ("exact_match", [])
    assert table["summary"] == complete[1].summary()
    assert [recipe["name"] for recipe in table["recipes"]] == ["looks", "plain"]
    for recipe in table["recipes"]:
        metric = recipe["metrics"]["exact_match"]
        assert metric["mean"] == pytest.approx(sum(metric["by_seed"].values()) / 2)
        assert metric["signature"].startswith("nrefs:1|bs:100|seed:12345")
        assert recipe["parameters"] > 100
        assert sum(bucket["count"] for bucket in recipe["by_length"]) == 10
        for seed in ("0", "1"):
            trained, answering = recipe["training"][seed], recipe["answering"][seed]
            assert (trained["steps"], trained["ended"]) == (6, "all 6 steps are done")
            assert trained["tokens_per_second"] > 0
            assert trained["peak_memory"] > 50e6
            assert trained["epochs"] > 0
            assert answering["latency_seconds"] > 0
            assert answering["inputs_per_second"] > 0
            assert [record["step"] for record in recipe["curves"][seed]] == [4, 6]
    best = next(recipe for recipe in table["recipes"] if recipe["name"] == table["best"])
    assert best["against_best"] == {}
    assert table["recipes"][0]["against_first"] == {}
    assert "verdict" in table["recipes"][1]["against_first"]["exact_match"]


def test_all_recipes_predict_the_same_inputs(table):
    assert len(table["samples"]) == 4
    for sample in table["samples"]:
        assert sample["references"] == [" ".join(reversed(sample["input"].split()))]
        looks, plain = (sample["answers"][name]["attention"] for name in ("looks", "plain"))
        assert plain is None
        assert looks["read"][:-1] == sample["input"].split()
        assert [sum(row) for row in looks["weights"]] == pytest.approx(
            [1.0] * len(looks["wrote"]), abs=1e-2
        )


def test_scores_equal_evaluate_and_verdicts_equal_paired_bootstrap(complete):
    """One seed: `evaluate` of the run folder, and the bootstrap over its answers."""
    folder, _, _ = complete
    comparison, _ = run(folder, perform=fail)
    tallies = {}
    for contender in comparison.contenders:
        evaluation = training.assess(
            training.load(folder / "out" / "runs" / f"{contender.name}-0"), data=folder / "data"
        )
        assert contender.qualities["exact_match"].mean == evaluation.values()["exact_match"]
        assert (
            contender.qualities["exact_match"].interval == evaluation.scores["exact_match"].interval
        )
        references = [item.references for item in evaluation.items]
        tallies[contender.name] = exact_match_tally(evaluation.answers, references)
    one, other = tallies["looks"], tallies["plain"]
    direct = paired_bootstrap(other.counts, one.counts, one.value, samples=100)
    looks, plain = comparison.contenders
    verdict = verdicts_of(plain, looks)["exact_match"]
    assert (verdict.gain, verdict.interval, verdict.p_value) == (
        direct.difference,
        direct.interval,
        direct.p_value,
    )


def test_progress_reports_what_is_left(complete):
    lines = "\n".join(complete[2])
    assert "training 1 of 4: looks, seed 0" in lines
    assert "training 2 of 4: plain, seed 0" in lines  # all recipes once, before the next seed
    assert "3 of 4 left, about" in lines
    assert "none left" in lines


def test_complete_trainings_are_not_repeated(copy):
    before = everything(copy / "out" / "runs")
    _, lines = run(copy, seeds=(0, 1), perform=fail)
    assert "4 of 4 training runs are complete already" in lines
    assert everything(copy / "out" / "runs") == before


@pytest.mark.slow
def test_recipes_and_seeds_can_be_added(copy):
    done = []

    def note(job, notify):
        done.append((job.name, job.seed))
        perform_here(job, notify)

    both = ("looks={folder}/tiny.toml", "wide={folder}/tiny.toml")
    comparison, lines = run(copy, *both, changes=["wide:model.dim=20"], seeds=(0, 2), perform=note)
    assert done == [("wide", 0), ("looks", 2), ("wide", 2)]
    assert "not compared this time: plain; their training runs are kept" in lines
    assert "new in this comparison: wide" in lines
    assert [contender.name for contender in comparison.contenders] == ["looks", "wide"]
    assert (copy / "out" / "runs" / "plain-0" / "model.safetensors").exists()


@pytest.mark.slow
def test_larger_budget_resumes(copy):
    comparison, lines = run(copy, max_steps=8)
    assert "resuming looks: training.max_steps was 6, is 8" in lines
    assert {contender.measured[0].training.steps for contender in comparison.contenders} == {8}
    steps = [line["step"] for line in metrics(copy / "out" / "runs" / "looks-0")]
    assert steps == sorted(steps)  # no step was repeated


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"changes": ["looks:model.dim=20"]}, "looks was another recipe .*model.dim was 12, is 20"),
        ({"changes": ["metrics.lowercase=true"]}, "metrics.lowercase was False, is True"),
        ({"max_steps": 5}, "budget of looks was larger .*max_steps was 6, is 5"),
        ({"minutes": 5.0, "max_steps": 6}, "budget of looks was larger .*minutes was None"),
    ],
)
def test_raises_on_another_plan_without_changing_files(copy, change, message):
    before = everything(copy / "out")
    with pytest.raises(RunError, match=message):
        run(copy, perform=fail, **change)
    assert everything(copy / "out") == before


def test_raises_on_other_data_and_accepts_the_same_data_elsewhere(copy):
    shutil.copytree(copy / "data", copy / "same")
    run(copy, data=copy / "same", seeds=(0, 1), perform=fail)
    write_rows(copy / "data" / "test.tsv", 9, 77)
    with pytest.raises(RunError, match=r"compares other data .*: test differs"):
        run(copy, perform=fail)


def test_interrupted_comparison_resumes_to_the_same_result(complete, tmp_path, monkeypatch):
    """Ctrl-C in the second training saves; the next call ends as if nothing had happened."""
    folder = place(tmp_path / "it")

    def interrupting(bar, progress, update):
        if progress.step == 4:
            signal.raise_signal(signal.SIGINT)
        return updated(bar, progress, update)

    def interrupted(job, notify):
        with monkeypatch.context() as patch:
            if job.name == "plain":
                patch.setattr(TrainingBar, "updated", interrupting)
            perform(job, Console(quiet=True))

    updated = TrainingBar.updated
    with pytest.raises(StoppedError, match="everything is saved"):
        run(folder, perform=interrupted)
    assert not (folder / "out" / "compare.html").exists()
    comparison, lines = run(folder)
    assert "1 of 2 training runs are complete already" in lines
    for name in ("looks-0", "plain-0"):
        mine, theirs = (root / "out" / "runs" / name for root in (folder, complete[0]))
        assert metrics(mine) == metrics(theirs)
        assert (mine / "model.safetensors").read_bytes() == (
            theirs / "model.safetensors"
        ).read_bytes()
    for mine, theirs in zip(comparison.contenders, complete[1].contenders, strict=True):
        assert mine.measured[0].scores == theirs.measured[0].scores


@pytest.mark.slow
def test_nothing_is_trained_again_after_an_interrupted_measurement(copy, monkeypatch):
    (copy / "out" / "measured" / "looks-1" / "measured.json").unlink()
    monkeypatch.setattr(training, "train", lambda *_, **__: pytest.fail("trained again"))
    comparison, lines = run(copy, seeds=(0, 1))
    assert "3 of 4 training runs are complete already" in lines
    assert comparison.contenders[0].measured.keys() == {0, 1}


def test_failed_training_does_not_lose_the_others(tmp_path):
    folder = place(tmp_path / "it")
    recipes = ("good={folder}/tiny.toml", "bad={folder}/tiny.toml")
    comparison, lines = run(folder, *recipes, changes=["bad:training.learning_rate=1e30"])
    ((name, seed, why),) = comparison.failures
    assert (name, seed) == ("bad", 0)
    assert "training stops before the" in why
    assert any(line.startswith("bad, seed 0: failed: at step") for line in lines)
    assert "good has 0 [0, 0] on 10 items of test, and the trivial" in comparison.summary()
    table = json.loads((folder / "out" / "compare.json").read_text())
    assert table["failed"] == [{"name": "bad", "seed": 0, "reason": why}]
    page = (folder / "out" / "compare.html").read_text()
    assert "Failed training runs" in page
    assert why in page


def test_page_and_json_are_written_if_all_trainings_fail(tmp_path):
    folder = place(tmp_path / "it")
    comparison, _ = run(folder, "{folder}/tiny.toml", changes=["training.learning_rate=1e30"])
    assert comparison.summary() == "No training was completed."
    table = json.loads((folder / "out" / "compare.json").read_text())
    assert "recipes" not in table
    assert "No training was completed." in (folder / "out" / "compare.html").read_text()


def test_validation_split_is_used_without_a_test_split(tmp_path):
    folder = place(tmp_path / "it")
    (folder / "data" / "test.tsv").unlink()
    comparison, _ = run(folder, "{folder}/tiny.toml")
    assert (comparison.split, comparison.items) == ("valid", 12)
    assert "The data has no test split" in (folder / "out" / "compare.html").read_text()


def test_all_runs_hold_out_the_same_rows_of_a_file(tmp_path):
    folder = place(tmp_path / "it")
    data = folder / "data" / "train.tsv"
    comparison, lines = run(folder, "{folder}/tiny.toml", data=data, valid_fraction=0.3)
    columns = recipes.load(folder / "tiny.toml").options.columns
    valid = sources.open_corpus(data, columns, valid_fraction=0.3).splits["valid"]
    assert comparison.items == len({row.values[0] for row in valid})
    assert f"Held out for validation: {valid.count()} of" in lines[0]
    assert ComparisonFolder(folder / "out").split_rule() == "stratified"
    plan = folder / "out" / "plan.toml"
    old = [line for line in plan.read_text().splitlines() if not line.startswith("split_rule")]
    plan.write_text("\n".join(old))
    assert ComparisonFolder(folder / "out").split_rule() == "hash"


def test_raises_on_invalid_options(tmp_path):
    folder = place(tmp_path / "it")
    for options, error, message in (
        ({"seeds": ()}, RecipeError, "seeds must be one or more different numbers"),
        ({"seeds": (1, 1)}, RecipeError, "seeds must be one or more different"),
        ({"data": folder / "no"}, DataError, "does not exist"),
        ({"out": "data"}, RunError, "is not empty .* and not a comparison"),
        ({"out": "tiny.toml"}, RunError, "a file has this name"),
    ):
        with pytest.raises(error, match=message):
            run(folder, perform=fail, **options)


def test_raises_on_damaged_measurements(copy):
    (copy / "out" / "measured" / "looks-0" / "measured.json").write_text("{")
    with pytest.raises(RunError, match=r"measured.json is damaged .*remove it"):
        run(copy, perform=fail)


def test_raises_if_another_process_uses_the_folder(copy):
    with (
        ComparisonFolder(copy / "out").locked(),
        pytest.raises(RunError, match="another process"),
    ):
        run(copy, perform=fail)
