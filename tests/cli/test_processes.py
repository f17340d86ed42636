"""The number of processes of a training run, and how they end."""

import os
import signal
import subprocess
import sys
import time

import pytest

from saccade import recipes
from saccade.cli import processes
from saccade.cli.processes import usual_count

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads Linux's CPU set")


@pytest.fixture
def cores(monkeypatch):
    """A CPU with as many cores as the test says, and no GPU."""

    def have(count):
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(count)))

    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(processes, "GPUS", ())
    have(2)
    return have


DIVIDED = ("training.batch_tokens=100", "training.update_tokens=400")


@linux
@pytest.mark.parametrize(("count", "expected"), [(1, 1), (2, 2), (3, 2), (4, 4), (8, 4)])
def test_an_update_is_divided_among_the_cores(cores, count, expected):
    cores(count)
    assert usual_count("rnn", DIVIDED, device="auto") == expected


@linux
def test_one_process_where_more_would_not_help(cores, monkeypatch, tmp_path):
    undivided = ("training.batch_tokens=100", "training.update_tokens=0")
    assert usual_count("rnn", undivided, device="cpu") == 1
    assert usual_count("rnn", (*DIVIDED, "training.accumulate=2"), device="cpu") == 1
    assert usual_count("rnn", DIVIDED, device="cuda") == 1
    assert usual_count(None, (), device="auto") == 2
    (tmp_path / "broken.toml").write_text("[training")
    for recipe in ("no-such-recipe", str(tmp_path / "broken.toml"), str(tmp_path)):
        assert usual_count(recipe, (), device="auto") == 1  # training reports the mistake
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # the user wants one core to be used
    assert usual_count("rnn", DIVIDED, device="auto") == 1
    monkeypatch.delenv("OMP_NUM_THREADS")
    gpu = tmp_path / "gpu"
    gpu.touch()
    monkeypatch.setattr(processes, "GPUS", (str(gpu),))
    assert usual_count("rnn", DIVIDED, device="auto") == 1


@linux
def test_a_recipe_file_sets_how_an_update_is_divided(cores, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("[training]\nbatch_tokens = 64\nupdate_tokens = 128\n")
    assert usual_count(str(path), (), device="auto") == 2


@linux
@pytest.mark.parametrize("recipe", recipes.names())
def test_built_in_recipes_are_read(cores, recipe):
    cores(64)
    assert usual_count(recipe, (), device="cpu") in (1, 2)


CHILD = """
import sys, time
from saccade.cli.processes import end_with_launcher
end_with_launcher()
print("ready", flush=True)
time.sleep(60)
"""
LAUNCHER = f"""
import os, subprocess, sys
child = subprocess.Popen(
    [sys.executable, "-c", {CHILD!r}], env={{**os.environ, "SACCADE_LAUNCHER": str(os.getpid())}},
    stdout=subprocess.PIPE, start_new_session=True,
)
child.stdout.readline()
print(child.pid, flush=True)
child.wait()
"""


@linux
def test_a_killed_launcher_takes_its_processes_with_it():
    """Orphans would hold the lock of the run folder, so that it could not be resumed."""
    launcher = subprocess.Popen([sys.executable, "-c", LAUNCHER], stdout=subprocess.PIPE)
    with launcher:
        child = int(launcher.stdout.readline())
        launcher.send_signal(signal.SIGKILL)
        launcher.wait()
    deadline = time.monotonic() + 30
    while _runs(child):
        assert time.monotonic() < deadline, "the child outlives its launcher"
        time.sleep(0.02)


def _runs(process):
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
