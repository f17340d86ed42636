"""TensorBoard gets what metrics.jsonl gets, if it is there."""

import errno
import sys

import pytest

from saccade.errors import DiskFullError
from saccade.training import metric_log as track
from saccade.training.loop import Trainer
from saccade.training.run import Run
from tests.training.runs import metrics, train


class Died(BaseException):
    pass


def scalars(folder):
    """Every tag's (step, value) pairs, as TensorBoard shows them."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
    tags = events.Tags()["scalars"]
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in tags}


def test_all_numbers_arrive(place):
    pytest.importorskip("tensorboard")
    train(place, "run")
    found = scalars(place / "run" / "tensorboard")
    lines = metrics(place / "run")
    for tag in ("loss", "gradient", "learning_rate", "valid_loss", "exact_match", "epoch"):
        wanted = [(line["step"], line[tag]) for line in lines if tag in line]
        assert [step for step, _ in found[tag]] == [step for step, _ in wanted]
        assert [v for _, v in found[tag]] == pytest.approx([v for _, v in wanted], rel=1e-6)
    assert "step" not in found


def test_steps_that_are_done_again_are_shown_once(place, monkeypatch):
    pytest.importorskip("tensorboard")
    plain = Trainer.update

    def dying(self, progress):
        if progress.step == 8:
            raise Died
        return plain(self, progress)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "update", dying)
        with pytest.raises(Died):
            train(place, "run")
    train(place, "run", resume=True)  # from step 6
    assert len(list((place / "run" / "tensorboard").iterdir())) == 2
    found = scalars(place / "run" / "tensorboard")
    assert [step for step, _ in found["loss"]] == list(range(1, 13))
    assert [step for step, _ in found["valid_loss"]] == [4, 8, 12]


def test_without_the_package_nothing_is_missed(place, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "tensorboard"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    train(place, "run", max_steps=4)
    assert not (place / "run" / "tensorboard").exists()
    assert metrics(place / "run")


def test_a_full_disk_is_said(place, monkeypatch):
    pytest.importorskip("tensorboard")
    train(place, "run", max_steps=1)
    board = track.open_board(Run(place / "run"), 1)

    def full(data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(board._writer, "write", full)
    with pytest.raises(DiskFullError, match="what was there before is kept"):
        board.note({"step": 2, "loss": 1.0})
    board.close()
