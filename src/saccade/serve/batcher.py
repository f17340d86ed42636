"""Answers together what has come together: one thread for each model.

Work that wants the same is answered in one call of `predict`. Where that fails, each is answered
alone, so that only what is wrong fails. A future is cancelled when the deadline has passed, the
client has left or the server ends: then its work leaves the queue. Running work is cancelled when
fewer than half of its inputs are still wanted, and those are answered again without the others.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch

from saccade.cancellation import Cancelled, cancellable, raise_if_cancelled
from saccade.decoders.fast_path import Layouts, sharing
from saccade.serve.limits import Limits
from saccade.tasks import Task

Observe = Callable[[int, float], None]
"""Told of each batch: its rows and the seconds it took."""


@dataclass(frozen=True, eq=False)
class Work:
    """The inputs of one request, and the future that gets their answers.

    `alone` is for what depends on the place of an input among others, such as a drawn text.
    `pixels` are those of its images, `weights` those that its attention can have.
    """

    inputs: Sequence[Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    attention: bool = False
    alone: bool = False
    pixels: int = 0
    weights: int = 0
    future: Future[list[Any]] = field(default_factory=Future)
    arrived: float = field(default_factory=time.monotonic)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The quantities that are bounded when several requests share a batch."""
        length = sum(characters(each) for each in self.inputs)
        return len(self.inputs), length, self.pixels, self.weights

    @property
    def kind(self) -> Hashable:
        """What others must have in common with it to be answered with it."""
        if self.alone:
            return id(self)
        return self.attention, tuple(sorted(self.options.items()))


class Batcher:
    """The queue of one model, and the thread that empties it."""

    def __init__(self, task: Task[Any], limits: Limits, observe: Observe) -> None:
        self._task, self._limits, self._observe = task, limits, observe
        self._layouts: Layouts = {}  # a served model keeps its weights
        self._waiting: deque[Work] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def submit(self, work: Work) -> None:
        """Let it wait for its turn."""
        with self._changed:
            self._waiting.append(work)
            self._changed.notify()
        work.future.add_done_callback(lambda _: self._forget(work))

    def close(self, seconds: float) -> bool:
        """Answer what is waiting, then end; whether that was done in this time."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _forget(self, work: Work) -> None:
        with self._changed, suppress(ValueError):
            self._waiting.remove(work)

    def _work(self) -> None:
        torch.get_num_threads()  # settled for this thread, whatever others set for theirs
        while batch := self._next():
            self._answer(batch)

    def _next(self) -> list[Work]:
        """What is answered next, as soon as there is anything; nothing at the end."""
        with self._changed:
            while True:
                batch = self._alike()
                if not batch:
                    if self._closed:
                        return []
                    self._changed.wait()
                    continue
                left = batch[0].arrived + self._limits.linger - time.monotonic()
                if left <= 0 or self._closed or _rows(batch) >= self._limits.rows:
                    for work in batch:
                        self._waiting.remove(work)
                    return batch
                self._changed.wait(left)

    def _alike(self) -> list[Work]:
        """The oldest, and those like it in their order, as far as there is room."""
        limits = self._limits
        left = [limits.rows, limits.characters, limits.pixels, limits.weights]
        batch: list[Work] = []
        for work in self._waiting:
            if batch and work.kind != batch[0].kind:
                continue
            left = [room - size for room, size in zip(left, work.sizes, strict=True)]
            if batch and min(left) < 0:
                break
            batch.append(work)
        return batch

    def _answer(self, batch: list[Work]) -> None:
        started = time.monotonic()
        try:
            answers = self._predict(batch)
        except Cancelled:
            if wanted := [work for work in batch if not work.future.done()]:
                self._answer(wanted)
            return
        except BaseException as error:
            if len(batch) > 1:
                for work in batch:
                    self._answer([work])
            else:
                _settle(batch[0].future, error)
            return
        self._observe(_rows(batch), time.monotonic() - started)
        at = 0
        for work in batch:
            _settle(work.future, answers[at : at + len(work.inputs)])
            at += len(work.inputs)

    def _predict(self, batch: list[Work]) -> list[Any]:
        def mostly_unwanted() -> bool:
            return 2 * _rows([work for work in batch if not work.future.done()]) < _rows(batch)

        with cancellable(mostly_unwanted), sharing(self._layouts):
            raise_if_cancelled()
            return self._task.predict(
                [given for work in batch for given in work.inputs],
                attention=batch[0].attention,
                batch_size=self._limits.rows,
                **batch[0].options,
            )


def characters(given: Any) -> int:
    """The length of the texts of an input."""
    if isinstance(given, str):
        return len(given)
    return sum(map(characters, given)) if isinstance(given, tuple) else 0


def _rows(batch: Sequence[Work]) -> int:
    return sum(len(work.inputs) for work in batch)


def _settle(future: Future[list[Any]], outcome: list[Any] | BaseException) -> None:
    with suppress(InvalidStateError):  # cancelled meanwhile
        if isinstance(outcome, BaseException):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
