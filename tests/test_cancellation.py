"""Tests of cancellation: work ends at the next check after its condition became true."""

import threading
from contextvars import copy_context
from functools import partial

import pytest

from saccade.cancellation import Cancelled, cancellable, is_cancellable, raise_if_cancelled


def test_work_ends_once_the_condition_is_true():
    done = []

    def work():
        while True:
            raise_if_cancelled()
            done.append(1)

    with pytest.raises(Cancelled), cancellable(lambda: len(done) == 3):
        work()
    assert len(done) == 3
    raise_if_cancelled()  # nothing is cancelled outside the block
    assert not is_cancellable()


def test_any_enclosing_block_cancels_the_work():
    for outer, inner in ((True, False), (False, True)):
        with cancellable(lambda outer=outer: outer), cancellable(lambda inner=inner: inner):
            assert is_cancellable()
            with pytest.raises(Cancelled):
                raise_if_cancelled()
    with cancellable(lambda: False), cancellable(lambda: False):
        raise_if_cancelled()


def test_other_threads_continue_unless_they_share_the_context():
    results = []

    def work():
        try:
            raise_if_cancelled()
            results.append("done")
        except Cancelled:
            results.append("cancelled")

    with cancellable(lambda: True):
        for target in (work, partial(copy_context().run, work)):
            thread = threading.Thread(target=target)
            thread.start()
            thread.join()
    assert results == ["done", "cancelled"]


def test_cancellation_is_not_caught_as_an_exception():
    assert not issubclass(Cancelled, Exception)
