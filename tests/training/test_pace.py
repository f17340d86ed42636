"""When training validates and when it ends, unless the recipe sets `validate_every`."""

import dataclasses
import math
from types import SimpleNamespace

import pytest
import torch

from saccade.data.sources import open_corpus
from saccade.training import checkpoint, loop, report, session
from saccade.training.console import Console
from saccade.training.loop import GENERATED, READ, VALIDATED, Trainer, spread, validation_interval
from saccade.training.progress import TAIL
from saccade.training.recipe import TrainingConfig
from saccade.training.report import rehearse_report
from saccade.training.run import Run
from tests.training.runs import everything, metrics, outcome, train, write_rows

AUTOMATIC = "training.validate_every=0"


class Clock:
    """A clock on which an update takes a second, a validation `validation` and a report `report`.

    `rehearsals` has the times at which the report was rehearsed, which takes an eighth of its time.
    Updates compute no gradients, since only their times matter.
    """

    def __init__(self, patch, validation, report=0.0):
        self.now, self.validation, self.validations = 0.0, validation, 0
        update, measure, seconds = Trainer.update, Trainer.measure, self

        def updated(self, progress):
            seconds.now += 1.0
            return update(self, progress)

        def measured(self, progress):
            seconds.now += seconds.validation
            seconds.validations += 1
            return measure(self, progress)

        def backward(self, assigned, read):
            for weight in self.task.model.parameters():
                weight.grad = torch.zeros_like(weight)
            return 1.0, 1.0

        self.rehearsals = []

        def rehearsed(*_):
            seconds.rehearsals.append(seconds.now)
            seconds.now += report / 8
            return report

        # the time of the preparation is what a test passes as `elapsed`
        patch.setattr(session, "time", SimpleNamespace(monotonic=lambda: 0.0))
        patch.setattr(session, "rehearse_report", rehearsed)
        patch.setattr(Trainer, "backward", backward)
        patch.setattr(Trainer, "update", updated)
        patch.setattr(Trainer, "measure", measured)
        patch.setattr(Trainer, "seconds", lambda self: seconds.now)


def test_minutes_are_validated_fifty_times(place, monkeypatch):
    clock = Clock(monkeypatch, validation=0.0)
    train(place, "run", AUTOMATIC, "training.validate_items=0", "training.select_by=loss",
          "training.average.kind=none", minutes=3.0, max_steps=10**6, elapsed=None)  # fmt: skip
    assert 45 <= clock.validations <= 50
    assert clock.now == pytest.approx(180, abs=1)


@pytest.mark.parametrize(
    "validation",
    [pytest.param(0.5, marks=pytest.mark.slow), 2.0, pytest.param(5.0, marks=pytest.mark.slow)],
)
def test_slow_validations_take_a_tenth_and_the_tail_stays_in_the_budget(
    place, monkeypatch, validation
):
    clock = Clock(monkeypatch, validation)
    train(place, "run", AUTOMATIC, "training.validate_items=0", "training.select_by=loss",
          minutes=2.0, max_steps=10**6)  # fmt: skip
    assert clock.validations >= 2
    # the first one comes before its cost is known, and the last one is always due
    assert (clock.validations - 2) * validation <= 0.1 * clock.now
    tail = (TAIL - 1) * validation  # calibration and report, after the last validation
    assert 0.9 * 120 <= clock.now + tail <= 1.1 * 120
    state = outcome(place / "run")["state"]
    assert state["ended"] == "the 2 minutes are over"
    rates = [line["learning_rate"] for line in metrics(place / "run") if "loss" in line]
    assert len(rates) == state["step"]


@pytest.mark.parametrize("report", [pytest.param(0.0, marks=pytest.mark.slow), 15.0])
def test_the_time_of_the_report_stays_in_the_budget(place, monkeypatch, report):
    clock = Clock(monkeypatch, 0.5, report)
    train(place, "run", AUTOMATIC, "training.validate_items=0", "training.select_by=loss",
          minutes=1.0, max_steps=10**6, elapsed=None)  # fmt: skip
    [rehearsed] = clock.rehearsals
    assert rehearsed == pytest.approx(30, abs=3)
    assert clock.now + (TAIL - 1) * 0.5 + report == pytest.approx(60, rel=0.1)
    assert everything_saved(place)["report_seconds"] == report


def test_steps_have_no_rehearsal_and_a_resumed_run_has_one(place, monkeypatch):
    clock = Clock(monkeypatch, validation=0.0, report=5.0)
    train(place, "run", AUTOMATIC, max_steps=8)
    assert clock.rehearsals == []
    options = {"max_steps": 10**6, "resume": True, "elapsed": None}
    train(place, "run", AUTOMATIC, minutes=0.5, **options)
    train(place, "run", AUTOMATIC, minutes=1.0, **options)
    assert len(clock.rehearsals) == 1


