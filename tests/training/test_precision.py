"""Devices and precisions: which are chosen, and which raise."""

import json
import os
import subprocess
import sys

import pytest
import torch

from saccade.errors import RecipeError
from saccade.training import precision
from saccade.training import trial as trials
from saccade.training.precision import Precision, choose, pick_device
from tests.training.runs import arguments, metrics

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
def test_raises_if_the_trial_fails(trial, code):
    trial["code"] = code
    assert not precision.works("cpu")
    with pytest.raises(RecipeError, match="bfloat16 does not work on cpu of this machine"):
        choose("bfloat16", CPU)
    assert choose("auto", CPU) == Precision("float32", "cpu")
    assert choose("auto", torch.device("cuda")).name == "float32"


def test_bfloat16_is_used_if_the_trial_succeeds(trial):
    trial["code"] = 0
    assert choose("bfloat16", CPU).name == "bfloat16"
    assert choose("auto", CPU).name == "float32"  # slower there
    assert choose("auto", torch.device("cuda")).name == "bfloat16"
    assert choose("float32", torch.device("cuda")).name == "float32"


@pytest.mark.parametrize("name", ["", "float16", "BFLOAT16", "fp32"])
def test_raises_on_unknown_precisions(name):
    with pytest.raises(RecipeError, match="it can be: auto, float32, bfloat16"):
        choose(name, CPU)


def test_autocast_dtype():
    with Precision("float32", "cpu").autocast():
        assert not torch.is_autocast_enabled("cpu")
    with Precision("bfloat16", "cpu").autocast():
        assert torch.is_autocast_enabled("cpu")


def test_pick_device_names_and_errors():
    assert pick_device("cpu") == CPU
    assert pick_device("auto").type in ("cpu", "cuda", "mps")
    for name in ("gpu", "cuda:99", "", "meta-verse"):
        with pytest.raises(RecipeError, match=r"cannot be used here .* auto, cpu, cuda, mps"):
            pick_device(name)


# training under autocast

NEAR = {
    "bfloat16": {"loss": 0.01, "valid": 0.03, "gradient": 0.15},
    "float16": {"loss": 0.003, "valid": 0.03, "gradient": 0.05},
}
"""How far from float32 a mean loss and a gradient may be, as a fraction."""
WILD = {"caption-transformer model.encoder.fine_tune=true"}
"""Batch norms over a few values in fifty random layers: the gradient is any that is finite."""


@pytest.mark.parametrize(
    ("cases", "dtypes"),
    [
        ("recipes", ["bfloat16"]),
        pytest.param("recipes", ["float16"], marks=pytest.mark.slow),
        pytest.param("variants", ["bfloat16", "float16"], marks=pytest.mark.slow),
    ],
)
def test_every_recipe_trains_and_predicts_under_the_autocast_of_cuda(cases, dtypes):
    command = [sys.executable, "-m", "tests.cuda_autocast", cases, *dtypes]
    env = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2", "OMP_NUM_THREADS": "1"}
    child = subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=280, check=False
    )
    assert child.returncode == 0, child.stderr
    lines = [json.loads(line) for line in child.stdout.splitlines()]
    failed = [line for line in lines if "error" in line]
    assert not failed, "\n".join("{recipe} {dtype}\n{error}".format(**line) for line in failed)
    assert len(lines) > 20
    for line in lines:
        for name, most in NEAR[line["dtype"]].items():
            assert line[name] < most or (name == "gradient" and line["recipe"] in WILD), line


def test_the_trial_succeeds_in_float32():
    trials.main(CPU, Precision("float32", "cpu"))


def test_the_trial_raises_on_numbers_that_are_not_finite(monkeypatch):
    plain = trials.cross_entropy

    def broken(*args, **options):
        loss = plain(*args, **options)
        return loss._replace(total=loss.total * torch.inf)

    monkeypatch.setattr(trials, "cross_entropy", broken)
    with pytest.raises(FloatingPointError, match="infinite or NaN"):
        trials.main(CPU, Precision("float32", "cpu"))


@pytest.mark.slow
def test_training_in_bfloat16_on_this_machine(place):
    """It learns, or is rejected by the trial; never does it die on the way."""
    command = [sys.executable, "-m", "saccade", *arguments(place, "run", "--precision", "bfloat16")]
    env = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
    child = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if "bfloat16 does not work on cpu" in child.stderr:
        pytest.skip("this machine has no bfloat16")
    assert child.returncode == 0, child.stderr
    losses = [line["loss"] for line in metrics(place / "run") if "loss" in line]
    assert len(losses) == 12
    assert losses[-1] < losses[0]
