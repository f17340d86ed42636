"""Dynamic batching: one queue and one thread per model.

Jobs with equal options are answered in one call of `predict`, or of `score` if outputs are given.
If that call fails, each job is answered alone, so that only the invalid one fails. A job's future
is cancelled when its deadline has passed, its client has left or the server stops; the job then
leaves the queue. A running batch is cancelled when fewer than half of its inputs are still wanted,
and those are answered again without the others.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from saccade.cancellation import Cancelled, cancellable, raise_if_cancelled
from saccade.serve.limits import RequestLimits
from saccade.tasks import Answer, Predictor

GenerationOptions = Mapping[str, Any]
"""Options of `predict` such as beam and max_length, by their names."""
OnBatch = Callable[[int, float], None]
"""Called after each batch with its number of inputs and its seconds."""


@dataclass(frozen=True, eq=False)
class PredictionJob:
    """Inputs of one request, and the future of their answers.

    Attributes:
        inputs: Inputs as the task reads them.
        options: Options of `predict`.
        attention: Whether the answers carry attention records.
        alone: Whether it must not share a batch, because its answers depend on the position of an
            input in the batch, as sampled texts do.
        pieces: Parts that its inputs are split into, if they are.
        pixels: Pixels of its images.
        weights: Attention weights that its records can have.
        outputs: The output of each input that is to be scored; None to predict.
        future: Future of the answers.
        arrived: Monotonic time at which it was created.
    """

    inputs: Sequence[object]
    options: GenerationOptions = field(default_factory=dict)
    attention: bool = False
    alone: bool = False
    pieces: int = 0
    pixels: int = 0
    weights: int = 0
    outputs: Sequence[str] | None = None
    future: Future[list[Answer]] = field(default_factory=Future)
    arrived: float = field(default_factory=time.monotonic)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Inputs or pieces, characters, pixels and weights, which are bounded for each batch."""
        count = max(self.pieces, len(self.inputs))
        texts = (*self.inputs, *(self.outputs or ()))
        return count, sum(map(characters, texts)), self.pixels, self.weights

    @property
    def batch_key(self) -> Hashable:
        """Jobs share a batch only if this value is equal."""
        if self.alone:
            return id(self)
        return self.outputs is None, self.attention, tuple(sorted(self.options.items()))


class Batcher:
    """Queue of one model, and the thread that works through it.

    Args:
        task: Task, or another predictor, that answers.
        limits: Limits of a batch.
        on_batch: Called after each batch with its number of inputs and its seconds.
    """

    def __init__(self, task: Predictor, limits: RequestLimits, on_batch: OnBatch) -> None:
        self._task, self._limits, self._on_batch = task, limits, on_batch
        self._queue: deque[PredictionJob] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def submit(self, job: PredictionJob) -> None:
        """Add a job to the queue."""
        with self._changed:
            self._queue.append(job)
            self._changed.notify()
        job.future.add_done_callback(lambda _: self._remove(job))

    def close(self, seconds: float) -> bool:
        """Answer the jobs in the queue, then end the thread.

        Returns:
            Whether the thread ended within `seconds`.
        """
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _remove(self, job: PredictionJob) -> None:
        with self._changed, suppress(ValueError):
            self._queue.remove(job)

    def _run(self) -> None:
        with self._task.thread_of_batches():  # a served model keeps its weights
            while batch := self._next():
                self._answer(batch)

    def _next(self) -> list[PredictionJob]:
        """Wait for the next batch; return an empty one at the end."""
        with self._changed:
            while True:
                batch = self._compatible()
                if not batch:
                    if self._closed:
                        return []
                    self._changed.wait()
                    continue
                left = batch[0].arrived + self._limits.linger_seconds - time.monotonic()
                if left <= 0 or self._closed or _count(batch) >= self._limits.batch_size:
                    for job in batch:
                        self._queue.remove(job)
                    return batch
                self._changed.wait(left)

    def _compatible(self) -> list[PredictionJob]:
        """Return the oldest job and those with its key, in their order, as far as they fit."""
        limits = self._limits
        left = [limits.batch_size, limits.characters, limits.pixels, limits.weights]
        batch: list[PredictionJob] = []
        for job in self._queue:
            if batch and job.batch_key != batch[0].batch_key:
                continue
            left = [room - size for room, size in zip(left, job.sizes, strict=True)]
            if batch and min(left) < 0:
                break
            batch.append(job)
        return batch

    def _answer(self, batch: list[PredictionJob]) -> None:
        started = time.monotonic()
        try:
            answers = self._predict(batch)
        except Cancelled:
            if wanted := [job for job in batch if not job.future.done()]:
                self._answer(wanted)
            return
        except BaseException as error:
            if len(batch) > 1:
                for job in batch:
                    self._answer([job])
                return
            with suppress(InvalidStateError):  # cancelled meanwhile
                batch[0].future.set_exception(error)
            return
        self._on_batch(_count(batch), time.monotonic() - started)
        at = 0
        for job in batch:
            with suppress(InvalidStateError):
                job.future.set_result(answers[at : at + len(job.inputs)])
            at += len(job.inputs)

    def _predict(self, batch: list[PredictionJob]) -> list[Answer]:
        def mostly_unwanted() -> bool:
            return 2 * _count([job for job in batch if not job.future.done()]) < _count(batch)

        with cancellable(mostly_unwanted):
            raise_if_cancelled()
            inputs = [value for job in batch for value in job.inputs]
            if batch[0].outputs is not None:
                return self._task.score(
                    inputs,
                    [output for job in batch for output in job.outputs or ()],
                    attention=batch[0].attention,
                    batch_size=self._limits.batch_size,
                )
            return self._task.predict(
                inputs,
                attention=batch[0].attention,
                batch_size=self._limits.batch_size,
                **batch[0].options,
            )


def characters(value: object) -> int:
    """Return the number of characters in the texts of an input."""
    if isinstance(value, str):
        return len(value)
    return sum(map(characters, value)) if isinstance(value, tuple) else 0


def _count(batch: Sequence[PredictionJob]) -> int:
    """Return the number of inputs in a batch."""
    return sum(len(job.inputs) for job in batch)
