"""TensorBoard gets the same numbers as metrics.jsonl, if it is installed."""

import errno
import sys

import pytest

from saccade.errors import DiskFullError
from saccade.training import metric_log
from saccade.training.loop import Trainer
from saccade.training.run import Run
from tests.training.runs import metrics, train


class Crash(BaseException):
    pass


def scalars(folder):
    """Return the (step, value) pairs of every tag, as TensorBoard shows them."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
    tags = events.Tags()["scalars"]
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in tags}


def test_tensorboard_gets_all_numbers(place):
    pytest.importorskip("tensorboard")
    train(place, "run")
    shown = scalars(place / "run" / "tensorboard")
    lines = metrics(place / "run")
    for tag in ("loss", "gradient", "learning_rate", "valid_loss", "exact_match", "epoch"):
        expected = [(line["step"], line[tag]) for line in lines if tag in line]
        assert [step for step, _ in shown[tag]] == [step for step, _ in expected]
        assert [v for _, v in shown[tag]] == pytest.approx([v for _, v in expected], rel=1e-6)
    assert "step" not in shown


def test_repeated_steps_are_shown_once(place, monkeypatch):
    pytest.importorskip("tensorboard")
    plain = Trainer.update

    def crashing(self, progress):
        if progress.step == 8:
            raise Crash
        return plain(self, progress)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "update", crashing)
        with pytest.raises(Crash):
            train(place, "run")
    train(place, "run", resume=True)  # from step 6
    assert len(list((place / "run" / "tensorboard").iterdir())) == 2
    shown = scalars(place / "run" / "tensorboard")
    assert [step for step, _ in shown["loss"]] == list(range(1, 13))
    assert [step for step, _ in shown["valid_loss"]] == [4, 8, 12]


def test_training_works_without_tensorboard(place, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "tensorboard"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    train(place, "run", max_steps=4)
    assert not (place / "run" / "tensorboard").exists()
    assert metrics(place / "run")


def test_raises_disk_full_error_on_a_full_disk(place, monkeypatch):
    pytest.importorskip("tensorboard")
    train(place, "run", max_steps=1)
    board = metric_log.open_board(Run(place / "run"), 1)

    def full(data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(board._writer, "write", full)
    with pytest.raises(DiskFullError, match="what was there before is kept"):
        board.note({"step": 2, "loss": 1.0})
    board.close()
