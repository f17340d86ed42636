"""The training loop: updates, validations, the end of the budget, and what stops it."""

import json
import math
import re

import pytest
import torch

from saccade.errors import RecipeError, TrainingError
from saccade.tasks import Loss
from saccade.tasks.text_to_text import TextToText
from saccade.training import checkpoint, session
from saccade.training.interruption import Interruption
from saccade.training.loop import Trainer
from saccade.training.progress import TrainingProgress
from saccade.training.recipe import TrainingConfig
from tests.training.runs import metrics, outcome, train

STILL = ("model.encoder.dropout=0.0", "model.decoder.dropout=0.0")


class Caught(BaseException):
    pass


def trainer(place, monkeypatch, *changes, **options):
    """Return a Trainer that is ready for its first update."""
    trainers = []

    def stop(self):
        trainers.append(self)
        self.run.started()  # so that the folder is kept
        raise Caught

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "fit", stop)
        with pytest.raises(Caught):
            train(place, "run", *changes, **options)
    (ready,) = trainers
    ready.restore()
    ready.interruption = Interruption()
    return ready


@pytest.mark.parametrize(("clip", "weight"), [(0.0, 1.0), (0.05, 1.0), (0.05, 3.0)])
def test_batches_of_an_update_are_weighted_by_their_tokens(place, monkeypatch, clip, weight):
    """Examples with a weight in the loss may have gradients that are longer by it."""
    monkeypatch.setattr(TextToText, "largest_weight", weight)
    changes = ("training.optim.weight_decay=0", f"training.optim.clip={clip}")
    ready = trainer(place, monkeypatch, *STILL, *changes)
    task, before = ready.task, {n: p.detach().clone() for n, p in ready.task.named_parameters()}
    assigned = ready.data.plan.update(0)
    assert len(assigned) == 2
    losses = [task(task.collate(ready.data.train, rows)) for _, rows in assigned]
    assert losses[0].count != losses[1].count
    count = sum(loss.count for loss in losses)
    mean = sum(loss.total for loss in losses) / count
    gradients = torch.autograd.grad(mean, list(task.parameters()))
    length = math.sqrt(sum(g.square().sum().item() for g in gradients))
    shorter = min(1.0, clip * weight / length) if clip else 1.0
    assert not clip or shorter < 1.0
    _, update = ready.update(TrainingProgress())
    assert update.loss == pytest.approx(mean.item(), rel=1e-6)
    assert update.predictions == count
    assert update.gradient == pytest.approx(length, rel=1e-5)
    assert update.learning_rate == pytest.approx(0.01 / 5)
    for gradient, (name, p) in zip(gradients, task.named_parameters(), strict=True):
        assert torch.allclose(p.grad, gradient * shorter, atol=1e-7), name
        step = gradient * shorter  # Adam's first step: g / (|g| + eps)
        expected = before[name] - 0.002 * step / (step.abs() + 1e-9)
        there = step.abs() > 1e-6
        assert torch.allclose(p[there], expected[there], atol=2e-6), name


def test_dropout_depends_on_seed_and_batch_alone(place, monkeypatch):
    ready = trainer(place, monkeypatch)
    saved = [p.detach().clone() for p in ready.task.parameters()]

    def loss():
        for p, old in zip(ready.task.parameters(), saved, strict=True):
            p.data.copy_(old)
        return ready.update(TrainingProgress(step=3))[1].loss

    first = loss()
    torch.manual_seed(99)
    torch.rand(1000)
    assert loss() == first
    ready.config = TrainingConfig(seed=5)
    assert loss() != first


def test_a_nan_loss_stops_before_the_update(place, monkeypatch, capsys):
    plain, calls = TextToText.forward, [0]

    def poisoned(self, batch):
        loss = plain(self, batch)
        calls[0] += self.training
        bad = calls[0] >= 13  # two batches per update: in update 7
        return Loss(loss.total * float("nan"), loss.count) if bad else loss

    monkeypatch.setattr(TextToText, "forward", poisoned)
    with pytest.raises(TrainingError, match="at step 7 the loss is nan") as caught:
        train(place, "run")
    assert "lower learning rate" in str(caught.value)
    saved = checkpoint.newest(place / "run" / "checkpoints")
    assert saved.step == 6
    assert all(torch.isfinite(t).all() for group in saved.tensors.values() for t in group.values())
    assert metrics(place / "run")[-1]["step"] == 6
    monkeypatch.setattr(TextToText, "forward", plain)
    train(place, "run", resume=True)
    train(place, "complete")
    assert outcome(place / "run") == outcome(place / "complete")


