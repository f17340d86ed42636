"""The training loop, to be read from top to bottom.

It knows the Task seam and nothing of models. Random numbers are a function of (seed, batch), the
position in the data is one of (seed, batches read): a resumed run is the run it would have been.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass, replace
from typing import TypeVar

import numpy as np
import torch

from saccade.cancellation import raise_if_cancelled
from saccade.data.batches.plan import Assignment, Plan, batches, padding_fraction
from saccade.data.corpus import Item
from saccade.data.store.cache import Encoded
from saccade.errors import StoppedError, TrainingError
from saccade.files import clean_up
from saccade.tasks import Evaluation, Task
from saccade.training import checkpoint
from saccade.training.checkpoint import Checkpoint
from saccade.training.console import Console
from saccade.training.copies import Copies
from saccade.training.distributed import World
from saccade.training.film import Film
from saccade.training.interruption import Interruption
from saccade.training.metric_log import MetricLog
from saccade.training.optim import Average, freeze
from saccade.training.parallel import ParallelKind, parallel
from saccade.training.precision import Precision
from saccade.training.progress import (
    VALIDATE_EVERY,
    VALIDATION_COST,
    Record,
    TrainingProgress,
    Update,
    Validation,
    counted_preparation,
)
from saccade.training.recipe import TrainingConfig
from saccade.training.run import Run, tensors_of
from saccade.training.running_statistics import RunningStatistics
from saccade.training.sharded_tensors import is_sharded, local
from saccade.training.tensor_files import give_rows


@dataclass(frozen=True)
class TrainingData:
    """Encoded training examples and the plan they are read by; validation examples and items."""

    train: Encoded
    plan: Plan
    valid: Encoded
    items: list[Item]


VALIDATED = 1000
"""Validation examples whose loss is measured at most, unless `validate_every` is set."""
READ, GENERATED = 1 / 3, 2.0
"""Time that a token takes in a validation, relative to one in an update: read, and generated."""

Element = TypeVar("Element")


def spread(values: Sequence[Element], count: int) -> list[Element]:
    """Return `count` of the values, evenly spread over them, since files are often sorted.

    >>> spread([0, 1, 2, 3, 4, 5], 3)
    [0, 2, 4]
    """
    if count == 0 or not values:
        return []
    step = max(1.0, len(values) / count)
    return [values[int(i * step)] for i in range(min(count, len(values)))]


def validation_interval(config: TrainingConfig, data: TrainingData, task: Task) -> int:
    """Return the updates between validations of a budget in steps.

    It depends on the sizes of the data, not on a clock, so that training runs repeat to the bit.
    """
    if config.validate_every:
        return config.validate_every
    update = float(data.plan.lengths.sum()) / data.plan.per_epoch * data.plan.size
    example = float(task.sizes(data.valid).sum()) / max(1, len(data.valid))
    predicted = READ if task.generation is None else GENERATED
    tokens = READ * min(VALIDATED, len(data.valid)) + predicted * len(data.items)
    cost = tokens * example / max(1.0, update)  # in updates
    return math.ceil(max(1.0, VALIDATE_EVERY * config.max_steps, cost * (1 / VALIDATION_COST - 1)))


def seed_of_batch(seed: int, index: int) -> int:
    """Return the random seed of a batch; on a CPU, torch uses its lower 32 bits only."""
    return int(np.random.SeedSequence([seed, index]).generate_state(1, np.uint64)[0])


class Trainer:
    """A task in training.

    Args:
        task: the task; it is trained in place, on the device of `world`.
        data: what it is trained and validated on.
        config: the `[training]` options of its recipe.
        run: the run folder that checkpoints, metrics and the best weights are written to.
        world: this process among those that train the task together.
        copies: the copies of the run folder on other machines.
        precision: the precision of the forward pass.
        console: where progress is shown.
        interruption: whether a signal has requested a stop.
        prepare: makes the last preparations, unless the run has ended before; returns the seconds
            before the first update that a budget in minutes includes.
        rehearse: returns an estimate of the seconds that the report will take.
        film: records the attention to some inputs at every validation.
        parallel_kind: how the processes divide the weights: "ddp", not at all, or "fsdp".
    """

    def __init__(
        self,
        *,
        task: Task,
        data: TrainingData,
        config: TrainingConfig,
        run: Run,
        world: World,
        copies: Copies,
        precision: Precision,
        console: Console,
        interruption: Interruption,
        prepare: Callable[[], float] = float,
        rehearse: Callable[[], float] = float,
        film: Film | None = None,
        parallel_kind: ParallelKind = "ddp",
    ) -> None:
        self.task, self.data, self.run = task, data, run
        self.prepare, self.rehearse = prepare, rehearse
        self.config = (
            config
            if config.minutes
            else replace(config, validate_every=validation_interval(config, data, task))
        )
        count = len(task.sizes(data.valid))  # of blocks, where examples are parts of one text
        rows = count if config.validate_every else VALIDATED
        self.validated = np.array(spread(range(count), rows), dtype=np.int64)
        self.world, self.copies, self.precision = world, copies, precision
        self.console, self.interruption = console, interruption
        self.frozen = freeze(task.model, config.optim.freeze)
        self.parallel = parallel(parallel_kind, task, world, recompute=config.recompute)
        model = self.parallel.model
        self.optimizer = config.optim.build(model, config.learning_rate, world)
        self.average = Average(config.average, model)
        self.statistics = RunningStatistics(model, world)
        self.film = film
        self.began = time.monotonic()  # of the updates, less the seconds of earlier sessions
        self.stopping = False

    def fit(self) -> TrainingProgress:
        """Train until the budget is used up, from the newest checkpoint on."""
        config, progress = self.config, self.budgeted(self.restore())
        log = MetricLog(self.run, progress.step)
        bar = self.console.training(progress, config, self.task.unit)
        with self.interruption.heeded(), closing(log), bar:
            while not progress.end(config) or progress.validation_due(config):
                if progress.validation_due(config):
                    progress, validation = self.validate(progress)
                    if validation is not None and self.world.first:
                        log.note(validation.record)
                        bar.validated(validation)
                elif progress.rehearsal_due(config):
                    progress = self.rehearsed(progress)
                else:
                    progress, update = self.update(progress)
                    if self.world.first:
                        if progress.step == 1:
                            self.run.started()
                        speed = {f"{self.task.unit}_per_second": bar.updated(progress, update)}
                        if progress.step % config.log_every == 0:
                            log.note({"step": progress.step, **asdict(update), **speed})
                if self.stopping or progress.checkpoint_due(config):
                    self.save(progress)
                if self.stopping:
                    raise self.interruption.error(self.run.folder, progress.step)
            if progress.ended != progress.end(config):
                progress = replace(progress, ended=progress.end(config))
                self.save(progress)
        self.release()
        return progress

    def budgeted(self, progress: TrainingProgress) -> TrainingProgress:
        """Count the preparation, by the clock of the first process; report a long one."""
        if progress.end(self.config):
            return progress
        prepared = self.world.from_first(self.prepare)
        self.began = time.monotonic() - progress.seconds
        progress = replace(progress, prepared=progress.prepared + prepared)
        minutes = self.config.minutes
        if minutes is not None and self.world.first:
            counted = counted_preparation(self.config, progress.prepared)
            if counted < progress.prepared:
                self.console.notify(
                    f"preparing the data took {progress.prepared:.0f} s, more than half of the "
                    f"{60 * minutes:.0f} s of the budget; the updates take the other half, so this "
                    "training takes longer"
                )
        return progress

    def rehearsed(self, progress: TrainingProgress) -> TrainingProgress:
        """Let the first process estimate the time of the report; a signal ends that at once."""

        def rehearse() -> float:
            try:
                with self.interruption.cancelling():
                    return self.rehearse()
            except StoppedError:
                return 0.0  # the next update sees the signal

        self.task.eval()
        with self.parallel.complete():
            return replace(progress, report_seconds=self.world.from_first(rehearse))

    def update(self, progress: TrainingProgress) -> tuple[TrainingProgress, Update]:
        """Make one update, by the gradient of the mean loss over the predictions of its batches."""
        config, assigned = self.config, self.data.plan.update(progress.batches)
        total, count = self.backward(assigned, progress.batches)
        stop = float(self.interruption.requested)
        total, count, stop, seconds = self.world.sum([total, count, stop, self.seconds()])
        self.stopping = stop > 0
        gradient = self.scale_gradient(self.world.size / max(1.0, count))
        factor = config.optim.factor(progress.step, progress.fraction(config))
        update = Update(
            loss=total / max(1.0, count),
            predictions=int(count),
            padding=padding_fraction(self.data.plan.lengths, [rows for _, rows in assigned]),
            gradient=gradient,
            learning_rate=config.learning_rate * factor,
        )
        _require_finite(update, progress.step + 1)
        for group in self.optimizer.param_groups:
            group["lr"] = update.learning_rate * group["scale"]
        self.optimizer.step()
        self.average.after_update(progress.step)
        progress = replace(
            progress,
            step=progress.step + 1,
            batches=progress.batches + self.data.plan.size,
            seconds=seconds,
            loss_since=progress.loss_since + total,
            count_since=progress.count_since + count,
        )
        return progress, update

    def backward(self, assigned: Sequence[Assignment], read: int) -> tuple[float, float]:
        """Add up the gradients of this process's batches; return the sum of losses and its count.

        Processes exchange gradients in the last round only. A process without a batch in a round
        computes one with weight 0, since all take part in every exchange.

        Args:
            assigned: the batches of this process.
            read: the batches read before this update.
        """
        self.parallel.train()
        self.optimizer.zero_grad(set_to_none=True)
        plan, total, count = self.data.plan, 0.0, 0.0
        stand_ins = [plan.stand_in(read)] * (plan.rounds - len(assigned))
        self.statistics.begin()
        for i, (index, rows) in enumerate([*assigned, *stand_ins]):
            torch.manual_seed(seed_of_batch(self.config.seed, index))
            batch = self.task.collate(self.data.train, rows).to(self.world.device)
            last, weight = i == plan.rounds - 1, float(i < len(assigned))
            with nullcontext() if last else self.parallel.alone():
                with self.precision.autocast():
                    loss = self.parallel.loss(batch)
                (loss.total if weight else loss.total * weight).backward()
            total += weight * loss.total.item()
            count += weight * loss.count
            self.statistics.after_batch(weight)
        self.statistics.finish(plan.size)
        return total, count

    def scale_gradient(self, factor: float) -> float:
        """Multiply the gradient and clip it; return its norm before clipping.

        Clipping would undo the weights of rare classes, whose gradients are larger by design, so
        the limit grows with the largest weight of an example.
        """
        weights = [p for p in self.parallel.model.parameters() if p.grad is not None]
        gradients = [local(p.grad) for p in weights if p.grad is not None]
        norm = float(torch.nn.utils.get_total_norm(gradients))
        if any(map(is_sharded, weights)):  # each process has other rows
            norm = math.sqrt(self.world.sum([norm**2])[0])
        norm *= factor
        clip = self.config.optim.clip * self.task.largest_weight
        shorter = clip / norm if clip and norm > clip else 1.0
        torch._foreach_mul_(gradients, factor * shorter)
        return norm

    def seconds(self) -> float:
        """Return how long the run has taken, by the clock of the first process."""
        return time.monotonic() - self.began if self.world.first else 0.0

    def validate(self, progress: TrainingProgress) -> tuple[TrainingProgress, Validation | None]:
        """Measure on validation data; keep the weights if they are the best so far.

        The first process does it, the others wait for its result. Without a validation it was
        interrupted.
        """
        self.average.before_validation(progress.step)
        with self.parallel.complete(self.average.current()):
            result = self.world.from_first(lambda: self.compare(progress))
        if result is None:
            self.stopping = True
            return progress, None
        validation = Validation(*result)
        better = validation.better
        progress = replace(
            progress,
            seconds=validation.seconds,
            validated=progress.step,
            validated_at=validation.seconds,
            # the end of the training is not moved by its own validation
            validation_seconds=progress.validation_seconds
            if progress.end(self.config)
            else validation.seconds - progress.seconds,
            best=(validation.value[0], validation.value[1]) if better else progress.best,
            best_step=progress.step if better else progress.best_step,
            without_better=0 if better else progress.without_better + 1,
            loss_since=0.0,
            count_since=0.0,
        )
        return progress, validation

    def compare(self, progress: TrainingProgress) -> Validation | None:
        """Validate the weights of the task and keep them if they are the best so far.

        Return None if a signal has interrupted it.
        """
        try:
            with self.interruption.cancelling():
                record, evaluation = self.measure(progress)
            value = self.judge(record, evaluation)
            better = all(map(math.isfinite, value)) and (
                progress.best is None or value < progress.best
            )
            if better:
                self.run.keep_best(self.task.model)
        except StoppedError:
            return None
        return Validation(record, value, better, self.seconds())

    def measure(self, progress: TrainingProgress) -> tuple[Record, Evaluation | None]:
        """Return the loss over the validation data, and the metrics of predictions for some."""
        total = count = 0.0
        self.task.eval()
        valid, chosen = self.data.valid, self.validated
        sizes = self.task.sizes(valid)[chosen]
        with torch.no_grad():
            for rows in batches(sizes, self.config.batch_tokens, seed=0, epoch=0):
                raise_if_cancelled()
                loss = self.task(self.task.collate(valid, chosen[rows]).to(self.world.device))
                total, count = total + float(loss.total), count + loss.count
        record: Record = {
            "step": progress.step,
            "epoch": round(self.data.plan.epoch_of(progress.batches), 4),
            "seconds": round(progress.seconds, 3),
            "train_loss": progress.loss_since / max(1.0, progress.count_since),
            "valid_loss": total / max(1.0, count),
        }
        evaluation = None
        if self.data.items:
            evaluation = self.task.evaluate(self.data.items, quick=True)
            record |= evaluation.values()
            if self.film is not None:
                self.film.record(progress.step, record["valid_loss"], evaluation.answers)
        return record, evaluation

    def judge(self, record: Record, evaluation: Evaluation | None) -> tuple[float, float]:
        """Return the value of the weights: lower is better, and the loss decides between equals."""
        loss = record["valid_loss"]
        if self.config.select_by == "loss" or evaluation is None:
            return loss, loss
        score = evaluation.scores[self.task.selection_metric]
        return -score.value if score.higher_is_better else score.value, loss

    def save(self, progress: TrainingProgress) -> None:
        """Write a checkpoint; the first process does, the others wait for it."""
        tensors = {
            "weights": tensors_of(self.parallel.model),
            "optimizer": checkpoint.flatten_optimizer(self.optimizer),
            "average": self.average.tensors(),
        }
        if not self.world.first:
            give_rows(tensors)
        else:
            self.run.started()
            state = asdict(progress) | {"metrics_size": self.run.sync_metrics()}
            checkpoint.write(
                self.run.checkpoints,
                Checkpoint(progress.step, tensors, state),
                keep=self.config.keep_checkpoints,
            )
        self.copies.send()

    def restore(self) -> TrainingProgress:
        """Return to the newest intact checkpoint; without one, to the beginning."""
        if self.world.first:  # it cleans up and sets aside; the others then read its choice
            clean_up(self.run.checkpoints)
        else:
            self.copies.send()
        saved = checkpoint.newest(self.run.checkpoints)
        if self.world.first:
            if saved is None:
                self.run.require_start()
            self.run.cut_metrics(0 if saved is None else saved.state["metrics_size"])
            self.copies.send()
        if saved is None:
            return TrainingProgress()
        self.parallel.put(saved.tensors["weights"], f"checkpoint {saved.step}")
        checkpoint.restore_optimizer(self.optimizer, saved.tensors["optimizer"])
        self.average.restore(saved.tensors["average"])
        state = {key: value for key, value in saved.state.items() if key != "metrics_size"}
        # a checkpoint of an earlier version has no count of batches: its updates had one size
        state.setdefault("batches", saved.step * self.data.plan.size)
        best = tuple(state["best"]) if state["best"] else None
        progress = TrainingProgress(**{**state, "best": best})
        self.began = time.monotonic() - progress.seconds
        if self.film is not None:
            self.film.restore()
        return progress

    def release(self) -> None:
        """Leave the task as one that was never in training: no gradients, nothing frozen."""
        self.optimizer.zero_grad(set_to_none=True)
        self.parallel.release()
        for parameter in self.frozen:
            parameter.requires_grad = True


def _require_finite(update: Update, step: int) -> None:
    """Raise a TrainingError before an update would put NaN or infinity into the weights."""
    if not (math.isfinite(update.loss) and math.isfinite(update.gradient)):
        raise TrainingError(
            f"at step {step} the loss is {update.loss} and the gradient {update.gradient}; both "
            "must be finite, so training stops before the update. Try a lower learning rate "
            f"(now {update.learning_rate:.3g}), a longer warm-up or gradient clipping"
        )
