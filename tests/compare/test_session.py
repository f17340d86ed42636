"""A comparison from end to end: what is found, what is kept, how it goes on, what is refused."""

import json
import shutil
import signal

import pytest
import torch

from saccade import compare as room
from saccade.compare import session
from saccade.compare.work import perform
from saccade.errors import DataError, RecipeError, RunError, StoppedError
from saccade.metrics import paired_bootstrap
from saccade.metrics.error_rates import exact_match_tally
from saccade.training import session as training
from saccade.training.console import Console
from tests.compare.tiny import here, place, run, undrawn
from tests.training.runs import everything, metrics, write_rows

quick = pytest.fixture(scope="module", autouse=True)(undrawn)


def refuse(job, notify):
    raise AssertionError(f"{job.name}, seed {job.seed} was done already")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Two recipes with two seeds each."""
    torch.set_num_threads(1)
    folder = place(tmp_path_factory.mktemp("whole") / "it")
    found, said = run(folder, seeds=(0, 1))
    return folder, found, said


@pytest.fixture
def copy(whole, tmp_path):
    """The same, to be changed."""
    shutil.copytree(whole[0], tmp_path / "it")
    return tmp_path / "it"


@pytest.fixture(scope="module")
def table(whole):
    return json.loads((whole[0] / "out" / "compare.json").read_text())


def test_the_json_has_everything(table, whole):
    assert (table["task"], table["split"], table["items"]) == ("text_to_text", "test", 10)
    assert (table["budget"], table["seeds"]) == ("6 steps", [0, 1])
    assert (table["metric"], table["failed"]) == ("exact_match", [])
    assert table["summary"] == whole[1].summary()
    assert [each["name"] for each in table["recipes"]] == ["looks", "plain"]
    for each in table["recipes"]:
        metric = each["metrics"]["exact_match"]
        assert metric["mean"] == pytest.approx(sum(metric["by_seed"].values()) / 2)
        assert metric["signature"].startswith("nrefs:1|bs:100|seed:12345")
        assert each["parameters"] > 100
        assert sum(bucket["count"] for bucket in each["by_length"]) == 10
        for seed in ("0", "1"):
            trained, answering = each["training"][seed], each["answering"][seed]
            assert (trained["steps"], trained["ended"]) == (6, "all 6 steps are done")
            assert trained["tokens_per_second"] > 0
            assert trained["peak_memory"] > 50e6
            assert trained["epochs"] > 0
            assert answering["latency_seconds"] > 0
            assert answering["inputs_per_second"] > 0
            assert [record["step"] for record in each["curves"][seed]] == [4, 6]
    best = next(each for each in table["recipes"] if each["name"] == table["best"])
    assert best["against_best"] == {}
    assert table["recipes"][0]["against_first"] == {}
    assert "verdict" in table["recipes"][1]["against_first"]["exact_match"]


def test_the_same_inputs_are_answered_by_all(table):
    assert len(table["samples"]) == 4
    for sample in table["samples"]:
        assert sample["references"] == [" ".join(reversed(sample["input"].split()))]
        looks, plain = (sample["answers"][name]["attention"] for name in ("looks", "plain"))
        assert plain is None
        assert looks["read"][:-1] == sample["input"].split()
        assert [sum(row) for row in looks["weights"]] == pytest.approx(
            [1.0] * len(looks["wrote"]), abs=1e-2
        )


def test_scores_and_verdicts_are_those_of_evaluate_and_of_the_paired_bootstrap(whole):
    """One seed: what `evaluate` says of the run folder, and the bootstrap over its answers."""
    folder, _, _ = whole
    found, _ = run(folder, perform=refuse)
    tallies = {}
    for each in found.contenders:
        told = training.assess(
            training.load(folder / "out" / "runs" / f"{each.name}-0"), data=folder / "data"
        )
        assert each.qualities["exact_match"].mean == told.values()["exact_match"]
        assert each.qualities["exact_match"].interval == told.scores["exact_match"].interval
        references = [item.references for item in told.items]
        tallies[each.name] = exact_match_tally(told.answers, references)
    one, other = tallies["looks"], tallies["plain"]
    direct = paired_bootstrap(other.counts, one.counts, one.value, samples=100)
    looks, plain = found.contenders
    verdict = room.comparison.against(plain, looks)["exact_match"]
    assert (verdict.gain, verdict.interval, verdict.p_value) == (
        direct.difference,
        direct.interval,
        direct.p_value,
    )


def test_progress_says_what_is_left(whole):
    said = "\n".join(whole[2])
    assert "training 1 of 4: looks, seed 0" in said
    assert "training 2 of 4: plain, seed 0" in said  # all recipes once, before the next seed
    assert "3 of 4 left, about" in said
    assert "none left" in said


def test_what_is_done_is_not_done_again(copy):
    before = everything(copy / "out" / "runs")
    _, said = run(copy, seeds=(0, 1), perform=refuse)
    assert "4 of 4 trainings are done already" in said
    assert everything(copy / "out" / "runs") == before


@pytest.mark.slow
def test_more_recipes_and_seeds_are_added(copy):
    done = []

    def note(job, notify):
        done.append((job.name, job.seed))
        here(job, notify)

    both = ("looks={folder}/tiny.toml", "wide={folder}/tiny.toml")
    found, said = run(copy, *both, changes=["wide:model.dim=20"], seeds=(0, 2), perform=note)
    assert done == [("wide", 0), ("looks", 2), ("wide", 2)]
    assert "not compared this time: plain; what was trained of it is kept" in said
    assert "new in this comparison: wide" in said
    assert [each.name for each in found.contenders] == ["looks", "wide"]
    assert (copy / "out" / "runs" / "plain-0" / "model.safetensors").exists()


@pytest.mark.slow
def test_a_larger_budget_goes_on(copy):
    found, said = run(copy, max_steps=8)
    assert "looks goes on: training.max_steps was 6, is 8" in said
    assert {each.measured[0].training.steps for each in found.contenders} == {8}
    assert "resuming from step" not in said  # of the training itself, which has another screen
    steps = [line["step"] for line in metrics(copy / "out" / "runs" / "looks-0")]
    assert steps == sorted(steps)  # what was done was not done again


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"changes": ["looks:model.dim=20"]}, "looks was another recipe .*model.dim was 12, is 20"),
        ({"changes": ["metrics.lowercase=true"]}, "metrics.lowercase was False, is True"),
        ({"max_steps": 5}, "budget of looks was larger .*max_steps was 6, is 5"),
        ({"minutes": 5.0, "max_steps": 6}, "budget of looks was larger .*minutes was None"),
    ],
)
def test_another_plan_is_refused_in_plain_words(copy, change, said):
    before = everything(copy / "out")
    with pytest.raises(RunError, match=said):
        run(copy, perform=refuse, **change)
    assert everything(copy / "out") == before


def test_other_data_is_refused_wherever_it_lies(copy):
    shutil.copytree(copy / "data", copy / "same")
    run(copy, data=copy / "same", seeds=(0, 1), perform=refuse)
    write_rows(copy / "data" / "test.tsv", 9, 77)
    with pytest.raises(RunError, match=r"compares other data .*: test differs"):
        run(copy, perform=refuse)


def test_stopped_in_the_middle_it_goes_on_to_the_same_end(whole, tmp_path):
    """As by Ctrl-C in the second training: it saves, and the next call ends as if nothing was."""
    folder = place(tmp_path / "it")

    class Impatient(Console):
        def updated(self, progress, update):
            if progress.step == 4:
                signal.raise_signal(signal.SIGINT)
            return super().updated(progress, update)

    def impatient(job, notify):
        perform(job, Impatient(quiet=True) if job.name == "plain" else Console(quiet=True))

    with pytest.raises(StoppedError, match="everything is saved"):
        run(folder, perform=impatient)
    assert not (folder / "out" / "compare.html").exists()
    found, said = run(folder)
    assert "1 of 2 trainings are done already" in said
    for name in ("looks-0", "plain-0"):
        mine, theirs = (each / "out" / "runs" / name for each in (folder, whole[0]))
        assert metrics(mine) == metrics(theirs)
        assert (mine / "model.safetensors").read_bytes() == (
            theirs / "model.safetensors"
        ).read_bytes()
    for mine, theirs in zip(found.contenders, whole[1].contenders, strict=True):
        assert mine.measured[0].scores == theirs.measured[0].scores


@pytest.mark.slow
def test_stopped_while_measuring_nothing_is_trained_again(copy, monkeypatch):
    (copy / "out" / "measured" / "looks-1" / "measured.json").unlink()
    monkeypatch.setattr(training, "train", lambda *_, **__: pytest.fail("trained again"))
    found, said = run(copy, seeds=(0, 1))
    assert "3 of 4 trainings are done already" in said
    assert found.contenders[0].measured.keys() == {0, 1}


def test_one_that_fails_does_not_lose_the_others(tmp_path):
    folder = place(tmp_path / "it")
    recipes = ("good={folder}/tiny.toml", "bad={folder}/tiny.toml")
    found, said = run(folder, *recipes, changes=["bad:training.learning_rate=1e30"])
    ((name, seed, why),) = found.failures
    assert (name, seed) == ("bad", 0)
    assert "training stops before it changes the weights" in why
    assert any(line.startswith("bad, seed 0: failed: at step") for line in said)
    assert found.summary().startswith("good has exact match 0 [0, 0] on 10 items of test; there is")
    table = json.loads((folder / "out" / "compare.json").read_text())
    assert table["failed"] == [{"name": "bad", "seed": 0, "reason": why}]
    page = (folder / "out" / "compare.html").read_text()
    assert "Did not come to their end" in page
    assert why in page


def test_all_that_fail(tmp_path):
    folder = place(tmp_path / "it")
    found, _ = run(folder, "{folder}/tiny.toml", changes=["training.learning_rate=1e30"])
    assert found.summary() == "No training came to its end."
    table = json.loads((folder / "out" / "compare.json").read_text())
    assert "recipes" not in table
    assert "No training came to its end." in (folder / "out" / "compare.html").read_text()


def test_without_a_test_split_it_is_the_validation_split_and_that_is_said(tmp_path):
    folder = place(tmp_path / "it")
    (folder / "data" / "test.tsv").unlink()
    found, _ = run(folder, "{folder}/tiny.toml")
    assert (found.some.split, found.some.items) == ("valid", 12)
    assert "There is no test split" in (folder / "out" / "compare.html").read_text()


def test_mistakes(tmp_path):
    folder = place(tmp_path / "it")
    for options, error, said in (
        ({"seeds": ()}, RecipeError, "seeds must be different from each other, at least 1"),
        ({"seeds": (1, 1)}, RecipeError, "seeds must be different"),
        ({"data": folder / "no"}, DataError, "does not exist"),
        ({"out": "data"}, RunError, "is not empty .* and no comparison"),
        ({"out": "tiny.toml"}, RunError, "is a file"),
    ):
        with pytest.raises(error, match=said):
            run(folder, perform=refuse, **options)


def test_a_damaged_measurement_is_named(copy):
    (copy / "out" / "measured" / "looks-0" / "measured.json").write_text("{")
    with pytest.raises(RunError, match=r"measured.json is damaged .*remove it"):
        run(copy, perform=refuse)


def test_a_second_process_is_refused(copy):
    with (
        session.Folder(copy / "out").locked(),
        pytest.raises(RunError, match="another process"),
    ):
        run(copy, perform=refuse)
