"""The training loop, to be read from top to bottom.

It knows the Task seam and nothing of models. Random numbers are a function of (seed, batch), the
position in the data is one of (seed, batches read): a resumed run is the run it would have been.
"""

from __future__ import annotations

import math
import time
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch

from saccade.cancellation import raise_if_cancelled
from saccade.data.batches.plan import Plan, batches, padding_share
from saccade.data.corpus import Item
from saccade.data.store.cache import Encoded
from saccade.errors import StoppedError, TrainingError
from saccade.tasks import Evaluation, Task
from saccade.training import checkpoint
from saccade.training.checkpoint import Checkpoint
from saccade.training.console import Console
from saccade.training.distributed import World
from saccade.training.interruption import Interruption
from saccade.training.metric_log import MetricLog
from saccade.training.optim import Average
from saccade.training.precision import Precision
from saccade.training.recipe import TrainingConfig
from saccade.training.run import Run, put_tensors, tensors_of


@dataclass(frozen=True)
class TrainingData:
    """What is trained on and what is validated on."""

    train: Encoded
    plan: Plan
    valid: Encoded
    items: list[Item]


@dataclass(frozen=True)
class Progress:
    """How far a run has come; with the weights and the optimizer, all there is to resume from.

    `batches` is the number of batches read by all processes, the position in the data.
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

    def share(self, config: TrainingConfig) -> float:
        """The share of the budget that is used up: of the steps or the minutes, the larger."""
        steps = self.step / config.max_steps if config.max_steps else 1.0
        return max(steps, self.seconds / 60 / config.minutes if config.minutes else 0.0)

    def end(self, config: TrainingConfig) -> str:
        """Why the run is over, or nothing."""
        if self.step >= config.max_steps:
            return f"all {config.max_steps} steps are done"
        if config.minutes is not None and self.seconds >= 60 * config.minutes:
            return f"the {config.minutes:g} minutes are over"
        if config.patience and self.without_better >= config.patience:
            return f"the last {self.without_better} validations were no better"
        return ""

    def validation_due(self, config: TrainingConfig) -> bool:
        """Whether these weights are to be measured, and have not been."""
        due = self.step > 0 and self.step % config.validate_every == 0
        return self.validated < self.step and (due or bool(self.end(config)))

    def checkpoint_due(self, config: TrainingConfig) -> bool:
        """Whether to save; a validation comes first, and the end saves by itself."""
        later = self.validation_due(config) or bool(self.end(config))
        return self.step % config.checkpoint_every == 0 and not later


@dataclass(frozen=True)
class Update:
    """What one update was like, over all processes."""

    loss: float
    predictions: int
    padding: float
    gradient: float
    learning_rate: float


def seed_of_batch(seed: int, index: int) -> int:
    """The seed of all that is drawn for a batch; on a CPU, torch takes its lower 32 bits alone."""
    return int(np.random.SeedSequence([seed, index]).generate_state(1, np.uint64)[0])


@dataclass
class Trainer:
    """A task in training."""

    task: Task
    material: TrainingData
    config: TrainingConfig
    run: Run
    world: World
    device: torch.device
    precision: Precision
    console: Console
    interruption: Interruption

    def __post_init__(self) -> None:
        self.optimizer = self.config.optim.make(self.task.model, self.config.learning_rate)
        self.average = Average(self.config.average, self.task.model)
        self.learner = self.world.wrap(self.task)
        self.stopping = False

    def fit(self) -> Progress:
        """Train until the budget is used up, going on from the newest checkpoint."""
        config, progress = self.config, self.restore()
        self.clock = time.monotonic() - progress.seconds
        self.track = MetricLog(self.run, progress.step)
        with self.interruption.heeded(), closing(self.track), self.console:
            self.console.begin(progress, config, self.task.unit)
            while not progress.end(config) or progress.validation_due(config):
                if progress.validation_due(config):
                    progress = self.validate(progress)
                else:
                    progress = self.update(progress)
                if self.stopping or progress.checkpoint_due(config):
                    self.save(progress)
                if self.stopping:
                    raise self.interruption.error(self.run.folder, progress.step)
            if progress.ended != progress.end(config):
                progress = replace(progress, ended=progress.end(config))
                self.save(progress)
        return progress

    def update(self, progress: Progress) -> Progress:
        """One update, by the gradient of the mean loss over the predictions of all its batches."""
        step, config = progress.step, self.config
        learning_rate = config.learning_rate * config.optim.factor(step, progress.share(config))
        self.task.train()
        self.optimizer.zero_grad(set_to_none=True)
        assigned = self.material.plan.update(progress.batches)
        total = count = 0.0
        for i, (index, rows) in enumerate(assigned):
            torch.manual_seed(seed_of_batch(config.seed, index))
            batch = self.task.collate(self.material.train, rows).to(self.device)
            last = i == len(assigned) - 1
            with nullcontext() if last else self.world.alone(self.learner):
                with self.precision.autocast():
                    loss = self.learner(batch)
                loss.total.backward()
            total += loss.total.item()
            count += loss.count
        asked = float(self.interruption.asked)
        total, count, asked, seconds = self.world.sum([total, count, asked, self.seconds()])
        self.stopping = asked > 0
        gradient = self.scale_gradient(self.world.size / max(1.0, count))
        if not (math.isfinite(total) and math.isfinite(gradient)):
            raise TrainingError(
                f"at step {step + 1} the loss is {total / max(1.0, count)} and the gradient "
                f"{gradient}: training stops before it changes the weights. A lower learning rate "
                f"(here {learning_rate:.3g}), a longer warm-up or clipping may help"
            )
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate * group["scale"]
        self.optimizer.step()
        self.average.after_update(step)
        padding = padding_share(self.material.plan.lengths, [rows for _, rows in assigned])
        update = Update(total / max(1.0, count), int(count), padding, gradient, learning_rate)
        progress = replace(
            progress,
            step=step + 1,
            batches=progress.batches + self.material.plan.size,
            seconds=seconds,
            loss_since=progress.loss_since + total,
            count_since=progress.count_since + count,
        )
        if self.world.first:
            speed = self.console.updated(progress, update)
            if progress.step % config.log_every == 0:
                rate = {f"{self.task.unit}_per_second": speed}
                self.track.note({"step": step + 1, **asdict(update), **rate})
        return progress

    def seconds(self) -> float:
        """How long the run has taken; the first process's clock is everybody's."""
        return time.monotonic() - self.clock if self.world.first else 0.0

    def scale_gradient(self, factor: float) -> float:
        """Multiply the gradient, and shorten it if it is too long; how long it was."""
        gradients = [p.grad for p in self.task.model.parameters() if p.grad is not None]
        length = float(torch.nn.utils.get_total_norm(gradients)) * factor
        clip = self.config.optim.clip
        shorter = clip / length if clip and length > clip else 1.0
        torch._foreach_mul_(gradients, factor * shorter)
        return length

    def validate(self, progress: Progress) -> Progress:
        """Measure on data that is not trained on; keep the weights if they are the best so far.

        The first process does it, the others wait for its result.
        """
        self.average.before_validation(progress.step)
        found = self.world.from_first(lambda: self.compare(progress))
        if found is None:
            self.stopping = True
            return progress
        worth, better, seconds = found
        return replace(
            progress,
            seconds=seconds,
            validated=progress.step,
            best=(worth[0], worth[1]) if better else progress.best,
            best_step=progress.step if better else progress.best_step,
            without_better=0 if better else progress.without_better + 1,
            loss_since=0.0,
            count_since=0.0,
        )

    def compare(self, progress: Progress) -> tuple[tuple[float, float], bool, float] | None:
        """Return the value of the weights, whether it is the best so far, and the run's seconds.

        None if the validation was interrupted.
        """
        try:
            with self.average.in_place():
                with self.interruption.cancelling():
                    record, evaluation = self.measure(progress)
                worth = self.judge(record, evaluation)
                better = all(map(math.isfinite, worth)) and (
                    progress.best is None or worth < progress.best
                )
                if better:
                    self.run.keep_best(self.task.model)
        except StoppedError:
            return None
        self.track.note(record)
        self.console.validated(record, evaluation, better=better)
        return worth, better, self.seconds()

    def measure(self, progress: Progress) -> tuple[dict[str, Any], Evaluation | None]:
        """The loss over the validation data, and the metrics of the answers to some of it."""
        total = count = 0.0
        self.task.eval()
        valid = self.material.valid
        with torch.no_grad():
            for rows in batches(self.task.sizes(valid), self.config.batch_tokens, seed=0, epoch=0):
                raise_if_cancelled()
                loss = self.task(self.task.collate(valid, rows).to(self.device))
                total, count = total + float(loss.total), count + loss.count
        record: dict[str, Any] = {
            "step": progress.step,
            "epoch": round(self.material.plan.epoch_of(progress.batches), 4),
            "seconds": round(progress.seconds, 3),
            "train_loss": progress.loss_since / max(1.0, progress.count_since),
            "valid_loss": total / max(1.0, count),
        }
        evaluation = None
        if self.material.items:
            evaluation = self.task.evaluate(self.material.items, quick=True)
            record |= evaluation.values()
        return record, evaluation

    def judge(self, record: dict[str, Any], evaluation: Evaluation | None) -> tuple[float, float]:
        """What the weights are worth: less is better, and the loss decides between equals."""
        loss = record["valid_loss"]
        if self.config.select_by == "loss" or evaluation is None:
            return loss, loss
        score = evaluation.scores[self.task.selection_metric]
        return -score.value if score.higher_is_better else score.value, loss

    def save(self, progress: Progress) -> None:
        """Write a checkpoint; the first process does, the others wait for it."""
        if self.world.first:
            state = asdict(progress) | {"metrics_size": self.run.sync_metrics()}
            tensors = {
                "weights": tensors_of(self.task.model),
                "optimizer": checkpoint.flatten_optimizer(self.optimizer),
                "average": self.average.tensors(),
            }
            checkpoint.write(
                self.run.checkpoints,
                Checkpoint(progress.step, tensors, state),
                keep=self.config.keep_checkpoints,
            )
        self.world.wait()

    def restore(self) -> Progress:
        """Go back to the newest whole checkpoint; without one, to the beginning."""
        if self.world.first:  # it clears and sets aside; the others then read its choice
            checkpoint.tidy(self.run.checkpoints)
        else:
            self.world.wait()
        found = checkpoint.newest(self.run.checkpoints)
        if self.world.first:
            self.run.cut_metrics(0 if found is None else found.state["metrics_size"])
            self.world.wait()
        if found is None:
            return Progress()
        put_tensors(self.task.model, found.tensors["weights"], f"checkpoint {found.step}")
        checkpoint.restore_optimizer(self.optimizer, found.tensors["optimizer"])
        self.average.restore(found.tensors["average"])
        state = {key: value for key, value in found.state.items() if key != "metrics_size"}
        # a checkpoint of an earlier version has no count of batches: its updates had one size
        state.setdefault("batches", found.step * self.material.plan.size)
        return Progress(**{**state, "best": tuple(state["best"]) if state["best"] else None})
