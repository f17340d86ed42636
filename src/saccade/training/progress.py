"""The progress of training, and the measurements of its updates and validations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from saccade.training.recipe import TrainingConfig

VALIDATE_EVERY = 0.02
"""Fraction of the budget between validations, unless the recipe sets `validate_every`."""
VALIDATION_COST = 0.1
"""Largest fraction of the time that such validations take."""
TAIL = 3.0
"""Time to reserve after the last update, in validations: the last one, the calibration on the same
data, and the scores of the report. Its other parts are timed by a rehearsal."""
REHEARSED = 0.5
"""Fraction of a budget in minutes after which the report is rehearsed, to know its time."""
PREPARED = 0.5
"""Largest fraction of a budget in minutes that reading and encoding the data take of it."""

Record = dict[str, int | float]
"""Measurements by name, as a line of metrics.jsonl holds them."""


@dataclass(frozen=True)
class TrainingProgress:
    """The progress of a run: with the weights and the optimizer, all there is to resume from.

    `batches` is the number of batches read by all processes, the position in the data. `best` is
    the value of the best weights so far, as `Trainer.judge` gives it. `ended` is why the run ended,
    in words, or empty. `seconds` count from the beginning of the updates. `validated_at` is when
    the last validation ended, and `validation_seconds` how long it took. `prepared` is the time
    before the updates, such as for encoding the data, which a budget in minutes includes.
    `report_seconds` is the estimated time of the report, or negative before its rehearsal.
    """

    step: int = 0
    batches: int = 0
    seconds: float = 0.0
    validated: int = -1
    best: tuple[float, float] | None = None
    best_step: int = 0
    without_better: int = 0
    loss_since: float = 0.0
    count_since: float = 0.0
    ended: str = ""
    validated_at: float = 0.0
    validation_seconds: float = 0.0
    prepared: float = 0.0
    report_seconds: float = -1.0

    def fraction(self, config: TrainingConfig) -> float:
        """Return the fraction of the budget used: of the steps or the minutes, the larger."""
        steps = self.step / config.max_steps if config.max_steps else 1.0
        return max(steps, self.seconds / self.time_limit(config))

    def time_limit(self, config: TrainingConfig) -> float:
        """Return the seconds of updates: the minutes without preparation and report."""
        if config.minutes is None:
            return math.inf
        seconds = 60 * config.minutes - counted_preparation(config, self.prepared)
        tail = TAIL * self.validation_seconds + max(0.0, self.report_seconds)
        return seconds - min(seconds / 2, tail)

    def end(self, config: TrainingConfig) -> str:
        """Return why the run has ended, or an empty string."""
        if self.step >= config.max_steps:
            many = config.max_steps != 1
            return f"all {config.max_steps} steps are done" if many else "the only step is done"
        if config.minutes is not None and self.seconds >= self.time_limit(config):
            many = config.minutes != 1
            return f"the {config.minutes:g} minutes are over" if many else "the minute is over"
        if config.patience and self.without_better >= config.patience:
            many = self.without_better != 1
            last = f"the last {self.without_better} validations were" if many else ""
            return f"{last or 'the last validation was'} no better"
        return ""

    def validation_due(self, config: TrainingConfig) -> bool:
        """Return whether the weights are to be validated and have not been yet."""
        if self.validated >= self.step:
            return False
        if self.end(config) or not self.step:
            return bool(self.end(config))
        if config.validate_every:
            return self.step % config.validate_every == 0
        steps, seconds = self.step - max(0, self.validated), self.seconds - self.validated_at
        used = max(steps / config.max_steps, seconds / self.time_limit(config))
        cheap = VALIDATION_COST * (seconds + self.validation_seconds) >= self.validation_seconds
        return used >= VALIDATE_EVERY and cheap

    def rehearsal_due(self, config: TrainingConfig) -> bool:
        """Return whether the report is to be rehearsed, so that its time can be reserved."""
        if config.minutes is None or self.report_seconds >= 0 or not self.step:
            return False
        return self.seconds >= REHEARSED * self.time_limit(config) and not self.end(config)

    def checkpoint_due(self, config: TrainingConfig) -> bool:
        """Return whether to save; a validation comes first, and the end saves by itself."""
        later = self.validation_due(config) or bool(self.end(config))
        return self.step % config.checkpoint_every == 0 and not later


def counted_preparation(config: TrainingConfig, prepared: float) -> float:
    """Return the seconds of preparation that count towards the minutes: at most half of them."""
    return prepared if config.minutes is None else min(prepared, PREPARED * 60 * config.minutes)


@dataclass(frozen=True)
class Update:
    """Measurements of one update over all processes; `gradient` is the norm before clipping."""

    loss: float
    predictions: int
    padding: float
    gradient: float
    learning_rate: float


class Validation(NamedTuple):
    """Measurements on validation data: the line of metrics.jsonl, and how good the weights are."""

    record: Record
    value: tuple[float, float]
    better: bool
    seconds: float
