"""Running statistics of batch norm that do not depend on the number of processes."""

from __future__ import annotations

import torch
from torch import nn

from saccade.shapes import Tensor
from saccade.training.distributed import World


class RunningStatistics:
    """Running means and variances of the batch norms of a model.

    One batch after the other would change them, in another order for every number of processes. So
    each batch of an update begins with the same statistics, and their mean is kept. With one batch
    per update, this is what batch norm does by itself.

    Args:
        model: the model.
        world: the processes that train it together.
    """

    def __init__(self, model: nn.Module, world: World) -> None:
        norms = [
            module
            for module in model.modules()
            if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d) and module.track_running_stats
        ]
        self.world = world
        self.buffers = [buffer for module in norms for buffer in module.buffers(recurse=False)]
        self.before: list[Tensor] = []
        self.changes: list[Tensor] = []

    @torch.no_grad()
    def begin(self) -> None:
        """Remember the statistics before an update."""
        self.before = [buffer.clone() for buffer in self.buffers]
        self.changes = [torch.zeros_like(buffer) for buffer in self.buffers]

    @torch.no_grad()
    def after_batch(self, weight: float) -> None:
        """Add up what a batch has changed; weight 0 leaves it out."""
        if weight:
            for buffer, before, change in zip(self.buffers, self.before, self.changes, strict=True):
                change.add_(buffer - before)
        for buffer, before in zip(self.buffers, self.before, strict=True):
            buffer.copy_(before)

    @torch.no_grad()
    def finish(self, batches: int) -> None:
        """Combine what the batches of all processes have changed, of which there are this many."""
        if not self.buffers:
            return
        vector = torch.cat([change.double().flatten() for change in self.changes])
        parts = self.world.add_up(vector).split([change.numel() for change in self.changes])
        for buffer, before, part in zip(self.buffers, self.before, parts, strict=True):
            counts = not buffer.is_floating_point()  # the number of batches, which is not averaged
            change = part.view_as(buffer) / (1 if counts else batches)
            buffer.copy_(before + change.to(buffer.dtype))
