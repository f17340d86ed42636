"""SIGTERM and Ctrl-C: training is saved and exits soon, with the command that resumes it."""

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
def complete(tmp_path_factory):
    torch.set_num_threads(1)
    folder = prepare(tmp_path_factory.mktemp("complete") / "it")
    train(folder, "run", *LONG)
    return outcome(folder / "run")


def stop(child, number):
    """Send the signal and check how the process ends; return the command it prints."""
    began = time.monotonic()
    child.send(number)
    code, output = child.wait()
    assert time.monotonic() - began < 10
    assert code == 130, output
    assert "Traceback" not in output
    command = output.splitlines()[-1].strip()
    assert command.startswith("saccade train ")
    assert command.endswith(" --resume")
    return shlex.split(command)[1:]


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_a_signal_in_the_loop_saves_and_resumes_to_the_bit(place, complete, forks, number):
    more = [part for change in LONG for part in ("--set", change)]
    child = forks.start(arguments(place, "run", *more))
    metrics = place / "run" / "metrics.jsonl"
    child.until(lambda: metrics.exists() and metrics.read_bytes().count(b"\n") > 10)
    command = stop(child, number)
    saved = [int(path.name[5:]) for path in (place / "run" / "checkpoints").iterdir()]
    assert 5 < max(saved) < 60
    code, output = forks.run(command)
    assert code == 0, output
    assert f"resuming from step {max(saved)}" in output
    result = outcome(place / "run")
    assert result["metrics"] == complete["metrics"]
    for name in ("model.safetensors", *(f"checkpoints/step-60/{part}" for part in PARTS)):
        assert result["files"][name] == complete["files"][name]


def test_a_signal_in_a_long_validation_is_not_delayed(place, forks):
    more = ("--set", "training.validate_items=300", "--set", "training.checkpoint_every=100")
    write_rows(place / "data" / "valid.tsv", 300, 5)
    train(place, "complete", "training.validate_items=300", "training.checkpoint_every=100")
    child = forks.start(arguments(place, "run", *more), "slow answers")
    child.until((place / "there").exists)
    command = stop(child, signal.SIGTERM)
    assert [path.name for path in (place / "run" / "checkpoints").iterdir()] == ["step-4"]
    code, output = forks.run(command)
    assert code == 0, output
    result, expected = outcome(place / "run"), outcome(place / "complete")
    assert result["metrics"] == expected["metrics"]
    assert result["files"]["model.safetensors"] == expected["files"]["model.safetensors"]


@pytest.mark.parametrize("where", ["slow vocabulary", "slow encoding"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_before_the_loop_exits_at_once(place, forks, where, number):
    child = forks.start(arguments(place, "run"), where)
    child.until((place / "there").exists)
    command = stop(child, number)
    code, output = forks.run(command)
    assert code == 0, output


def test_a_signal_stops_a_real_process_early(place):
    """From `python -m saccade`, stopped as early as it listens for signals."""
    command = [sys.executable, "-m", "saccade", *arguments(place, "run", "--max-steps", "100000")]
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    read = child.stderr.readline()  # the summary of the data
    assert "train.tsv" in read
    child.send_signal(signal.SIGTERM)
    _, output = child.communicate(timeout=20)
    assert child.returncode == 130, output
    assert "Traceback" not in output
    assert output.rstrip().endswith("--resume")


def test_a_second_ctrl_c_exits_without_saving():
    def impatient():
        with Interruption() as interruption, interruption.heeded():
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)  # only a second Ctrl-C counts
            assert interruption.requested
            signal.raise_signal(signal.SIGINT)
            raise AssertionError("not reached")

    with pytest.raises(StoppedError, match="everything saved before is kept"):
        impatient()


def test_signal_handlers_are_restored():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with Interruption() as one, Interruption():
        assert signal.getsignal(signal.SIGINT) not in before
        assert not one.requested
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_keyboard_interrupt_without_a_signal_is_not_replaced():
    with pytest.raises(KeyboardInterrupt), Interruption():
        raise KeyboardInterrupt


def test_signals_are_ignored_outside_the_main_thread():
    requests = []

    def work():
        with Interruption() as interruption, interruption.cancelling():
            raise_if_cancelled()
            requests.append(interruption.requested)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert requests == [False]
