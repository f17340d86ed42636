"""The time that an update takes, measured by a few updates before a training begins."""

from __future__ import annotations

import time
from statistics import median

from saccade.tasks import Task
from saccade.training.distributed import World
from saccade.training.loop import TrainingData
from saccade.training.precision import Precision
from saccade.training.recipe import TrainingConfig

WARM, MEASURED = 1, 5
"""Updates before time is measured, since the first ones are slower, and measured updates."""
SECONDS = 3.0
"""Time after which no further update is measured."""


def seconds_per_update(
    task: Task, data: TrainingData, config: TrainingConfig, world: World, precision: Precision
) -> float:
    """Return the median time of an update of this process, in seconds.

    Args:
        task: the task; its weights are changed.
        data: the data of the training.
        config: the `[training]` options of its recipe.
        world: this process among those that train together.
        precision: the precision of the forward pass.
    """
    task.to(world.device).train()
    optimizer = config.optim.build(task.model, config.learning_rate)
    began, durations = time.monotonic(), list[float]()
    for number in range(WARM + MEASURED):
        start = time.monotonic()
        for _, rows in data.plan.update(number * data.plan.size):
            with precision.autocast():
                loss = task(task.collate(data.train, rows).to(world.device))
            (loss.total / max(1, loss.count)).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        durations.append(time.monotonic() - start)
        if number >= WARM and time.monotonic() - began > SECONDS:
            break
    return median(durations[WARM:])
