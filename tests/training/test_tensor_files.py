"""Safetensors files, written and read one tensor after another."""

import os
import subprocess
import sys

import pytest
import safetensors.torch
import torch

from saccade.errors import RunError
from saccade.training.tensor_files import TYPES, read_shapes, read_tensors, serialized


def every_type():
    tensors = {
        f"{name} é": torch.arange(6).reshape(2, 3).to(dtype) for dtype, name in TYPES.items()
    }
    tensors |= {"none": torch.empty(0, 4), "one": torch.tensor(3.0), 'a"\n': torch.ones(1)}
    return tensors | {"turned": torch.arange(6.0).reshape(2, 3).T, "b": torch.ones(2).double()}


def test_files_equal_those_of_safetensors(tmp_path):
    tensors = every_type()
    content = b"".join(serialized(tensors))
    assert content == safetensors.torch.save({k: v.contiguous() for k, v in tensors.items()})
    assert b"".join(serialized({})) == safetensors.torch.save({})
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    assert read_shapes(path) == {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    loaded = read_tensors(path)
    assert loaded.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert loaded[name].dtype == tensor.dtype
        assert torch.equal(loaded[name], tensor)


def test_serialized_copies_nothing():
    tensor = torch.zeros(1000)
    _, piece = serialized({"x": tensor})
    tensor.fill_(1.0)
    assert bytes(piece[:4]) == b"\x00\x00\x80\x3f"  # it is not a copy


@pytest.mark.parametrize("content", [b"", b"garbage" * 9, b"\xff" * 16])
def test_raises_on_a_damaged_file(tmp_path, content):
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    for read in (read_shapes, read_tensors):
        with pytest.raises(RunError, match=r"x\.safetensors cannot be read"):
            read(path)


def test_raises_on_a_pipe_without_blocking(tmp_path):
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
tensors = {{name: group() for name in ("weights", "optimizer", "average")}}
folder = Path({folder!r})
warm = {{name: {{"0": torch.zeros(4)}} for name in tensors}}
checkpoint.write(folder, Checkpoint(1, warm, {{}}), keep=1)
checkpoint.read(folder / "step-1")
before = peak_mib()
checkpoint.write(folder, Checkpoint(2, tensors, {{}}), keep=1)
written = peak_mib()
del tensors
loaded = checkpoint.read(folder / "step-2")
assert float(loaded.tensors["average"]["15"][-1]) == 15.0
print(before, written - before, peak_mib() - written)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs Linux's own count")
def test_a_checkpoint_makes_no_second_copy_of_its_tensors(tmp_path):
    """Three groups of 64 MiB; in one string they took 256 MiB more."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    code = PEAK.format(root=root, folder=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    before, writing, reading = map(float, done.stdout.split())
    assert before > 192
    assert writing < 32
    assert reading < 96
