"""Leases by which processes share out work, with a clock that the tests set."""

import pytest

from saccade.compare import joining
from saccade.compare.leases import Leases, Record
from saccade.errors import RunError, WriteError

SECONDS = 10.0
TERMS = {"recipes": ["rnn"], "seeds": [0], "budget": "6 steps"}


class Clock:
    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def process(folder, name, now=0.0):
    """The leases as a process sees them whose own clock shows `now`."""
    return Leases(folder, SECONDS, Clock(now), name)


@pytest.fixture
def both(tmp_path):
    """Two machines, one of whose clocks runs a year ahead."""
    return process(tmp_path, "a:1"), process(tmp_path, "b:1", 3e7)


def test_one_process_at_a_time_holds_a_piece_of_work(both):
    one, other = both
    assert other.read("job") is None
    lease = one.take("job")
    assert other.take("job") is None
    assert one.take("job") is None
    assert other.read("job").holder == "a:1"
    assert not lease.lost


def test_slower_of_two_processes_that_create_the_same_lease_gets_nothing(both, monkeypatch):
    one, other = both
    monkeypatch.setattr(other, "_newest", lambda name: 0)  # what it saw before `one` was faster
    assert one.take("job") is not None
    assert other.take("job") is None


def test_lease_is_taken_over_after_the_seconds_without_a_heartbeat(both):
    one, other = both
    lease = one.take("job")
    for now in (0.0, SECONDS - 0.1):
        other.clock.now = 3e7 + now
        assert other.take("job") is None
    other.clock.now = 3e7 + SECONDS
    assert other.take("job") is not None
    assert lease.lost


def test_heartbeats_keep_a_lease(both):
    one, other = both
    lease = one.take("job")
    for _ in range(5):
        assert other.take("job") is None
        other.clock.now += 0.9 * SECONDS
        lease.beat()
    assert not lease.lost


def test_new_process_waits_as_long_as_any(both, tmp_path):
    one, other = both
    one.take("job")
    assert other.take("job") is None
    other.clock.now += 100 * SECONDS
    late = process(tmp_path, "c:1", 5e8)
    assert late.take("job") is None  # it has not watched yet, whatever its clock shows
    assert other.take("job") is not None


def test_process_that_was_suspended_cannot_end_the_lease_of_its_successor(both, tmp_path):
    one, other = both
    lease = one.take("job")
    assert other.take("job") is None
    other.clock.now += SECONDS
    with other.take("job"):
        lease.beat()
        with lease:
            lease.conclude("done")
        assert other.read("job") == one.read("job")
        assert (one.read("job").holder, one.read("job").state) == ("b:1", "held")
        assert process(tmp_path, "c:1").take("job") is None


def test_work_that_was_given_back_is_free_at_once(both):
    one, other = both
    with pytest.raises(KeyboardInterrupt), one.take("job"):
        raise KeyboardInterrupt
    assert other.read("job").state == "free"
    assert other.take("job") is not None


@pytest.mark.parametrize("state", ["done", "failed"])
def test_work_that_is_done_or_has_failed_is_not_taken_again(both, state):
    one, other = both
    with one.take("job") as lease:
        lease.conclude(state, "no memory")
    other.clock.now += 100 * SECONDS
    assert other.take("job") is None
    assert (other.read("job").state, other.read("job").reason) == (state, "no memory")


def test_heartbeats_come_by_themselves_inside_the_block(tmp_path):
    leases = Leases(tmp_path, 0.08)
    with leases.take("job") as lease:
        path = tmp_path / "job.1"
        while Record.from_bytes(path.read_bytes()).beat < 4:
            pass
        (tmp_path / "job.2").touch()
        lease._thread.join(5)
        assert not lease._thread.is_alive()  # it has lost the work


def test_lease_that_its_holder_did_not_finish_writing_expires(both, tmp_path):
    _, other = both
    (tmp_path / "job.1").write_bytes(b'{"holder": "a:')
    assert other.take("job") is None
    other.clock.now += SECONDS
    assert other.take("job") is not None


def test_error_names_a_folder_that_cannot_be_written(tmp_path):
    with pytest.raises(WriteError, match=r"gone/job\.1 could not be written"):
        Leases(tmp_path / "gone").take("job")


def test_processes_join_the_unfinished_session(tmp_path):
    session = joining.join(tmp_path, TERMS)
    assert joining.join(tmp_path, TERMS) == session == joining.unfinished(tmp_path)
    calls = []
    joining.once(Leases(session), joining.PAGE, lambda: calls.append("a"))
    joining.once(Leases(session), joining.PAGE, lambda: calls.append("b"))
    assert calls == ["a"]
    assert joining.unfinished(tmp_path) is None
    for _ in range(2):
        session = joining.join(tmp_path, {**TERMS, "seeds": [0, 1]})
        joining.once(Leases(session), joining.PAGE, lambda: None)
    assert sorted(path.name for path in session.parent.iterdir()) == ["2", "3"]


def test_raises_if_the_others_compare_something_else(tmp_path):
    session = joining.join(tmp_path, TERMS)
    with pytest.raises(RunError, match=r"compare something else: seeds differs.*same command"):
        joining.join(tmp_path, {**TERMS, "seeds": [0, 1]})
    (session / "session.json").write_text("{")
    with pytest.raises(RunError, match=r"session\.json is damaged"):
        joining.join(tmp_path, TERMS)


def test_slower_of_two_processes_that_begin_a_session_joins_it(tmp_path, monkeypatch):
    session = joining.join(tmp_path, TERMS)
    numbers = iter([0])
    newest = joining._newest
    monkeypatch.setattr(joining, "_newest", lambda folder: next(numbers, None) or newest(folder))
    assert joining.join(tmp_path, TERMS) == session
    assert [path.name for path in session.parent.iterdir()] == ["1"]


def test_holders_are_named_for_people():
    assert joining.holder(Record("node3:712-ab12cd34")) == "node3, process 712"
    assert joining.holder(None) == "another process"
