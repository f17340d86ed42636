"""Fixtures for tests against transformers; any use of the network fails."""

import os
import socket
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import transformers

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket.socket, "connect", fail)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """These models are so small that threads cost more than they save."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def _quiet_reference() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"transformers(\.|$)")
        yield


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "theirs"
