"""Work ends at the next check after its condition became true, and only that work."""

import threading
from contextvars import copy_context
from functools import partial

import pytest

from saccade.cancellation import Cancelled, cancellable, is_cancellable, raise_if_cancelled


def test_work_ends_when_the_condition_is_true():
    done = []

    def work():
        while True:
            raise_if_cancelled()
            done.append(1)

    with pytest.raises(Cancelled), cancellable(lambda: len(done) == 3):
        work()
    assert len(done) == 3
    raise_if_cancelled()  # outside of the block nothing is cancelled
    assert not is_cancellable()


def test_any_block_around_the_work_cancels_it():
    for outer, inner in ((True, False), (False, True)):
        with cancellable(lambda outer=outer: outer), cancellable(lambda inner=inner: inner):
            assert is_cancellable()
            with pytest.raises(Cancelled):
                raise_if_cancelled()
    with cancellable(lambda: False), cancellable(lambda: False):
        raise_if_cancelled()


def test_other_threads_go_on_unless_they_share_the_context():
    found = []

    def work():
        try:
            raise_if_cancelled()
            found.append("done")
        except Cancelled:
            found.append("cancelled")

    with cancellable(lambda: True):
        for target in (work, partial(copy_context().run, work)):
            thread = threading.Thread(target=target)
            thread.start()
            thread.join()
    assert found == ["done", "cancelled"]


def test_no_handler_of_errors_takes_it_for_a_failure():
    assert not issubclass(Cancelled, Exception)
