"""A training that was killed and resumed is the training it would have been, to the bit."""

import random
import signal
import time

import pytest

from saccade.training import checkpoint
from saccade.training.loop import Trainer
from saccade.training.run import Run
from tests.training.runs import arguments, everything, outcome, prepare, train

AVERAGES = {
    "ema": (),
    "last": ("training.average.kind=last", "training.average.last=2"),
    "none": ("training.average.kind=none", "training.accumulate=1"),
}


class Died(BaseException):
    pass


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """What each training comes to in one go."""
    import torch

    torch.set_num_threads(1)
    found = {}

    def of(*changes):
        if changes not in found:
            folder = prepare(tmp_path_factory.mktemp("whole") / "it")
            train(folder, "run", *changes)
            found[changes] = outcome(folder / "run")
        return found[changes]

    return of


def die_at(patch, owner, name, number, *, after=False):
    """Let a method die when it is called for the nth time."""
    plain, left = getattr(owner, name), [number]

    def call(*args, **kwargs):
        left[0] -= 1
        if left[0] == 0 and not after:
            raise Died
        result = plain(*args, **kwargs)
        if left[0] == 0:
            raise Died
        return result

    patch.setattr(owner, name, call)


@pytest.mark.parametrize("average", AVERAGES)
def test_deaths_between_updates_change_nothing(place, monkeypatch, reference, average):
    changes = AVERAGES[average]
    for number in (1, 4, 2, 6, 5):
        with monkeypatch.context() as patch:
            die_at(patch, Trainer, "update", number)
            with pytest.raises(Died):
                train(place, "run", *changes, resume=True)
    train(place, "run", *changes, resume=True)
    assert outcome(place / "run") == reference(*changes)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (Trainer, "validate"),
        (Trainer, "measure"),
        (Trainer, "save"),
        (Run, "keep_best"),
        (Run, "note"),
        (Run, "sync_metrics"),
        (checkpoint, "tidy"),
        (checkpoint, "write_synced"),
    ],
)
def test_deaths_around_validations_and_saves_change_nothing(
    place, monkeypatch, reference, owner, name, after
):
    for number in (1, 2):
        with monkeypatch.context() as patch:
            die_at(patch, owner, name, number, after=after)
            with pytest.raises(Died):
                train(place, "run", resume=True)
    train(place, "run", resume=True)
    assert outcome(place / "run") == reference()


def test_a_death_while_a_run_is_begun(place, monkeypatch, reference):
    """The folder is usable after a death at each write of the beginning."""
    from saccade.training import run as module

    for number in range(1, 5):
        with monkeypatch.context() as patch:
            die_at(patch, module, "write_file", number)
            with pytest.raises(Died):
                train(place, "run", max_steps=12)
        assert not (place / "run" / "run.json").exists()
    train(place, "run", max_steps=12)  # not even --resume is needed
    assert outcome(place / "run") == reference()
    assert not [path.name for path in (place / "run").iterdir() if path.name.startswith(".b")]


def test_a_validation_that_was_stopped_is_done_again(place, monkeypatch, reference):
    """Also for a checkpoint of the very step, which is then replaced."""
    from saccade.errors import StoppedError

    plain = Trainer.measure

    def stopped(self, progress):
        if progress.step == 12:
            self.interruption.asked = True
        return plain(self, progress)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "measure", stopped)
        with pytest.raises(StoppedError, match="stopped at step 12; everything is saved in"):
            train(place, "run")
    train(place, "run", resume=True)
    assert outcome(place / "run") == reference()


def test_damaged_checkpoints_cost_time_only(place, monkeypatch, reference, caplog):
    with monkeypatch.context() as patch:
        die_at(patch, Trainer, "update", 9)
        with pytest.raises(Died):
            train(place, "run")
    folder = place / "run" / "checkpoints"
    assert checkpoint.steps(folder) == [3, 6]
    (folder / "step-6" / "weights.safetensors").write_bytes(b"no")
    (folder / ".partial-1-step-9").mkdir()
    (folder / ".partial-1-step-9" / "state.json").touch()
    with monkeypatch.context() as patch:
        die_at(patch, Trainer, "update", 2)
        with pytest.raises(Died):
            train(place, "run", resume=True)
    assert sorted(p.name for p in folder.iterdir()) == ["corrupt-step-6", "step-3"]
    assert "step 3 is tried" in caplog.text
    (folder / "step-3" / "MANIFEST.json").unlink()
    train(place, "run", resume=True)
    assert "training starts from step 0" in caplog.text
    assert outcome(place / "run") == reference()


def test_more_steps_are_as_if_asked_for_at_once(place, reference):
    changes = ("training.optim.schedule=constant",)
    train(place, "run", *changes, max_steps=8)
    train(place, "run", *changes, max_steps=12, resume=True)
    assert outcome(place / "run") == reference(*changes)
    assert "max_steps = 12" in (place / "run" / "recipe.toml").read_text()


def test_a_finished_run_is_not_touched(place):
    train(place, "run")
    before = everything(place / "run")
    assert any("tensorboard" in name for name in before)
    train(place, "run", resume=True)
    assert everything(place / "run") == before


def test_kills_at_random_moments_change_nothing(place, forks, reference):
    """Also inside saves: one a step, on a disk that takes its time."""
    chance, more = random.Random(0), ("--set", "training.checkpoint_every=1", "--resume")
    kills = 0
    for i in range(12):
        child = forks.start(arguments(place, "run", *more), "slow disk")
        if i >= 3:  # the first ones die while the run is begun
            child.until(lambda: list((place / "run").glob("checkpoints/*")))
        time.sleep(chance.uniform(0, 0.5))
        child.send(signal.SIGKILL)
        kills += child.wait()[0] == -signal.SIGKILL
    code, said = forks.run(arguments(place, "run", *more))
    assert code == 0, said
    assert kills > 5
    found, wanted = outcome(place / "run"), reference("training.checkpoint_every=1")
    assert found == wanted
