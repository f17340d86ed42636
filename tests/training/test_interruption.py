"""SIGTERM and Ctrl-C: saved and left soon, with the command that goes on."""

import shlex
import signal
import subprocess
import sys
import threading
import time

import pytest
import torch

from saccade.cancellation import raise_if_cancelled
from saccade.errors import StoppedError
from saccade.training.interruption import Interruption
from tests.training.runs import arguments, outcome, prepare, train, write_rows

LONG = ("training.max_steps=60", "training.validate_every=20", "training.accumulate=1")
PARTS = ("weights.safetensors", "optimizer.safetensors", "average.safetensors")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    torch.set_num_threads(1)
    folder = prepare(tmp_path_factory.mktemp("whole") / "it")
    train(folder, "run", *LONG)
    return outcome(folder / "run")


def ends_well(child, number):
    """Send the signal; the process must end as promised. Gives the command it prints."""
    began = time.monotonic()
    child.send(number)
    code, said = child.wait()
    assert time.monotonic() - began < 10
    assert code == 130, said
    assert "Traceback" not in said
    command = said.splitlines()[-1].strip()
    assert command.startswith("saccade train ")
    assert command.endswith(" --resume")
    return shlex.split(command)[1:]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_in_the_loop(place, whole, forks, number):
    more = [part for change in LONG for part in ("--set", change)]
    child = forks.start(arguments(place, "run", *more))
    metrics = place / "run" / "metrics.jsonl"
    child.until(lambda: metrics.exists() and metrics.read_bytes().count(b"\n") > 10)
    command = ends_well(child, number)
    saved = [int(path.name[5:]) for path in (place / "run" / "checkpoints").iterdir()]
    assert 5 < max(saved) < 60
    code, said = forks.run(command)
    assert code == 0, said
    assert f"going on from step {max(saved)}" in said
    found = outcome(place / "run")
    assert found["metrics"] == whole["metrics"]
    for name in ("model.safetensors", *(f"checkpoints/step-60/{part}" for part in PARTS)):
        assert found["files"][name] == whole["files"][name]


def test_in_a_long_validation(place, forks):
    more = ("--set", "training.validate_items=300", "--set", "training.checkpoint_every=100")
    write_rows(place / "data" / "valid.tsv", 300, 5)
    train(place, "whole", "training.validate_items=300", "training.checkpoint_every=100")
    child = forks.start(arguments(place, "run", *more), "slow answers")
    child.until((place / "there").exists)
    command = ends_well(child, signal.SIGTERM)
    assert [path.name for path in (place / "run" / "checkpoints").iterdir()] == ["step-4"]
    code, said = forks.run(command)
    assert code == 0, said
    found, wanted = outcome(place / "run"), outcome(place / "whole")
    assert found["metrics"] == wanted["metrics"]
    assert found["files"]["model.safetensors"] == wanted["files"]["model.safetensors"]


@pytest.mark.parametrize("where", ["slow vocabulary", "slow encoding"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_before_the_loop(place, forks, where, number):
    child = forks.start(arguments(place, "run"), where)
    child.until((place / "there").exists)
    command = ends_well(child, number)
    code, said = forks.run(command)
    assert code == 0, said


def test_a_real_process_while_torch_is_loaded_and_later(place):
    """The whole way from `python -m saccade`, stopped as early as it can hear."""
    command = [sys.executable, "-m", "saccade", *arguments(place, "run", "--max-steps", "100000")]
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    read = child.stderr.readline()  # what was understood of the data
    assert "train.tsv" in read
    child.send_signal(signal.SIGTERM)
    _, said = child.communicate(timeout=20)
    assert child.returncode == 130, said
    assert "Traceback" not in said
    assert "To resume:" in said


def test_a_second_ctrl_c_leaves_at_once():
    def impatient():
        with Interruption() as interruption, interruption.heeded():
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)  # impatience of a system is no reason
            assert interruption.asked
            signal.raise_signal(signal.SIGINT)
            raise AssertionError("not reached")

    with pytest.raises(StoppedError, match="what was saved before is kept"):
        impatient()


def test_handlers_are_put_back():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with Interruption() as one, Interruption():
        assert signal.getsignal(signal.SIGINT) not in before
        assert not one.asked
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_keyboard_interrupt_of_others_stays_one():
    with pytest.raises(KeyboardInterrupt), Interruption():
        raise KeyboardInterrupt


def test_in_a_thread_nothing_is_listened_to():
    found = []

    def work():
        with Interruption() as interruption, interruption.cancelling():
            raise_if_cancelled()
            found.append(interruption.asked)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [False]
