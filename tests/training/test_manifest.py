"""The manifest of a run: damage is detected, and after any crash the run still loads."""

import contextlib
import json
import os
import shutil
import threading

import pytest
import torch

import saccade
from saccade import files
from saccade.errors import RunError
from saccade.files import Fingerprint
from saccade.training import manifest
from saccade.training.manifest import MANIFEST, Manifest, accept, replace_files, require_intact
from saccade.training.run import Run, tensors_of
from saccade.training.warm_start import open_warm_start
from tests.training.runs import prepare, train


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run, which no test changes."""
    folder = prepare(tmp_path_factory.mktemp("listed") / "it")
    train(folder, "run", max_steps=4)
    return folder / "run"


@pytest.fixture
def run(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "run")


def flip(path, place=-1):
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def test_the_manifest_lists_weights_and_parts(finished):
    listed = Manifest.read(finished)
    assert set(listed.files) == {
        "alignment.json",
        "baseline.json",
        "evaluation.json",
        "model.safetensors",
        "tokenizer.json",
    }
    assert not listed.replaced
    for name, entry in listed.files.items():
        assert entry.bytes == (finished / name).stat().st_size


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_raises_on_a_flipped_byte_until_it_is_accepted(run, name):
    place = -3
    if name == "tokenizer.json":
        place = (run / name).read_bytes().index(b'h"')  # it becomes i, and stays readable
    flip(run / name, place)
    with pytest.raises(RunError, match=rf"{name} is damaged or .* `saccade accept {run}`"):
        saccade.load(run)
    if name == "model.safetensors":
        with pytest.raises(RunError, match=r"model\.safetensors is damaged or was changed"):
            open_warm_start(run)
    assert Run(run).accept() == [name]
    saccade.load(run)
    assert Run(run).accept() == []


def test_a_run_without_a_manifest_loads(run):
    (run / MANIFEST).unlink()
    flip(run / "model.safetensors")
    saccade.load(run)
    assert "model.safetensors" in Run(run).accept()
    flip(run / "model.safetensors")
    with pytest.raises(RunError, match="is damaged or was changed"):
        saccade.load(run)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b'{"files": 3}',
        b'{"files": {"x": 3}}',
        b'{"files": {"x": {"bytes": "1", "sha256": ""}}}',
        b'{"files": {"../x": {"bytes": 1, "sha256": ""}}}',
        b'{"files": {}, "more": 1}',
        b'{"files": {}, "replaced": {"x": 1}}',
        b"[" * 100_000,
    ],
)
def test_raises_on_a_damaged_manifest_until_it_is_rewritten(run, content):
    (run / MANIFEST).write_bytes(content)
    with pytest.raises(RunError, match=r"MANIFEST\.json is damaged: .* `saccade accept"):
        saccade.load(run)
    Run(run).accept()
    saccade.load(run)


def test_accept_raises_without_a_run(tmp_path):
    with pytest.raises(RunError, match="does not exist; check the path"):
        Run(tmp_path / "nowhere").accept()
    assert not (tmp_path / "nowhere").exists()


def test_accept_raises_while_a_training_holds_the_lock(run):
    with Run(run).locked(), pytest.raises(RunError, match="another process is training"):
        Run(run).accept()


class Crash(BaseException):
    pass


@pytest.mark.parametrize("after", [False, True])
def test_a_crash_at_any_system_call_leaves_a_run_that_loads(run, monkeypatch, after):
    """Also if it crashes again while it repeats the write."""
    other = saccade.load(run)
    before = tensors_of(saccade.load(run).model)
    number = 0
    while True:
        number += 1
        count = [0]

        def crashing(plain, number=number, count=count):
            def call(*args, **options):
                count[0] += 1
                if count[0] == number and not after:
                    raise Crash
                try:
                    return plain(*args, **options)
                finally:
                    if count[0] == number:
                        raise Crash

            return call

        with torch.no_grad():
            next(other.model.parameters()).add_(1.0)
        with monkeypatch.context() as patch:
            for name in ("fsync", "replace", "unlink"):
                patch.setattr(os, name, crashing(getattr(os, name)))
            with contextlib.suppress(Crash):
                Run(run).keep_best(other.model)
        loaded = tensors_of(saccade.load(run).model)
        new = tensors_of(other.model)
        assert any(all(torch.equal(loaded[k], x[k]) for k in loaded) for x in (before, new))
        before = loaded
        if count[0] < number:
            break
    assert number > 6
    assert not Manifest.read(run).replaced


def test_a_reader_never_fails_while_files_are_replaced(tmp_path, monkeypatch):
    """The file is replaced between reading the manifest and reading the file, every time."""
    replace_files(tmp_path, {"x": b"0"})
    plain, count = manifest._fingerprint, [0]

    def late(path, accepted):
        count[0] += 1
        if count[0] % 2:
            replace_files(tmp_path, {"x": str(count[0]).encode()})
        return plain(path, accepted)

    monkeypatch.setattr(manifest, "_fingerprint", late)
    for _ in range(3):
        require_intact(tmp_path)
    assert count[0] == 6  # every file was read twice


def test_concurrent_readers_and_a_writer(tmp_path):
    replace_files(tmp_path, {"x": b"0"})
    stop, errors = threading.Event(), []

    def read():
        while not stop.is_set():
            try:
                require_intact(tmp_path)
            except Exception as error:
                errors.append(error)
                return

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(60):
        replace_files(tmp_path, {"x": b"%d" % number * 2000})
    stop.set()
    reader.join()
    assert not errors


def test_a_file_of_another_size_is_not_read(tmp_path):
    """A sparse file of a terabyte raises at once."""
    replace_files(tmp_path, {"x": b"0"})
    with (tmp_path / "x").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(RunError, match="is damaged or was changed"):
        require_intact(tmp_path)


def test_fingerprints_equal_sha256sum(tmp_path):
    replace_files(tmp_path, {"x": [b"ab", memoryview(b"c")]})
    digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert Manifest.read(tmp_path).files == {"x": Fingerprint(3, digest)}
    assert json.loads((tmp_path / MANIFEST).read_text()) == {
        "files": {"x": {"bytes": 3, "sha256": digest}}
    }
    assert accept(tmp_path) == []
    assert files.PARTIAL not in "".join(os.listdir(tmp_path))
