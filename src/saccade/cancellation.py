"""Cancellation: end long work early when its result is no longer needed.

    with cancellable(lambda: time.monotonic() > deadline):
        task.predict(inputs)    # raises Cancelled soon after the deadline

The caller provides the condition. The loops that do the work call `raise_if_cancelled`: decoding
before each token, models before each layer, tasks before each batch and each image. Like `watch`,
the condition belongs to the context and appears in no signature. It also applies in threads that
run in a copy of that context.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_conditions: ContextVar[tuple[Callable[[], bool], ...]] = ContextVar("conditions", default=())


class Cancelled(BaseException):
    """Raised where work ends because it was cancelled.

    It is not an `Exception`, so that no error handler mistakes it for a failure of the work itself.
    """


@contextmanager
def cancellable(condition: Callable[[], bool]) -> Iterator[None]:
    """Cancel the work in this block as soon as `condition` returns true.

    Blocks may be nested; each condition alone cancels the work.

    Args:
        condition: Returns true once the work should end. It is called often and from any thread, so
            it must be fast and thread-safe.

    Raises:
        Cancelled: From within the block, at the next check after the condition became true.
    """
    token = _conditions.set((*_conditions.get(), condition))
    try:
        yield
    finally:
        _conditions.reset(token)


def is_cancellable() -> bool:
    """Return whether the current work can be cancelled at all."""
    return bool(_conditions.get())


def is_cancelled() -> bool:
    """Return whether the current work has been cancelled."""
    return any(condition() for condition in _conditions.get())


def raise_if_cancelled() -> None:
    """Raise `Cancelled` if the current work has been cancelled."""
    if is_cancelled():
        raise Cancelled
