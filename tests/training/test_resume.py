"""A training that was killed and resumed equals an uninterrupted one, to the bit."""

import dataclasses
import itertools
import random
import signal
import time
from contextlib import nullcontext

import pytest

from saccade.data.batches.plan import Plan
from saccade.training import checkpoint, distributed, session
from saccade.training.console import Console
from saccade.training.distributed import World
from saccade.training.loop import Trainer
from saccade.training.run import Run
from tests.training.runs import arguments, everything, metrics, outcome, prepare, train

AVERAGES = {
    "ema": (),
    "last": ("training.average.kind=last", "training.average.last=2"),
    "none": ("training.average.kind=none", "training.accumulate=1"),
}


class Crash(BaseException):
    pass


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """The outcomes of uninterrupted training runs."""
    import torch

    torch.set_num_threads(1)
    outcomes = {}

    def of(*changes):
        if changes not in outcomes:
            folder = prepare(tmp_path_factory.mktemp("complete") / "it")
            train(folder, "run", *changes)
            outcomes[changes] = outcome(folder / "run")
        return outcomes[changes]

    return of


def crash_at(patch, owner, name, number, *, after=False):
    """Crash at the call of a method with this number."""
    plain, left = getattr(owner, name), [number]

    def call(*args, **kwargs):
        left[0] -= 1
        if left[0] == 0 and not after:
            raise Crash
        result = plain(*args, **kwargs)
        if left[0] == 0:
            raise Crash
        return result

    patch.setattr(owner, name, call)


@pytest.mark.parametrize("average", AVERAGES)
def test_crashes_between_updates_change_nothing(place, monkeypatch, reference, average):
    changes = AVERAGES[average]
    for number in (1, 4, 2, 6, 5):
        with monkeypatch.context() as patch:
            crash_at(patch, Trainer, "update", number)
            with pytest.raises(Crash):
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
        (checkpoint, "clean_up"),
        (checkpoint, "write_pieces"),
    ],
)
def test_crashes_around_validations_and_saves_change_nothing(
    place, monkeypatch, reference, owner, name, after
):
    for number in (1, 2):
        with monkeypatch.context() as patch:
            crash_at(patch, owner, name, number, after=after)
            with pytest.raises(Crash):
                train(place, "run", resume=True)
    train(place, "run", resume=True)
    assert outcome(place / "run") == reference()


def test_a_crash_while_a_run_is_begun_leaves_a_usable_folder(place, monkeypatch, reference):
    """After a crash at any of the first writes."""
    from saccade.training import run as module

    for number in range(1, 5):
        with monkeypatch.context() as patch:
            crash_at(patch, module, "write_file", number)
            with pytest.raises(Crash):
                train(place, "run", max_steps=12)
        assert not (place / "run" / "run.json").exists()
    train(place, "run", max_steps=12)  # not even --resume is needed
    assert outcome(place / "run") == reference()
    assert not [path.name for path in (place / "run").iterdir() if path.name.startswith(".b")]


def test_a_stopped_validation_is_repeated(place, monkeypatch, reference):
    """The checkpoint of the same step is then replaced."""
    from saccade.errors import StoppedError

    plain = Trainer.measure

    def stopped(self, progress):
        if progress.step == 12:
            self.interruption.requested = True
        return plain(self, progress)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "measure", stopped)
        with pytest.raises(StoppedError, match="stopped at step 12; everything is saved in"):
            train(place, "run")
    train(place, "run", resume=True)
    assert outcome(place / "run") == reference()


def test_damaged_checkpoints_cost_only_time(place, monkeypatch, reference, caplog):
    with monkeypatch.context() as patch:
        crash_at(patch, Trainer, "update", 9)
        with pytest.raises(Crash):
            train(place, "run")
    folder = place / "run" / "checkpoints"
    assert checkpoint.steps(folder) == [3, 6]
    (folder / "step-6" / "weights.safetensors").write_bytes(b"no")
    (folder / ".partial-1-step-9").mkdir()
    (folder / ".partial-1-step-9" / "state.json").touch()
    with monkeypatch.context() as patch:
        crash_at(patch, Trainer, "update", 2)
        with pytest.raises(Crash):
            train(place, "run", resume=True)
    assert sorted(p.name for p in folder.iterdir()) == ["corrupt-step-6", "step-3"]
    assert "trying step 3" in caplog.text
    (folder / "step-3" / "MANIFEST.json").unlink()
    train(place, "run", resume=True)
    assert "training starts from step 0" in caplog.text
    assert outcome(place / "run") == reference()


