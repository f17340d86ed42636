"""Batches in parallel threads: order, errors, and settings that are restored."""

import threading

import pytest
import torch

from saccade.attention.attend import watchers
from saccade.cancellation import Cancelled, cancellable
from saccade.tasks._shared.torch_workers import TorchWorkers

CPU = TorchWorkers(torch.device("cpu"))
META = TorchWorkers(torch.device("meta"))


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_every_thread_has_a_batch_if_there_are_enough_inputs(two_threads):
    assert CPU.batch_size(64, 64) == 32
    assert CPU.batch_size(1000, 64) == 64
    assert CPU.batch_size(65, 64) == 33
    assert CPU.batch_size(3, 64) == 8
    assert CPU.batch_size(64, 5) == 5
    assert META.batch_size(64, 64) == 64


def test_batches_come_with_their_results_in_order(two_threads):
    batches = [[3, 1], [4], [0, 2]]
    results = CPU.side_by_side(lambda rows: [i * i for i in rows], batches)
    assert list(results) == [([3, 1], [9, 1]), ([4], [16]), ([0, 2], [0, 4])]
    assert list(CPU.side_by_side(lambda rows: rows, [])) == []


def test_batches_run_in_parallel_with_one_thread_per_batch(two_threads):
    together = threading.Barrier(2, timeout=60)

    def work(rows):
        together.wait()  # passes only if both batches run at the same time
        return torch.get_num_threads()

    assert list(CPU.side_by_side(work, [[0], [1]])) == [([0], 1), ([1], 1)]
    assert torch.get_num_threads() == 2
    inside = []
    thread = threading.Thread(target=lambda: inside.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert inside == [2]


def test_one_batch_or_one_thread_runs_in_the_calling_thread(two_threads):
    here = threading.get_ident()
    assert list(CPU.side_by_side(lambda rows: threading.get_ident(), [[0]])) == [([0], here)]
    torch.set_num_threads(1)
    results = CPU.side_by_side(lambda rows: threading.get_ident(), [[0], [1]])
    assert [thread for _, thread in results] == [here, here]


def test_watching_works_in_threads(two_threads):
    token = watchers.set(("somebody",))
    try:
        results = list(CPU.side_by_side(lambda rows: watchers.get(), [[0], [1], [2]]))
    finally:
        watchers.reset(token)
    assert [seen for _, seen in results] == [("somebody",)] * 3


def test_an_error_ends_the_work_and_restores_the_threads(two_threads):
    def work(rows):
        if rows == [1]:
            raise ValueError("no")
        return rows

    results = CPU.side_by_side(work, [[0], [1], [2], [3]])
    assert next(results) == ([0], [0])
    with pytest.raises(ValueError, match="no"):
        next(results)
    assert torch.get_num_threads() == 2


def test_an_interruption_ends_the_work_and_restores_the_threads(two_threads):
    results = CPU.side_by_side(lambda rows: rows, [[0], [1], [2], [3]])
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
        list(CPU.side_by_side(work, batches))
    assert 3 <= len(begun) <= 4  # the other thread may be beginning one
    assert torch.get_num_threads() == 2
