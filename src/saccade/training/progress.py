"""The progress of a training, and the measurements of its updates and validations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from saccade.training.recipe import TrainingConfig

Record = dict[str, int | float]
"""Measurements by name, as a line of metrics.jsonl holds them."""


@dataclass(frozen=True)
class TrainingProgress:
    """The progress of a run: with the weights and the optimizer, all there is to resume from.

    `batches` is the number of batches read by all processes, the position in the data. `best` is
    the value of the best weights so far, as `Trainer.judge` gives it. `ended` is why the run ended,
    in words, or empty.
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

    def fraction(self, config: TrainingConfig) -> float:
        """Return the fraction of the budget used: of the steps or the minutes, the larger."""
        steps = self.step / config.max_steps if config.max_steps else 1.0
        return max(steps, self.seconds / 60 / config.minutes if config.minutes else 0.0)

    def end(self, config: TrainingConfig) -> str:
        """Return why the run has ended, or an empty string."""
        if self.step >= config.max_steps:
            many = config.max_steps != 1
            return f"all {config.max_steps} steps are done" if many else "the only step is done"
        if config.minutes is not None and self.seconds >= 60 * config.minutes:
            many = config.minutes != 1
            return f"the {config.minutes:g} minutes are over" if many else "the minute is over"
        if config.patience and self.without_better >= config.patience:
            many = self.without_better != 1
            last = f"the last {self.without_better} validations were" if many else ""
            return f"{last or 'the last validation was'} no better"
        return ""

    def validation_due(self, config: TrainingConfig) -> bool:
        """Return whether the weights are to be validated and have not been yet."""
        due = self.step > 0 and self.step % config.validate_every == 0
        return self.validated < self.step and (due or bool(self.end(config)))

    def checkpoint_due(self, config: TrainingConfig) -> bool:
        """Return whether to save; a validation comes first, and the end saves by itself."""
        later = self.validation_due(config) or bool(self.end(config))
        return self.step % config.checkpoint_every == 0 and not later


@dataclass(frozen=True)
class Update:
    """Measurements of one update over all processes; `gradient` is its length before clipping."""

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
