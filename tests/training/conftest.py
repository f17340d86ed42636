"""A folder with a tiny recipe and data, and children that are cheap to start."""

import os

import pytest
import torch

from tests.training.forks import Forks
from tests.training.runs import prepare


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def _unsynced(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda handle: None)  # tests need not survive a power cut


@pytest.fixture
def place(tmp_path):
    return prepare(tmp_path)


@pytest.fixture(scope="session")
def forks():
    with Forks() as running:
        yield running
