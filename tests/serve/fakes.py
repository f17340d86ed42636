"""Fake tasks whose answers a test controls."""

import threading
import time
from collections.abc import Callable, Generator, Sequence
from typing import Any

from saccade.cancellation import Cancelled, raise_if_cancelled
from saccade.errors import DataError
from saccade.tasks import Answer, Task
from saccade.tasks._shared.description import Description, Input, Output


class PlainText(Input):
    kind = "text"


class Echo(Task):
    """Task that returns its inputs.

    The inputs `wrong` and `broken` fail, and `slow` waits until `go` is set.
    """

    name = "echo"

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[str]] = []
        self.options: list[dict[str, Any]] = []
        self.began, self.go = threading.Event(), threading.Event()
        self.stopped = 0

    def describe(self) -> Description:
        return Description(reads=PlainText(), writes=Output(), model=None)

    def from_json(self, value: Any) -> Any:
        return value

    def attention_size(self, inputs: Sequence[Any], options: Any) -> int:
        return 0

    def prepare(self, inputs: Sequence[Any], options: Any = None, *, first: int = 0) -> list[Any]:
        return []

    def predict(
        self,
        inputs: Sequence[str],
        *,
        attention: bool = False,
        batch_size: int = 64,
        **options: Any,
    ) -> list[Answer]:
        self.batches.append(list(inputs))
        self.options.append(options)
        if "wrong" in inputs:
            raise DataError(f"input {inputs.index('wrong') + 1} is wrong")
        if "broken" in inputs:
            raise ZeroDivisionError("a secret text")
        if "slow" in inputs:
            self.began.set()
            while not self.go.wait(0.01):
                try:
                    raise_if_cancelled()
                except Cancelled:
                    self.stopped += 1
                    raise
        return [Answer(text, 0.0) for text in inputs]


Echo.__abstractmethods__ = frozenset()  # it is never trained


class EndlessWriter(Echo):
    """Language model that writes one letter after the other without end."""

    def __init__(self, *, fails_after: int | None = None) -> None:
        super().__init__()
        self.writing, self.most, self.written, self._fails_after = 0, 0, 0, fails_after

    def stream(self, prompt: str, **options: Any) -> Generator[str, None, bool]:
        self.writing += 1
        self.most = max(self.most, self.writing)
        try:
            while True:
                time.sleep(0.002)
                self.written += 1
                if self.written == self._fails_after:
                    raise DataError("it cannot continue")
                yield "x"
        finally:
            self.writing -= 1


def eventually(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Return whether a condition becomes true in time."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()
