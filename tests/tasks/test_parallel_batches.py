"""Batches in parallel threads: order, errors, and settings that are restored."""

import threading

import pytest
import torch

from saccade.attention.attend import watchers
from saccade.cancellation import Cancelled, cancellable
from saccade.tasks._shared.parallel_batches import batch_size_for, side_by_side

CPU = torch.device("cpu")


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_every_thread_has_a_batch_if_there_are_enough_inputs(two_threads):
    assert batch_size_for(64, 64, CPU) == 32
    assert batch_size_for(1000, 64, CPU) == 64
    assert batch_size_for(65, 64, CPU) == 33
    assert batch_size_for(3, 64, CPU) == 8
    assert batch_size_for(64, 5, CPU) == 5
    assert batch_size_for(64, 64, torch.device("meta")) == 64


def test_batches_come_with_their_results_in_order(two_threads):
    batches = [[3, 1], [4], [0, 2]]
    results = side_by_side(lambda rows: [i * i for i in rows], batches, CPU)
    assert list(results) == [([3, 1], [9, 1]), ([4], [16]), ([0, 2], [0, 4])]
    assert list(side_by_side(lambda rows: rows, [], CPU)) == []


def test_batches_run_in_parallel_with_one_thread_per_batch(two_threads):
    together = threading.Barrier(2, timeout=60)

    def work(rows):
        together.wait()  # passes only if both batches run at the same time
        return torch.get_num_threads()

    assert list(side_by_side(work, [[0], [1]], CPU)) == [([0], 1), ([1], 1)]
    assert torch.get_num_threads() == 2
    inside = []
    thread = threading.Thread(target=lambda: inside.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert inside == [2]


def test_one_batch_or_one_thread_runs_in_the_calling_thread(two_threads):
    here = threading.get_ident()
    assert list(side_by_side(lambda rows: threading.get_ident(), [[0]], CPU)) == [([0], here)]
    torch.set_num_threads(1)
    results = side_by_side(lambda rows: threading.get_ident(), [[0], [1]], CPU)
    assert [thread for _, thread in results] == [here, here]


def test_watching_works_in_threads(two_threads):
    token = watchers.set(("somebody",))
    try:
        results = list(side_by_side(lambda rows: watchers.get(), [[0], [1], [2]], CPU))
    finally:
        watchers.reset(token)
    assert [seen for _, seen in results] == [("somebody",)] * 3


def test_an_error_ends_the_work_and_restores_the_threads(two_threads):
    def work(rows):
        if rows == [1]:
            raise ValueError("no")
        return rows

    results = side_by_side(work, [[0], [1], [2], [3]], CPU)
    assert next(results) == ([0], [0])
    with pytest.raises(ValueError, match="no"):
        next(results)
    assert torch.get_num_threads() == 2


def test_an_interruption_ends_the_work_and_restores_the_threads(two_threads):
    results = side_by_side(lambda rows: rows, [[0], [1], [2], [3]], CPU)
    next(results)
    with pytest.raises(KeyboardInterrupt):
        results.throw(KeyboardInterrupt)
    assert torch.get_num_threads() == 2


def test_cancelled_work_begins_no_further_batch(two_threads):
    begun = []

    def work(rows):
        begun.append(rows)
        return rows

    batches = [[i] for i in range(20)]
    with cancellable(lambda: len(begun) >= 3), pytest.raises(Cancelled):
        list(side_by_side(work, batches, CPU))
    assert 3 <= len(begun) <= 4  # the other thread may be beginning one
    assert torch.get_num_threads() == 2
