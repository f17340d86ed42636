"""Work that has come together is answered together, and what is wrong fails alone."""

import pytest

from saccade.errors import DataError
from saccade.serve.batcher import Batcher, Work, characters
from saccade.serve.limits import Limits
from tests.serve.fakes import Echo, eventually


@pytest.fixture
def started():
    """`started(rows=4)`: a batcher, its task and what it observed."""
    made = []

    def start(**limits):
        task, seen = Echo(), []
        batcher = Batcher(task, Limits(**limits), lambda rows, seconds: seen.append(rows))
        made.append((batcher, task))
        return batcher, task, seen

    yield start
    for batcher, task in made:
        task.go.set()
        assert batcher.close(20.0)


def texts(work):
    return [answer.text for answer in work.future.result(20)]


def submit(batcher, *works):
    """All of them while the batcher is busy, so that they are waiting together."""
    for work in works:
        batcher.submit(work)


def busy(batcher, task):
    first = Work(["slow"])
    batcher.submit(first)
    assert task.began.wait(20)
    return first


def test_like_work_is_answered_together_in_order(started):
    batcher, task, seen = started(linger=0.0)
    first = busy(batcher, task)
    works = [Work(["a", "b"]), Work(["c"], {"beam": 2}), Work(["d"]), Work(["e"], attention=True)]
    submit(batcher, *works, Work(["f"], {"beam": 2}))
    task.go.set()
    assert [texts(work) for work in (first, *works)] == [["slow"], ["a", "b"], ["c"], ["d"], ["e"]]
    assert eventually(lambda: len(seen) == 4)
    assert task.batches == [["slow"], ["a", "b", "d"], ["c", "f"], ["e"]]
    assert task.options == [{}, {}, {"beam": 2}, {}]
    assert seen == [1, 3, 2, 1]


def test_rows_and_characters_are_bounded(started):
    batcher, task, _ = started(linger=0.0, rows=3, characters=8)
    busy(batcher, task)
    works = [Work(["a", "b"]), Work(["c", "d"]), Work(["e" * 5]), Work(["f" * 3]), Work(["g" * 9])]
    submit(batcher, *works)
    task.go.set()
    for work in works:
        texts(work)
    assert task.batches[1:] == [["a", "b"], ["c", "d", "eeeee"], ["fff"], ["g" * 9]]


def test_what_is_drawn_is_answered_alone(started):
    batcher, task, _ = started(linger=0.0)
    busy(batcher, task)
    works = [Work(["a"], alone=True), Work(["b"], alone=True), Work(["c"]), Work(["d"])]
    submit(batcher, *works)
    task.go.set()
    assert [texts(work) for work in works] == [["a"], ["b"], ["c"], ["d"]]
    assert task.batches[1:] == [["a"], ["b"], ["c", "d"]]


def test_a_first_input_waits_a_moment_for_others(started):
    batcher, task, _ = started(linger=0.5, rows=3)
    works = [Work([text]) for text in "abc"]
    submit(batcher, *works)  # the third makes the batch full, so nobody waits longer
    assert [texts(work) for work in works] == [["a"], ["b"], ["c"]]
    assert task.batches == [["a", "b", "c"]]


@pytest.mark.parametrize(("name", "kind"), [("wrong", DataError), ("broken", ZeroDivisionError)])
def test_what_is_wrong_fails_alone(started, name, kind):
    batcher, task, _ = started(linger=0.0)
    busy(batcher, task)
    works = [Work(["a"]), Work(["b", name]), Work(["c"])]
    submit(batcher, *works)
    task.go.set()
    assert texts(works[0]) == ["a"]
    with pytest.raises(kind) as error:
        works[1].future.result(20)
    assert texts(works[2]) == ["c"]
    assert task.batches[1:] == [["a", "b", name, "c"], ["a"], ["b", name], ["c"]]
    if name == "wrong":
        assert str(error.value) == "input 2 is wrong"  # of its own request, not of the batch


def test_nobody_waits_so_nothing_is_done(started):
    batcher, task, _ = started(linger=0.0)
    first = busy(batcher, task)
    left = [Work(["a"]), Work(["b"])]
    stays = Work(["c"])
    submit(batcher, *left, stays)
    for work in left:
        assert work.future.cancel()
    assert first.future.cancel()  # running: it is stopped, for it is alone in its batch
    assert eventually(lambda: task.stopped == 1)
    assert texts(stays) == ["c"]
    assert task.batches == [["slow"], ["c"]]


def test_running_work_goes_on_while_one_waits_for_it(started):
    batcher, task, _ = started(linger=0.2)
    one, other = Work(["slow"]), Work(["b"])
    submit(batcher, one, other)
    assert task.began.wait(20)
    one.future.cancel()
    task.go.set()
    assert texts(other) == ["b"]
    assert task.stopped == 0


def test_running_work_is_done_again_for_the_few_who_wait(started):
    batcher, task, seen = started(linger=0.2)
    gone, stays, other = Work(["slow", "a", "b", "c"]), Work(["d"]), Work(["e"])
    submit(batcher, gone, stays, other)
    assert task.began.wait(20)
    stays.future.cancel()  # five of six inputs are still wanted
    gone.future.cancel()  # one of six is
    assert texts(other) == ["e"]
    assert task.batches == [["slow", "a", "b", "c", "d", "e"], ["e"]]
    assert (task.stopped, seen) == (1, [1])


@pytest.mark.parametrize("name", ["pixels", "weights"])
def test_pixels_and_weights_are_bounded_together(started, name):
    batcher, task, _ = started(linger=0.0, **{name: 10})
    busy(batcher, task)
    works = [
        Work([text], **{name: size}) for text, size in (("a", 6), ("b", 4), ("c", 1), ("d", 99))
    ]
    submit(batcher, *works)
    task.go.set()
    for work in works:
        texts(work)
    assert task.batches[1:] == [["a", "b"], ["c"], ["d"]]


def test_the_end_answers_what_is_waiting(started):
    batcher, _, _ = started(linger=30.0)
    works = [Work(["a"]), Work(["b"])]
    submit(batcher, *works)
    assert batcher.close(20.0)
    assert [texts(work) for work in works] == [["a"], ["b"]]
    stuck, other, _ = started(linger=0.0)
    busy(stuck, other)
    assert not stuck.close(0.05)


def test_characters():
    assert [characters(each) for each in ("abc", ("ab", "c"), b"bytes", 5)] == [3, 3, 0, 0]