def test_raises_on_an_absurd_learning_rate(place, forks):
    from tests.training.runs import arguments

    more = ("--set", "training.learning_rate=1e30", "--set", "training.optim.warmup=0")
    code, output = forks.run(arguments(place, "run", *more))
    assert code == 2
    assert re.search(r"error: at step \d the loss is", output)
    assert "Traceback" not in output


# the end of training


def test_patience_stops_after_validations_without_improvement(place, monkeypatch, capsys):
    values = iter([3.0, 2.0, 2.5, 2.0, 9.0])  # equal is not better
    monkeypatch.setattr(Trainer, "judge", lambda *_: (next(values), 0.0))
    train(place, "run", "training.patience=2", "training.validate_every=2", max_steps=40)
    lines = [line for line in metrics(place / "run") if "valid_loss" in line]
    assert [line["step"] for line in lines] == [2, 4, 6, 8]
    state = outcome(place / "run")["state"]
    assert state["step"] == 8
    assert state["best_step"] == 4
    assert state["ended"] == "the last 2 validations were no better"


def test_a_nan_metric_is_never_the_best(place, monkeypatch):
    values = iter([(1.0, 1.0), (float("nan"), 0.0), (0.5, float("inf"))])
    monkeypatch.setattr(Trainer, "judge", lambda *_: next(values))
    train(place, "run")
    assert outcome(place / "run")["state"]["best_step"] == 4


def one_second_per_update(monkeypatch):
    """Let the clock advance one second whenever it is read; return its time."""
    now = [0.0]

    def seconds(self):
        now[0] += 1.0
        return now[0]

    monkeypatch.setattr(Trainer, "seconds", seconds)
    monkeypatch.setattr(session, "rehearse_report", lambda *_: 0.0)
    return now


def test_minutes_count_over_resumptions(place, monkeypatch):
    """The clock advances one second per update, also when a run is resumed."""
    one_second_per_update(monkeypatch)
    changes = ("training.validate_every=100", "training.optim.schedule=cosine")
    train(place, "run", *changes, minutes=0.1, max_steps=50, elapsed=None)
    state = outcome(place / "run")["state"]
    assert state["step"] == 6
    assert state["ended"] == "the 0.1 minutes are over"
    rates = [line["learning_rate"] for line in metrics(place / "run") if "loss" in line]
    assert rates[-1] < rates[-2]  # the schedule follows the minutes
    train(place, "run", *changes, minutes=0.1, max_steps=50, elapsed=None, resume=True)
    assert outcome(place / "run")["state"] == state


def test_minutes_lift_the_limit_of_steps_unless_both_are_set(place, monkeypatch):
    """So a run whose steps are done is trained longer by --minutes, as `saccade show` advises."""
    train(place, "run")
    assert outcome(place / "run")["state"]["ended"] == "all 12 steps are done"
    now = one_second_per_update(monkeypatch)
    train(place, "run", minutes=0.5, elapsed=None, resume=True)
    state = outcome(place / "run")["state"]
    assert state["step"] > 12
    assert state["ended"] == "the 0.5 minutes are over"
    now[0] = 0.0
    train(place, "both", "training.max_steps=3", minutes=0.5, elapsed=None)
    assert outcome(place / "both")["state"]["ended"] == "all 3 steps are done"


def test_minutes_end_a_real_training(place):
    train(place, "run", "training.validate_every=100000", minutes=0.01, max_steps=100_000)
    newest = checkpoint.newest(place / "run" / "checkpoints")
    spent = newest.state["seconds"] + min(0.3, newest.state["prepared"])
    assert 0.6 <= spent + newest.state["report_seconds"] < 20
    assert newest.state["validated"] == newest.step > 0


def test_zero_steps_validate_the_initial_weights(place):
    """The initial weights are measured and kept, and can be trained further."""
    train(place, "run", max_steps=0)
    (line,) = metrics(place / "run")
    assert line["step"] == 0
    assert line["train_loss"] == 0
    train(place, "run", max_steps=12, resume=True)
    train(place, "complete")
    assert metrics(place / "run")[1:] == metrics(place / "complete")


