"""Measure the time of an update with a few updates before training begins."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from statistics import median

from saccade.data.corpus import Split
from saccade.data.sample import sample
from saccade.tasks import Task
from saccade.training import precision as precisions
from saccade.training.distributed import World
from saccade.training.loop import TrainingData
from saccade.training.precision import Precision
from saccade.training.recipe import Recipe, TrainingConfig

WARM, MEASURED = 1, 5
"""Number of warm-up updates, which are slower, and of timed updates."""
SECONDS = 3.0
"""Seconds after which no further update is timed."""
TRAINED = 0.85
"""Fraction of a budget in minutes that updates take; the rest is validation and the report."""
LEARNED, ENCODED, IMAGES = 20_000, 2_000, 256
"""Maximum number of rows to learn vocabularies from, to encode, and to read images of."""


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


def epochs_within(recipe: Recipe, train: Split, minutes: float) -> float:
    """Estimate how many times training reads its data in some minutes, by a trial of a few seconds.

    Args:
        recipe: the recipe.
        train: the training data.
        minutes: the budget.
    """
    config, images = recipe.training, any(column.image for column in recipe.options.columns)
    learned = sample(train, IMAGES if images else LEARNED)
    rows = sample(learned, ENCODED)
    task = recipe.options.create(learned)
    device = precisions.pick_device("auto")
    with tempfile.TemporaryDirectory() as folder:
        examples = task.encode(rows, Path(folder))
        plan = config.plan(task.sizes(examples))
        data = TrainingData(examples, plan, examples, [])
        precision = precisions.choose("auto", device)
        seconds = seconds_per_update(task, data, config, World(device=device), precision)
    epoch = plan.updates_per_epoch * train.count() / rows.count()
    return 60 * minutes * TRAINED / seconds / epoch
