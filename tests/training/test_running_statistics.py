"""Running statistics of batch norm: the same for any number of processes."""

from dataclasses import dataclass

import pytest
import torch
from torch import nn

from saccade.training.distributed import World
from saccade.training.running_statistics import RunningStatistics

BATCHES = [torch.randn(11, 3, generator=torch.Generator().manual_seed(i)) for i in range(5)]


@dataclass(frozen=True)
class Others(World):
    """A world in which the other processes have these sums."""

    sums: torch.Tensor | float = 0.0

    def add_up(self, vector):
        return vector + self.sums


def updated(model, world, own, count):
    statistics = RunningStatistics(model, world)
    statistics.begin()
    for i in range(count):
        model(BATCHES[i])
        statistics.after_batch(float(i in own))
    statistics.finish(count)
    return {name: buffer.clone() for name, buffer in model.named_buffers()}


def test_one_batch_changes_them_as_batch_norm_does():
    model, other = nn.BatchNorm1d(3), nn.BatchNorm1d(3)
    ours = updated(model, World(), {0}, 1)
    other(BATCHES[0])
    for name, buffer in other.named_buffers():
        assert torch.allclose(ours[name], buffer, atol=1e-6), name


@pytest.mark.parametrize("own", [{0, 2, 4}, {1}, set()])
def test_processes_combine_what_their_batches_change(own):
    alone = updated(nn.BatchNorm1d(3), World(), set(range(5)), 5)
    mean = torch.stack([batch.mean(0) for batch in BATCHES]).mean(0)
    assert torch.allclose(alone["running_mean"], 0.1 * mean, atol=1e-6)
    assert alone["num_batches_tracked"] == 5
    sums = []
    other = set(range(5)) - own

    class Listening(Others):
        def add_up(self, vector):
            sums.append(vector)
            return vector

    updated(nn.BatchNorm1d(3), Listening(), other, 5)
    ours = updated(nn.BatchNorm1d(3), Others(sums=sums[0]), own, 5)
    for name, buffer in alone.items():
        assert torch.allclose(ours[name], buffer, atol=1e-6), name


def test_a_model_without_them_is_left_alone():
    assert updated(nn.LayerNorm(3), World(), {0}, 1) == {}
