"""Tensors go to safetensors files one after another, and come back as they were."""

import os
import subprocess
import sys

import pytest
import safetensors.torch
import torch

from saccade.errors import RunError
from saccade.training.tensor_files import TYPES, read_shapes, read_tensors, serialized


def every_type():
    made = {f"{name} é": torch.arange(6).reshape(2, 3).to(dtype) for dtype, name in TYPES.items()}
    made |= {"none": torch.empty(0, 4), "one": torch.tensor(3.0), 'a"\n': torch.ones(1)}
    return made | {"turned": torch.arange(6.0).reshape(2, 3).T, "b": torch.ones(2).double()}


def test_files_are_those_of_safetensors(tmp_path):
    made = every_type()
    content = b"".join(serialized(made))
    assert content == safetensors.torch.save({k: v.contiguous() for k, v in made.items()})
    assert b"".join(serialized({})) == safetensors.torch.save({})
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    assert read_shapes(path) == {name: tuple(tensor.shape) for name, tensor in made.items()}
    found = read_tensors(path)
    assert found.keys() == made.keys()
    for name, tensor in made.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)


def test_pieces_are_the_tensors_themselves():
    tensor = torch.zeros(1000)
    _, piece = serialized({"x": tensor})
    tensor.fill_(1.0)
    assert bytes(piece[:4]) == b"\x00\x00\x80\x3f"  # no copy was made


@pytest.mark.parametrize("content", [b"", b"garbage" * 9, b"\xff" * 16])
def test_damage_is_said(tmp_path, content):
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    for read in (read_shapes, read_tensors):
        with pytest.raises(RunError, match=r"x\.safetensors cannot be read"):
            read(path)


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "x")
    with pytest.raises(RunError, match="it is a named pipe, not a regular file"):
        read_shapes(tmp_path / "x")


PEAK = """
import sys, os
sys.path.insert(0, {root!r})
from pathlib import Path
import torch
from saccade.training import checkpoint
from saccade.training.checkpoint import Checkpoint
from tests.memory import peak_mib

os.fsync = lambda handle: None
def group():
    return {{f"{{i}}": torch.full((2**20,), float(i)) for i in range(16)}}
made = {{name: group() for name in ("weights", "optimizer", "average")}}
folder = Path({folder!r})
warm = {{name: {{"0": torch.zeros(4)}} for name in made}}
checkpoint.write(folder, Checkpoint(1, warm, {{}}), keep=1)
checkpoint.read(folder / "step-1")
before = peak_mib()
checkpoint.write(folder, Checkpoint(2, made, {{}}), keep=1)
written = peak_mib()
del made
found = checkpoint.read(folder / "step-2")
assert float(found.tensors["average"]["15"][-1]) == 15.0
print(before, written - before, peak_mib() - written)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs Linux's own count")
def test_a_checkpoint_needs_no_second_copy_of_its_tensors(tmp_path):
    """Three groups of 64 MiB: as whole strings they took 256 MiB more."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    code = PEAK.format(root=root, folder=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    before, writing, reading = map(float, done.stdout.split())
    assert before > 192
    assert writing < 32
    assert reading < 96
