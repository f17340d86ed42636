"""Trainings on two machines that share nothing but a network."""

import shutil
import signal

import pytest
import torch
from safetensors.torch import load_file

from saccade.training.copies import COMPLETE, INCOMING, finish_move, listing, stats
from tests.training.machines import possible, two_machines, until
from tests.training.runs import metrics, prepare, train

FOUR = ("training.batch_tokens=40", "training.update_tokens=160", "training.accumulate=1")
"""Updates of four batches."""
STEPS = 60

machines_only = pytest.mark.skipif(not possible(), reason="needs root and network namespaces")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A recipe, its data, and a training by one process that nothing disturbed."""
    torch.set_num_threads(1)
    folder = prepare(tmp_path_factory.mktemp("machines") / "it")
    train(folder, "one", *FOUR, max_steps=STEPS)
    return folder


def arguments(folder, *more):
    changes = [part for change in FOUR for part in ("--set", change)]
    command = ["train", str(folder / "tiny.toml"), "--data", str(folder / "data"), *changes]
    return [*command, "--max-steps", str(STEPS), *more]


def assert_nothing_is_lost(folder, machines):
    """Compare with the undisturbed training: every update once, and the same weights."""
    for machine in machines:
        code, output = machine.end()
        assert code == 0, output
    ours, theirs = metrics(folder / "one"), machines[0].metrics()
    assert [line["step"] for line in ours] == [line["step"] for line in theirs]
    for mine, yours in zip(ours, theirs, strict=True):
        for name in ("loss", "gradient", "valid_loss"):
            assert mine.get(name, 0) == pytest.approx(yours.get(name, 0), rel=1e-4, abs=1e-4)
        assert mine.get("predictions") == yours.get("predictions")
    weights = load_file(machines[0].out / "model.safetensors")
    for name, tensor in load_file(folder / "one" / "model.safetensors").items():
        torch.testing.assert_close(weights[name], tensor, rtol=1e-4, atol=1e-4)
    assert machines[0].files() == machines[1].files()


@pytest.mark.slow
@machines_only
def test_a_lost_machine_comes_back_and_nothing_is_lost(folder, tmp_path):
    with two_machines(tmp_path) as machines:
        for machine in machines:
            machine.start(arguments(folder))
        until(lambda: machines[1].steps() and max(machines[1].steps()) >= 6, machines)
        machines[1].kill()
        machines[1].start(arguments(folder))
        assert_nothing_is_lost(folder, machines)
        assert "resuming from step " in machines[0].output() + machines[1].output()
        assert len(list((machines[1].place / "home").glob(".cache/saccade/*/entry.json"))) == 2


@pytest.mark.slow
@machines_only
def test_the_other_machine_has_all_if_the_first_one_is_lost_with_its_disk(folder, tmp_path):
    with two_machines(tmp_path, processes=1) as machines:
        for machine in machines:
            machine.start(arguments(folder), restarts=0)
        until(lambda: machines[1].steps() and max(machines[1].steps()) >= 6, machines)
        machines[0].kill()
        assert machines[1].end()[0] != 0
        shutil.rmtree(machines[0].out)
        for machine in machines:
            machine.start(arguments(folder, "--resume"), restarts=0)
        assert_nothing_is_lost(folder, machines)


@pytest.mark.slow
@machines_only
def test_ctrl_c_on_one_machine_saves_and_the_other_waits_until_it_comes_back(folder, tmp_path):
    with two_machines(tmp_path, processes=1) as machines:
        for machine in machines:
            machine.start(arguments(folder))
        until(lambda: machines[1].steps() and max(machines[1].steps()) >= 6, machines)
        machines[1].agent.send_signal(signal.SIGINT)
        code, output = machines[1].end()
        assert code not in (0, "it hangs"), output
        until(lambda: "--resume" in machines[0].output() + machines[1].output(), machines)
        assert machines[0].agent.poll() is None
        machines[1].start(arguments(folder, "--resume"))
        assert_nothing_is_lost(folder, machines)


# moving what has arrived


def arrived(folder, *, complete):
    (folder / "checkpoints" / "step-1").mkdir(parents=True)
    (folder / "checkpoints" / "step-1" / "state.json").write_text("old")
    (folder / "kept").write_text("kept")
    incoming = folder / INCOMING / "files" / "checkpoints" / "step-2"
    incoming.mkdir(parents=True)
    (incoming / "state.json").write_text("new")
    if complete:
        (folder / INCOMING / COMPLETE).write_text('["checkpoints/step-1/state.json"]')


def test_files_that_have_arrived_replace_others_together(tmp_path):
    arrived(tmp_path, complete=True)
    finish_move(tmp_path)
    assert sorted(stats(tmp_path)) == ["checkpoints/step-2/state.json", "kept"]
    assert not (tmp_path / "checkpoints" / "step-1").exists()
    assert not (tmp_path / INCOMING).exists()
    finish_move(tmp_path)
    assert listing(tmp_path)["kept"][0] == 4


def test_files_that_have_arrived_in_part_are_removed(tmp_path):
    arrived(tmp_path, complete=False)
    finish_move(tmp_path)
    assert sorted(stats(tmp_path)) == ["checkpoints/step-1/state.json", "kept"]


def test_a_move_that_was_interrupted_is_finished(tmp_path):
    arrived(tmp_path, complete=True)
    (tmp_path / "checkpoints" / "step-1" / "state.json").unlink()
    step = tmp_path / "checkpoints" / "step-2"
    step.mkdir()
    (tmp_path / INCOMING / "files" / "checkpoints" / "step-2" / "state.json").rename(
        step / "state.json"
    )
    finish_move(tmp_path)
    assert (step / "state.json").read_text() == "new"
    assert sorted(stats(tmp_path)) == ["checkpoints/step-2/state.json", "kept"]
