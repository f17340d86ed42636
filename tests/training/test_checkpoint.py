"""A checkpoint is complete or not there, whatever happens while it is written."""

import contextlib
import copy
import errno
import hashlib
import json
import logging
import os
import shutil

import pytest
import safetensors.torch
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from saccade.errors import DiskFullError, RunError, WriteError
from saccade.files import clean_up
from saccade.training import checkpoint
from saccade.training.checkpoint import Checkpoint, newest, read, steps, write
from tests.training.runs import same

CALLS = ("mkdir", "fsync", "replace", "unlink", "rmdir")


def checkpoint_at(step, seed=None):
    generator = torch.Generator().manual_seed(step if seed is None else seed)
    weights = {
        "a": torch.randn(3, 5, generator=generator),
        "b": torch.randn(2, generator=generator),
    }
    optimizer = {"0.step": torch.tensor(float(step)), "0.exp_avg": weights["a"] * 2}
    tensors = {"weights": weights, "optimizer": optimizer, "average": {}}
    return Checkpoint(step, tensors, {"step": step, "best": [0.1 * step, float("inf")], "é": "\0"})


def equal(one, other):
    groups = one.tensors.keys() == other.tensors.keys()
    tensors = groups and all(same(one.tensors[k], other.tensors[k]) for k in one.tensors)
    return tensors and one.step == other.step and one.state == other.state


def test_read_returns_what_was_written(tmp_path):
    assert newest(tmp_path / "nowhere") is None
    path = write(tmp_path / "c", checkpoint_at(7), keep=2)
    assert path == tmp_path / "c" / "step-7"
    assert equal(newest(tmp_path / "c"), checkpoint_at(7))
    assert sorted(os.listdir(path)) == [
        "MANIFEST.json",
        "average.safetensors",
        "optimizer.safetensors",
        "state.json",
        "weights.safetensors",
    ]


def test_write_keeps_the_newest_checkpoints(tmp_path):
    for step in (9, 10, 100, 101):
        write(tmp_path, checkpoint_at(step), keep=2)
    assert steps(tmp_path) == [100, 101]
    (tmp_path / "step-x").mkdir()
    (tmp_path / "step-²").mkdir()
    (tmp_path / "step-7").touch()
    assert steps(tmp_path) == [100, 101]


class Crash(BaseException):
    pass


def crash_at(monkeypatch, number, *, after):
    """Crash at the system call of this number; return the count of calls."""
    count = [0]

    def wrapped(plain):
        def call(*args, **kwargs):
            count[0] += 1
            if count[0] == number and not after:
                raise Crash
            last = count[0] == number
            try:
                return plain(*args, **kwargs)
            finally:
                if last:
                    raise Crash

        return call

    for name in CALLS:
        monkeypatch.setattr(os, name, wrapped(getattr(os, name)))
    return count


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    ("there", "step", "keep"),
    [
        ([], 5, 2),
        ([5], 10, 1),
        ([5, 10], 15, 2),
        ([10], 10, 1),  # a step that is repeated
        ([5, 10], 10, 1),
    ],
)
def test_a_crash_at_any_system_call_loses_nothing(
    tmp_path, monkeypatch, caplog, there, step, keep, after
):
    number = 0
    while True:
        number += 1
        folder = tmp_path / str(number)
        for old in there:
            write(folder, checkpoint_at(old), keep=9)
        with monkeypatch.context() as patch:
            count = crash_at(patch, number, after=after)
            with contextlib.suppress(Crash):
                write(folder, checkpoint_at(step, seed=99), keep=keep)
        if count[0] < number:
            break
        clean_up(folder)
        loaded = newest(folder)
        options = [checkpoint_at(step, seed=99), *([checkpoint_at(there[-1])] if there else [])]
        assert (loaded is None and not there) or any(equal(loaded, option) for option in options)
        assert not [path for path in folder.glob("*") if not path.name.startswith("step-")]
        write(folder, checkpoint_at(step + 1), keep=keep)  # and training continues
        assert equal(newest(folder), checkpoint_at(step + 1))
        assert len(steps(folder)) <= max(keep, 1)
    assert number > 10  # it crashed at every call
    assert not caplog.records  # nothing was ever damaged


