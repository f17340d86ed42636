"""Dynamic batching: jobs that share a batch, limits, failures and cancellation."""

import pytest

from saccade.errors import DataError
from saccade.serve.batcher import Batcher, characters
from saccade.serve.batcher import PredictionJob as Job
from saccade.serve.limits import RequestLimits
from tests.serve.fakes import Echo, eventually


@pytest.fixture
def started():
    """Give `started(batch_size=4)`: a batcher, its task and the sizes of its batches."""
    batchers = []

    def start(**limits):
        task, sizes = Echo(), []
        batcher = Batcher(task, RequestLimits(**limits), lambda rows, seconds: sizes.append(rows))
        batchers.append((batcher, task))
        return batcher, task, sizes

    yield start
    for batcher, task in batchers:
        task.go.set()
        assert batcher.close(20.0)


def texts(job):
    return [answer.text for answer in job.future.result(20)]


def submit(batcher, *jobs):
    """Submit jobs while the batcher is busy, so that they wait together."""
    for job in jobs:
        batcher.submit(job)


def busy(batcher, task):
    first = Job(["slow"])
    batcher.submit(first)
    assert task.began.wait(20)
    return first


def test_jobs_with_equal_options_share_a_batch_in_order(started):
    batcher, task, sizes = started(linger_seconds=0.0)
    first = busy(batcher, task)
    jobs = [
        Job(["a", "b"]),
        Job(["c"], {"beam": 2}),
        Job(["d"]),
        Job(["e"], attention=True),
    ]
    submit(batcher, *jobs, Job(["f"], {"beam": 2}))
    task.go.set()
    assert [texts(job) for job in (first, *jobs)] == [["slow"], ["a", "b"], ["c"], ["d"], ["e"]]
    assert eventually(lambda: len(sizes) == 4)
    assert task.batches == [["slow"], ["a", "b", "d"], ["c", "f"], ["e"]]
    assert task.options == [{}, {}, {"beam": 2}, {}]
    assert sizes == [1, 3, 2, 1]


def test_batch_size_and_characters_are_bounded(started):
    batcher, task, _ = started(linger_seconds=0.0, batch_size=3, characters=8)
    busy(batcher, task)
    jobs = [
        Job(["a", "b"]),
        Job(["c", "d"]),
        Job(["e" * 5]),
        Job(["f" * 3]),
        Job(["g" * 9]),
    ]
    submit(batcher, *jobs)
    task.go.set()
    for job in jobs:
        texts(job)
    assert task.batches[1:] == [["a", "b"], ["c", "d", "eeeee"], ["fff"], ["g" * 9]]


def test_sampled_jobs_get_a_batch_of_their_own(started):
    batcher, task, _ = started(linger_seconds=0.0)
    busy(batcher, task)
    jobs = [
        Job(["a"], alone=True),
        Job(["b"], alone=True),
        Job(["c"]),
        Job(["d"]),
    ]
    submit(batcher, *jobs)
    task.go.set()
    assert [texts(job) for job in jobs] == [["a"], ["b"], ["c"], ["d"]]
    assert task.batches[1:] == [["a"], ["b"], ["c", "d"]]


def test_first_job_waits_briefly_for_others(started):
    batcher, task, _ = started(linger_seconds=0.5, batch_size=3)
    jobs = [Job([text]) for text in "abc"]
    submit(batcher, *jobs)  # the third fills the batch, so none waits longer
    assert [texts(job) for job in jobs] == [["a"], ["b"], ["c"]]
    assert task.batches == [["a", "b", "c"]]


@pytest.mark.parametrize(("name", "kind"), [("wrong", DataError), ("broken", ZeroDivisionError)])
def test_only_the_invalid_job_fails(started, name, kind):
    batcher, task, _ = started(linger_seconds=0.0)
    busy(batcher, task)
    jobs = [Job(["a"]), Job(["b", name]), Job(["c"])]
    submit(batcher, *jobs)
    task.go.set()
    assert texts(jobs[0]) == ["a"]
    with pytest.raises(kind) as error:
        jobs[1].future.result(20)
    assert texts(jobs[2]) == ["c"]
    assert task.batches[1:] == [["a", "b", name, "c"], ["a"], ["b", name], ["c"]]
    if name == "wrong":
        assert str(error.value) == "input 2 is wrong"  # counted in its own request


def test_cancelled_jobs_are_not_computed(started):
    batcher, task, _ = started(linger_seconds=0.0)
    first = busy(batcher, task)
    left = [Job(["a"]), Job(["b"])]
    stays = Job(["c"])
    submit(batcher, *left, stays)
    for job in left:
        assert job.future.cancel()
    assert first.future.cancel()  # it is running alone in its batch, so it is cancelled
    assert eventually(lambda: task.stopped == 1)
    assert texts(stays) == ["c"]
    assert task.batches == [["slow"], ["c"]]


def test_running_batch_continues_while_half_is_wanted(started):
    batcher, task, _ = started(linger_seconds=0.2)
    one, other = Job(["slow"]), Job(["b"])
    submit(batcher, one, other)
    assert task.began.wait(20)
    one.future.cancel()
    task.go.set()
    assert texts(other) == ["b"]
    assert task.stopped == 0


def test_running_batch_restarts_for_the_few_jobs_still_wanted(started):
    batcher, task, sizes = started(linger_seconds=0.2)
    gone, stays, other = (
        Job(["slow", "a", "b", "c"]),
        Job(["d"]),
        Job(["e"]),
    )
    submit(batcher, gone, stays, other)
    assert task.began.wait(20)
    stays.future.cancel()  # five of six inputs are still wanted
    gone.future.cancel()  # one of six is
    assert texts(other) == ["e"]
    assert task.batches == [["slow", "a", "b", "c", "d", "e"], ["e"]]
    assert (task.stopped, sizes) == (1, [1])


@pytest.mark.parametrize("name", ["pixels", "weights"])
def test_pixels_and_weights_of_a_batch_are_bounded(started, name):
    batcher, task, _ = started(linger_seconds=0.0, **{name: 10})
    busy(batcher, task)
    jobs = [Job([text], **{name: size}) for text, size in (("a", 6), ("b", 4), ("c", 1), ("d", 99))]
    submit(batcher, *jobs)
    task.go.set()
    for job in jobs:
        texts(job)
    assert task.batches[1:] == [["a", "b"], ["c"], ["d"]]


def test_close_answers_waiting_jobs(started):
    batcher, _, _ = started(linger_seconds=30.0)
    jobs = [Job(["a"]), Job(["b"])]
    submit(batcher, *jobs)
    assert batcher.close(20.0)
    assert [texts(job) for job in jobs] == [["a"], ["b"]]
    stuck, other, _ = started(linger_seconds=0.0)
    busy(stuck, other)
    assert not stuck.close(0.05)


def test_characters_counts_texts_only():
    assert [characters(value) for value in ("abc", ("ab", "c"), b"bytes", 5)] == [3, 3, 0, 0]