def test_a_rehearsal_estimates_a_report_and_writes_nothing(place, monkeypatch):
    train(place, "run", max_steps=4)
    run, seconds = Run(place / "run"), iter([0.0, 2.0, 2.5])
    monkeypatch.setattr(report, "monotonic", lambda: next(seconds))
    task, before = run.task(), everything(run.folder)
    corpus = open_corpus(place / "data", task.columns)
    items = list(task.items(corpus.splits["valid"]))  # 12 of them, of which 3 are measured
    assert rehearse_report(run, task, items, []) == 4 * 2.0 + 0.5
    assert everything(run.folder) == before


def test_a_validation_that_outlasts_the_budget_ends_the_training(place, monkeypatch):
    clock = Clock(monkeypatch, validation=600.0)
    train(place, "run", AUTOMATIC, minutes=1.0, max_steps=10**6)
    assert clock.validations == 1
    before = everything_saved(place)
    train(place, "run", AUTOMATIC, minutes=1.0, max_steps=10**6, resume=True)
    assert everything_saved(place) == before


def test_the_minutes_include_the_preparation(place, monkeypatch):
    clock = Clock(monkeypatch, validation=0.0)
    options = {"minutes": 2.0, "max_steps": 10**6}
    changes = (AUTOMATIC, "training.validate_items=0", "training.select_by=loss")
    train(place, "run", *changes, elapsed=30.0, **options)
    assert clock.now == pytest.approx(90, abs=1)
    assert everything_saved(place)["prepared"] == 30.0
    clock.now = 0.0
    train(place, "apart", *changes, elapsed=None, **options)
    assert clock.now == pytest.approx(120, abs=1)


def test_the_preparation_is_not_part_of_the_updates(place, monkeypatch):
    now = [5.0]
    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(
        session, "measure_baselines", lambda *_, **__: now.append(now.pop() + 99) or []
    )
    train(place, "run", max_steps=2)
    assert now == [104.0]
    assert everything_saved(place)["seconds"] == 0.0


def test_a_long_preparation_leaves_half_of_the_minutes(place, monkeypatch, capsys):
    clock = Clock(monkeypatch, validation=0.0)
    train(place, "run", AUTOMATIC, "training.validate_items=0", "training.select_by=loss",
          minutes=1.0, max_steps=10**6, elapsed=500.0, console=Console())  # fmt: skip
    assert clock.now == pytest.approx(30, abs=1)
    assert "preparing the data took 50" in capsys.readouterr().err


def everything_saved(place):
    return checkpoint.newest(place / "run" / "checkpoints").state


def test_the_learning_rate_falls_to_its_end_when_updates_end(place, monkeypatch):
    Clock(monkeypatch, validation=4.0)
    train(place, "run", AUTOMATIC, "training.optim.schedule=linear", "training.optim.warmup=1",
          "training.validate_items=0", "training.select_by=loss",
          minutes=2.0, max_steps=10**6)  # fmt: skip
    rates = [line["learning_rate"] for line in metrics(place / "run") if "loss" in line]
    assert rates[-1] < 0.03 * rates[0]


def test_the_interval_in_steps_follows_the_sizes_and_no_clock(place, monkeypatch):
    fits = []
    monkeypatch.setattr(Trainer, "fit", lambda self: fits.append(self) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        train(place, "run", AUTOMATIC, max_steps=100)
    [trainer] = fits
    task, data = trainer.task, trainer.data
    tokens = 12 * READ + 8 * GENERATED  # 12 examples are read, for 8 of them text is generated
    example = task.sizes(data.valid).sum() / 12
    update = task.sizes(data.train).sum() / data.plan.per_epoch * data.plan.size
    interval = math.ceil(9 * tokens * example / update)
    assert trainer.config.validate_every == interval > 2
    for steps, expected in {100_000: 2000, 0: interval}.items():
        config = TrainingConfig(max_steps=steps)
        assert validation_interval(config, data, task) == expected
    silent = dataclasses.replace(data, items=[])
    assert validation_interval(TrainingConfig(max_steps=0), silent, task) < interval
    assert validation_interval(TrainingConfig(validate_every=7), data, task) == 7


def test_a_large_validation_set_is_sampled_unless_it_is_set_by_hand(place, monkeypatch):
    write_rows(place / "data" / "valid.tsv", VALIDATED + 500, 3)
    trainers = []
    monkeypatch.setattr(Trainer, "fit", lambda self: trainers.append(self) or 1 / 0)
    for change in (AUTOMATIC, "training.validate_every=3"):
        with pytest.raises(ZeroDivisionError):
            train(place, "run", change)
    assert [len(trainer.validated) for trainer in trainers] == [VALIDATED, VALIDATED + 500]
    assert len(trainers[0].data.valid) == VALIDATED + 500
    assert trainers[0].validated[-1] > VALIDATED + 400


def test_spread_covers_all_values():
    assert spread("abcdef", 3) == ["a", "c", "e"]
    assert spread("abc", 9) == ["a", "b", "c"]
    assert spread("abc", 0) == spread("", 3) == []