@pytest.mark.parametrize("there", [[5], [10]])
def test_a_full_disk_at_any_call_keeps_the_old_checkpoint(tmp_path, monkeypatch, there):
    number = 0
    while True:
        number += 1
        folder = tmp_path / str(number)
        write(folder, checkpoint_at(there[0]), keep=1)
        left = [number]

        def full(plain, left=left):
            def call(*args, **kwargs):
                left[0] -= 1
                if left[0] == 0:
                    raise OSError(errno.ENOSPC, "No space left on device")
                return plain(*args, **kwargs)

            return call

        with monkeypatch.context() as patch:
            for name in ("mkdir", "fsync", "replace"):
                patch.setattr(os, name, full(getattr(os, name)))
            patch.setattr(checkpoint, "serialized", full(checkpoint.serialized))
            with contextlib.suppress(DiskFullError):
                write(folder, checkpoint_at(10, seed=99), keep=1)
        if left[0] > 0:
            break
        loaded = newest(folder)
        options = [checkpoint_at(there[0]), checkpoint_at(10, seed=99)]
        assert any(equal(loaded, option) for option in options)
        assert all(name.startswith("step-") for name in os.listdir(folder))
    assert number > 8


def test_raises_disk_full_error_on_a_full_disk(tmp_path, monkeypatch):
    def full(path, content):
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr(checkpoint, "write_pieces", full)
    with pytest.raises(
        DiskFullError, match="step-10 could not be written; the checkpoint before"
    ) as e:
        write(tmp_path, checkpoint_at(10), keep=1)
    assert e.value.errno == errno.ENOSPC


def test_raises_write_error_when_the_disk_fails(tmp_path, monkeypatch):
    write(tmp_path, checkpoint_at(5), keep=1)

    def broken(handle):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(WriteError, match=r"step-10 could not be written \(Input/output error\)"):
        write(tmp_path, checkpoint_at(10), keep=1)
    assert os.listdir(tmp_path) == ["step-5"]


FILES = ["MANIFEST.json", "state.json", "weights.safetensors", "optimizer.safetensors"]


def damage(path, how):
    if how == "missing":
        path.unlink()
    elif how == "truncated":
        path.write_bytes(path.read_bytes()[:-1])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "garbage":
        path.write_bytes(b"\xff\x00garbage")
    elif how == "longer":
        path.write_bytes(path.read_bytes() + b" ")
    elif how == "a folder":
        path.unlink()
        path.mkdir()


HOW = ["missing", "truncated", "empty", "garbage", "longer", "a folder"]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_checkpoint_is_set_aside_and_the_one_before_is_used(tmp_path, caplog, name, how):
    for step in (5, 10):
        write(tmp_path, checkpoint_at(step), keep=2)
    damage(tmp_path / "step-10" / name, how)
    assert equal(newest(tmp_path), checkpoint_at(5))
    assert sorted(os.listdir(tmp_path)) == ["corrupt-step-10", "step-5"]
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "step-10 is damaged" in record.message
    assert "corrupt-step-10; trying step 5" in record.message


@settings(max_examples=60, deadline=None, suppress_health_check=[*HealthCheck])
@given(st.sampled_from(FILES), st.integers(0), st.integers(0, 7))
def test_any_flipped_bit_is_detected(tmp_path_factory, name, place, bit):
    folder = tmp_path_factory.mktemp("flipped")
    path = write(folder, checkpoint_at(10), keep=1) / name
    content = bytearray(path.read_bytes())
    content[place % len(content)] ^= 1 << bit
    path.write_bytes(content)
    assert newest(folder) is None


