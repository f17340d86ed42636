"""Cancellation: end long work early when its result is no longer wanted.

    with cancellable(lambda: time.monotonic() > deadline):
        task.predict(inputs)    # raises Cancelled soon after the deadline

The caller gives the condition. The loops that do the work call `raise_if_cancelled`: decoding
before each token, models before each layer, tasks before each batch and each image. Like `watch`,
the condition belongs to the context and appears in no signature; it also holds in threads that run
in a copy of that context.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_conditions: ContextVar[tuple[Callable[[], bool], ...]] = ContextVar("conditions", default=())


class Cancelled(BaseException):
    """The work was cancelled.

    Not an `Exception`, so that no handler of errors takes it for a failure of the work itself.
    """


@contextmanager
def cancellable(condition: Callable[[], bool]) -> Iterator[None]:
    """Cancel the work in this block as soon as `condition` returns true.

    Blocks nest: any of their conditions cancels. The condition is called often, from any thread.
    """
    token = _conditions.set((*_conditions.get(), condition))
    try:
        yield
    finally:
        _conditions.reset(token)


def is_cancellable() -> bool:
    """Whether the current work can be cancelled at all."""
    return bool(_conditions.get())


def is_cancelled() -> bool:
    """Whether the current work has been cancelled."""
    return any(condition() for condition in _conditions.get())


def raise_if_cancelled() -> None:
    """Raise `Cancelled` if the current work has been cancelled."""
    if is_cancelled():
        raise Cancelled