def test_validate_items_zero_selects_by_loss(place):
    changes = ("training.validate_items=0", "training.select_by=loss")
    train(place, "run", *changes)
    lines = [line for line in metrics(place / "run") if "valid_loss" in line]
    assert all("exact_match" not in line for line in lines)
    state = outcome(place / "run")["state"]
    best = min(lines, key=lambda line: line["valid_loss"])
    assert state["best"] == [best["valid_loss"]] * 2
    assert state["best_step"] == best["step"]
    assert "None: training.validate_items is 0" in (place / "run" / "report.html").read_text()
    with pytest.raises(RecipeError, match=r"training: select_by = .* set validate_items above 0"):
        train(place, "other", "training.validate_items=0")


def test_the_metric_decides_and_the_loss_breaks_ties(place, monkeypatch):
    ready = trainer(place, monkeypatch)
    record, evaluation = ready.measure(TrainingProgress())
    assert ready.judge(record, evaluation) == (-record["exact_match"], record["valid_loss"])
    assert ready.judge(record, None) == (record["valid_loss"], record["valid_loss"])


def test_validation_uses_neither_label_smoothing_nor_dropout(place, monkeypatch):
    ready = trainer(place, monkeypatch)
    first, _ = ready.measure(TrainingProgress())
    second, _ = ready.measure(TrainingProgress())
    assert first == second
    task, valid = ready.task.eval(), ready.data.valid
    with torch.no_grad():
        loss = task(task.collate(valid, range(len(valid))))
    assert first["valid_loss"] == pytest.approx(loss.total.item() / loss.count, rel=1e-5)


def test_every_step_is_due_once():
    config = TrainingConfig(max_steps=20, validate_every=4, checkpoint_every=6)

    def at(step, validated=-1):
        return TrainingProgress(step=step, validated=validated)

    assert [step for step in range(20) if at(step).validation_due(config)] == [4, 8, 12, 16]
    assert at(20).validation_due(config)
    assert not at(20, validated=20).validation_due(config)
    assert not at(8, validated=8).validation_due(config)
    assert at(6, validated=4).checkpoint_due(config)
    assert not at(12, validated=8).checkpoint_due(config)  # the validation comes first
    assert at(12, validated=12).checkpoint_due(config)


def test_fraction_of_the_budget_is_the_larger_of_steps_and_minutes():
    config = TrainingConfig(max_steps=20, minutes=2.0)
    assert TrainingProgress(step=5).fraction(config) == 0.25
    assert TrainingProgress(step=5, seconds=60.0).fraction(config) == 0.5


@pytest.mark.parametrize(
    ("progress", "config", "reason"),
    [
        ({"step": 3}, {"max_steps": 3}, "all 3 steps are done"),
        ({"step": 1}, {"max_steps": 1}, "the only step is done"),
        ({"seconds": 120.0}, {"minutes": 2.0}, "the 2 minutes are over"),
        ({"seconds": 60.0}, {"minutes": 1.0}, "the minute is over"),
        ({"without_better": 2}, {"patience": 2}, "the last 2 validations were no better"),
        ({"without_better": 1}, {"patience": 1}, "the last validation was no better"),
        ({"without_better": 1}, {"patience": 2}, ""),
    ],
)
def test_reason_of_the_end_in_singular_and_plural(progress, config, reason):
    assert TrainingProgress(**progress).end(TrainingConfig(**config)) == reason


def test_nan_and_infinity_are_null_in_metrics(place, monkeypatch):
    monkeypatch.setattr(Trainer, "judge", lambda *_: (0.0, 0.0))
    plain = Trainer.measure

    def measure(self, progress):
        record, evaluation = plain(self, progress)
        return record | {"odd": float("inf"), "none": float("nan")}, evaluation

    monkeypatch.setattr(Trainer, "measure", measure)
    train(place, "run", max_steps=4)

    def reject(name):
        raise AssertionError(name)

    lines = (place / "run" / "metrics.jsonl").read_text().splitlines()
    last = [json.loads(line, parse_constant=reject) for line in lines][-1]
    assert last["odd"] is None
    assert last["none"] is None