def test_a_manifest_of_another_step_counts_as_damage(tmp_path, caplog):
    path = write(tmp_path, checkpoint_at(10), keep=1) / "MANIFEST.json"
    table = json.loads(path.read_text())
    path.write_bytes(checkpoint._json(table | {"step": 11}))
    assert newest(tmp_path) is None
    assert "training starts from step 0" in caplog.text


def test_damaged_checkpoints_get_free_names(tmp_path, caplog):
    for round_ in range(2):
        for step in (5, 10):
            write(tmp_path, checkpoint_at(step), keep=2)
            (tmp_path / f"step-{step}" / "state.json").unlink()
        assert newest(tmp_path) is None
        assert len(os.listdir(tmp_path)) == 2 * (round_ + 1)
    assert (tmp_path / "corrupt-step-5-1").is_dir()
    assert caplog.text.count("training starts from step 0") == 2


def test_an_empty_folder_counts_as_damage(tmp_path):
    write(tmp_path, checkpoint_at(5), keep=2)
    (tmp_path / "step-9").mkdir()
    assert newest(tmp_path).step == 5


def test_an_unreadable_checkpoint_is_not_set_aside(tmp_path, monkeypatch):
    write(tmp_path, checkpoint_at(5), keep=2)

    def denied(path, **options):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(checkpoint, "fingerprint", denied)
    with pytest.raises(RunError, match="cannot be read"):
        newest(tmp_path)
    assert os.listdir(tmp_path) == ["step-5"]


def test_read_raises_with_the_name_of_the_damaged_file(tmp_path):
    path = write(tmp_path, checkpoint_at(5), keep=2)
    shutil.copytree(path, tmp_path / "elsewhere" / "step-5")
    assert equal(read(tmp_path / "elsewhere" / "step-5"), checkpoint_at(5))
    (path / "weights.safetensors").write_bytes(b"")
    with pytest.raises(RunError, match=r"weights.safetensors is not what was written"):
        read(path)


def test_an_optimizer_is_restored_to_the_bit():
    def stepped(count, state=None):
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 2)
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        if state:
            checkpoint.restore_optimizer(optimizer, copy.deepcopy(state[0]))
            model.load_state_dict(state[1])
        for i in range(count):
            optimizer.zero_grad()
            model(torch.full((1, 3), float(i + 1))).square().sum().backward()
            optimizer.step()
        return checkpoint.flatten_optimizer(optimizer), model.state_dict()

    begun = stepped(3)
    parts = ("step", "exp_avg", "exp_avg_sq")
    assert set(begun[0]) == {f"{i}.{name}" for i in "01" for name in parts}
    again = stepped(0, begun)
    assert same(again[0], begun[0])
    assert checkpoint.flatten_optimizer(torch.optim.AdamW(torch.nn.Linear(1, 1).parameters())) == {}
    both = [stepped(2, begun), stepped(2, begun)]
    assert same(both[0][1], both[1][1])
    assert not same(both[0][1], begun[1])


def test_checkpoints_of_older_versions_can_be_read(tmp_path):
    """Older versions wrote each file in one piece, by safetensors; the files are the same."""
    path = tmp_path / "step-7"
    path.mkdir()
    contents = {
        f"{group}.safetensors": safetensors.torch.save(dict(tensors))
        for group, tensors in checkpoint_at(7).tensors.items()
    }
    contents["state.json"] = json.dumps(checkpoint_at(7).state, indent=1).encode()
    files = {
        name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for name, content in contents.items()
    }
    contents["MANIFEST.json"] = json.dumps({"step": 7, "files": files}, indent=1).encode()
    for name, content in contents.items():
        (path / name).write_bytes(content)
    assert equal(newest(tmp_path), checkpoint_at(7))
    again = write(tmp_path / "again", checkpoint_at(7), keep=1)
    for name, content in contents.items():
        assert (again / name).read_bytes() == content
