"""The user's cache is a folder of the test, and small models have one thread."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from saccade.engines import choice, ready
from saccade.interop import ctranslate2


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache."""
    for module in (choice, ready):
        monkeypatch.setattr(module, "user_cache", lambda: tmp_path / "cache")
    return tmp_path / "cache" / "engines"


@pytest.fixture(autouse=True)
def _no_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the trial in another process, which is slow and has a test of its own."""
    monkeypatch.setattr(ctranslate2, "require_survival", lambda *_: None)
    assert choice.ctranslate2 is ctranslate2


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The quantization of each folder that is written during a test."""
    numbers: list[str] = []
    write = ctranslate2.write_folder

    def counted(task: object, folder: Path, quantization: str) -> None:
        numbers.append(quantization)
        write(task, folder, quantization)  # type: ignore[arg-type]

    monkeypatch.setattr(ctranslate2, "write_folder", counted)
    return numbers
