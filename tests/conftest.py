"""Shared by all tests: a fixed seed, and the scores and masks that properties range over."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)
