"""Which device and which numbers: what was asked for, what works, what is refused."""

import subprocess

import pytest
import torch

from saccade.errors import RecipeError
from saccade.training import precision
from saccade.training.precision import Precision, choose, pick_device

CPU = torch.device("cpu")


@pytest.fixture
def trial(monkeypatch):
    """Says how the next trial ends."""
    precision.works.cache_clear()
    ends = {}

    def run(command, **_):
        if ends["code"] is None:
            raise subprocess.TimeoutExpired(command, 120)
        return subprocess.CompletedProcess(command, ends["code"])

    monkeypatch.setattr(subprocess, "run", run)
    yield ends
    precision.works.cache_clear()


@pytest.mark.parametrize("code", [-4, 1, None])  # killed by an illegal instruction, failed, hung
def test_what_does_not_survive_its_trial_is_refused(trial, code):
    trial["code"] = code
    assert not precision.works("cpu")
    with pytest.raises(RecipeError, match="bfloat16 does not work on cpu of this machine"):
        choose("bfloat16", CPU)
    assert choose("auto", CPU) == Precision("float32", "cpu")
    assert choose("auto", torch.device("cuda")).name == "float32"


def test_what_works_is_taken_when_asked_for(trial):
    trial["code"] = 0
    assert choose("bfloat16", CPU).name == "bfloat16"
    assert choose("auto", CPU).name == "float32"  # slower there
    assert choose("auto", torch.device("cuda")).name == "bfloat16"
    assert choose("float32", torch.device("cuda")).name == "float32"


@pytest.mark.parametrize("name", ["", "float16", "BFLOAT16", "fp32"])
def test_other_names_are_refused(name):
    with pytest.raises(RecipeError, match="it can be: auto, float32, bfloat16"):
        choose(name, CPU)


def test_autocast():
    with Precision("float32", "cpu").autocast():
        assert not torch.is_autocast_enabled("cpu")
    with Precision("bfloat16", "cpu").autocast():
        assert torch.is_autocast_enabled("cpu")


def test_devices():
    assert pick_device("cpu") == CPU
    assert pick_device("auto").type in ("cpu", "cuda", "mps")
    for name in ("gpu", "cuda:99", "", "meta-verse"):
        with pytest.raises(RecipeError, match=r"cannot be used here .* auto, cpu, cuda, mps"):
            pick_device(name)
