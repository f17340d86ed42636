"""The folder of an engine: built once, built again after a change, always complete."""

import json
import threading
from pathlib import Path

import pytest
import torch

import saccade
from saccade.engines.cache import ABOUT, EngineCache
from saccade.errors import EngineError
from saccade.interop import ctranslate2
from saccade.interop.ctranslate2 import Check
from saccade.training.run import Run
from tests.engines import tiny

GOOD = Check(compared=3, same=3, tokens=1.0)


@pytest.fixture
def run(tmp_path):
    tiny.translator(tmp_path / "run")
    return tmp_path / "run"


def fill(folder: Path) -> Check:
    (folder / "model.bin").write_bytes(b"weights")
    return GOOD


def refuse(folder: Path) -> Check:
    raise AssertionError("it exists already")


def test_a_folder_is_built_once(run, elsewhere):
    cache = EngineCache(Run(run), elsewhere)
    entry = cache.get("x-int8", fill)
    assert entry.folder == run / "engines" / "x-int8"
    assert cache.get("x-int8", refuse) == entry
    about = json.loads((entry.folder / ABOUT).read_text())
    assert about["files"].keys() == {"model.bin"}
    assert about["check"]["same"] == 3
    assert {"model.safetensors", "recipe.toml", "tokenizer.json"} <= about["origin"].keys()
    names = {path.name for path in (run / "engines").iterdir()}
    assert names - {".x-int8.lock"} == {"x-int8"}
    assert not elsewhere.exists()


def test_the_check_is_kept_completely(run, elsewhere):
    kept = Check(compared=9, same=7, tokens=0.9, quality={"bleu": (30.5, 30.25)})
    cache = EngineCache(Run(run), elsewhere)
    cache.get("x", lambda folder: kept)
    assert cache.get("x", refuse).check == kept


def change_weights(run: Path) -> None:
    task = Run(run).task()
    with torch.no_grad():
        task.model.output.weight[3] += 1
    Run(run).keep_best(task.model)


def change_recipe(run: Path) -> None:
    path = run / "recipe.toml"
    path.write_text(path.read_text().replace("max_length = 12", "max_length = 13"))


def tear(run: Path) -> None:
    (run / "engines" / "x" / "model.bin").write_bytes(b"weight")


def spoil(run: Path) -> None:
    (run / "engines" / "x" / ABOUT).write_text('{"origin": ')


def lose(run: Path) -> None:
    (run / "engines" / "x" / "model.bin").unlink()


@pytest.mark.parametrize("change", [change_weights, change_recipe, tear, spoil, lose])
def test_a_folder_is_built_again_after_a_change(run, elsewhere, change):
    cache, times = EngineCache(Run(run), elsewhere), []

    def count(folder: Path) -> Check:
        times.append(folder)
        return fill(folder)

    cache.get("x", count)
    change(run)
    built = cache.get("x", count)
    assert len(times) == 2
    assert (built.folder / "model.bin").read_bytes() == b"weights"
    cache.get("x", refuse)
    assert [path.name for path in (run / "engines").iterdir() if path.is_dir()] == ["x"]


def test_another_version_builds_its_own_folder(run, elsewhere, monkeypatch):
    cache = EngineCache(Run(run), elsewhere)
    cache.get("x", fill)
    monkeypatch.setattr(ctranslate2, "version", lambda: "99.0")
    with pytest.raises(AssertionError, match="exists already"):
        cache.get("x", refuse)


def test_a_failure_keeps_the_old_folder(run, elsewhere):
    cache = EngineCache(Run(run), elsewhere)
    cache.get("x", fill)
    change_weights(run)
    with pytest.raises(AssertionError):
        cache.get("x", refuse)
    assert (run / "engines" / "x" / "model.bin").read_bytes() == b"weights"
    assert not list((run / "engines").glob(".partial*"))


def test_partial_folders_of_a_killed_process_are_removed(run, elsewhere):
    left = run / "engines" / ".partial-1-x"
    left.mkdir(parents=True)
    (left / "model.bin").write_bytes(b"half")
    EngineCache(Run(run), elsewhere).get("x", fill)
    assert [path.name for path in (run / "engines").iterdir() if path.is_dir()] == ["x"]


def test_uses_the_fallback_if_the_run_is_not_writable(run, elsewhere):
    (run / "engines").write_text("in the way")
    cache = EngineCache(Run(run), elsewhere)
    entry = cache.get("x", fill)
    assert entry.folder.parent.parent == elsewhere
    assert cache.get("x", refuse) == entry
    assert saccade.load(run, engine="ctranslate2").engine.name == "ctranslate2-int8"


def test_raises_if_nothing_is_writable(run, elsewhere):
    (run / "engines").write_text("in the way")
    elsewhere.parent.write_text("in the way, too")
    with pytest.raises(EngineError, match="the files of x could not be written: "):
        EngineCache(Run(run), elsewhere).get("x", fill)
    assert saccade.load(run, engine="auto").engine.name == "eager"


def test_two_processes_build_one_folder(run, elsewhere):
    begun, times = threading.Barrier(2), []

    def slow(folder: Path) -> Check:
        times.append(folder)
        threading.Event().wait(0.2)
        return fill(folder)

    def ask() -> None:
        begun.wait()
        built.append(EngineCache(Run(run), elsewhere).get("x", slow))

    built: list[object] = []
    both = [threading.Thread(target=ask) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert len(times) == 1
    assert built[0] == built[1]
