"""Models without memory: they have shapes, take none of the random numbers, and are never many."""

import threading

import pytest
import torch
from torch import nn

from saccade.errors import RunError
from saccade.training.outline import without_memory


def test_a_model_of_terabytes_takes_no_memory():
    with without_memory(10, "it"):
        model = nn.Sequential(nn.Linear(10**6, 10**7), nn.Embedding(10**9, 10**4))
    assert model[0].weight.shape == (10**7, 10**6)
    assert all(parameter.is_meta for parameter in model.parameters())
    assert not nn.Linear(2, 2).weight.is_meta


def test_the_random_state_is_unchanged():
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    with without_memory(10, "it"):
        nn.init.trunc_normal_(nn.Embedding(3, 5).weight)
        torch.empty(3).normal_()
    assert torch.equal(torch.rand(1), expected)


def test_raises_on_too_many_tensors():
    many = pytest.raises(RunError, match="it describes a model of more than 10 tensors")
    with many, without_memory(10, "it"):
        nn.Sequential(*(nn.Linear(2, 2) for _ in range(10**9)))
    nn.Sequential(*(nn.Linear(2, 2) for _ in range(20)))  # later ones are not counted


def test_modules_of_other_threads_are_not_counted():
    with without_memory(1, "it"):
        other = threading.Thread(target=lambda: nn.Linear(2, 2))
        other.start()
        other.join()
        nn.Linear(2, 2, bias=False)