def test_resuming_with_more_steps_equals_one_training(place, reference):
    changes = ("training.optim.schedule=constant",)
    train(place, "run", *changes, max_steps=8)
    train(place, "run", *changes, max_steps=12, resume=True)
    assert outcome(place / "run") == reference(*changes)
    assert "max_steps = 12" in (place / "run" / "recipe.toml").read_text()


def test_resuming_a_finished_run_changes_no_file(place):
    train(place, "run")
    before = everything(place / "run")
    assert any("tensorboard" in name for name in before)
    lines: list[str] = []
    console = Console(quiet=True)
    console.notify = lines.append
    train(place, "run", resume=True, console=console)
    assert everything(place / "run") == before
    assert lines[-1].startswith("no update was made: the budget counts all updates of the run")


def test_a_run_keeps_the_names_of_columns(place):
    rows = (place / "data" / "train.tsv").read_text()
    data = place / "named.tsv"
    data.write_text(rows.replace("source\ttarget", "left\tright", 1))
    names = {"columns": "source=right,target=left"}
    train(place, "run", data=data, max_steps=4, **names)
    task = train(place, "run", data=data, max_steps=5, resume=True)
    for more in (names, {}):
        evaluation = session.assess(task, data=data, run=place / "run", **more)
        left, right = rows.splitlines()[1].split("\t")
        assert (evaluation.items[0].inputs[0], evaluation.items[0].references[0]) == (right, left)
    other = session.assess(task, data=place / "data", run=place / "run")  # by the usual names
    assert len(other.items) == 10


def test_kills_at_random_moments_change_nothing(place, forks, reference):
    """Also inside saves: one per step, on a slow disk."""
    rng, more = random.Random(0), ("--set", "training.checkpoint_every=1", "--resume")
    kills = 0
    for i in range(8):
        child = forks.start(arguments(place, "run", *more), "slow disk")
        if i >= 3:  # the first ones are killed while the run is begun
            child.until(lambda: list((place / "run").glob("checkpoints/*")))
        time.sleep(rng.uniform(0, 0.5))
        child.send(signal.SIGKILL)
        kills += child.wait()[0] == -signal.SIGKILL
    code, output = forks.run(arguments(place, "run", *more))
    assert code == 0, output
    assert kills > 3
    assert outcome(place / "run") == reference("training.checkpoint_every=1")


# with another number of processes or batches per update


@pytest.fixture
def read(monkeypatch):
    """The numbers of all batches read; this process stands in for the others."""
    plain, numbers = Plan.update, []

    def update(plan, at):
        for rank in range(plan.world):
            numbers.extend(index for index, _ in plain(dataclasses.replace(plan, rank=rank), at))
        return plain(plan, at)

    monkeypatch.setattr(Plan, "update", update)
    monkeypatch.setattr(World, "wrap", lambda world, task: task)
    monkeypatch.setattr(World, "sum", lambda world, values: [world.size * v for v in values])
    monkeypatch.setattr(World, "from_first", lambda world, work: work(), raising=False)
    monkeypatch.setattr(distributed, "joined", lambda world, *_: nullcontext(world))
    monkeypatch.setattr(
        session, "write_report", lambda *_, **__: None
    )  # takes longer than the training
    return numbers


def part(place, processes, batches, steps):
    """Train up to this many steps in total, with this many batches per update."""
    changes, world = f"training.accumulate={batches}", World(size=processes)
    train(place, "run", changes, world=world, max_steps=steps, resume=True)


SIZES = [(1, 1), (2, 2), (1, 2), (2, 3)]


@pytest.mark.parametrize(("before", "after"), list(itertools.permutations(SIZES, 2)))
def test_a_resumed_run_reads_every_batch_once(place, read, before, after):
    part(place, *before, 3)
    part(place, *after, 5)
    assert sorted(read) == list(range(3 * before[1] + 2 * after[1]))
    record = [line for line in metrics(place / "run") if "epoch" in line][-1]
    per_epoch = record["epoch"] / len(read)
    part(place, 2, 3, 6)
    assert sorted(read) == list(range(len(read)))
    record = [line for line in metrics(place / "run") if "epoch" in line][-1]
    assert record["epoch"] == pytest.approx(len(read) * per_epoch, rel=1e-3)


@pytest.mark.parametrize("size", SIZES)
def test_a_checkpoint_without_a_count_of_batches_resumes(place, read, size):
    """Earlier versions wrote none; their updates had one size."""
    part(place, *size, 3)
    folder = place / "run" / "checkpoints"
    saved = checkpoint.newest(folder)
    state = {name: value for name, value in saved.state.items() if name != "batches"}
    assert state != saved.state
    checkpoint.write(folder, dataclasses.replace(saved, state=state), keep=1)
    part(place, *size, 5)
    assert sorted(read) == list(range(5 * size[1]))
