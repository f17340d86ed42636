"""Batches: by hand, their properties, and their assignment to processes and updates."""

from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.data.batches.plan import Plan, batches, padding_fraction
from saccade.errors import DataError


def lengths_of(*rows):
    return np.array(rows, dtype=np.int64).reshape(len(rows), -1)


def natural(count, seed=0):
    """Return lengths like those of sentences and their translations."""
    chance = np.random.default_rng(seed)
    first = 3 + chance.gamma(4, 3, count).astype(np.int64)
    return np.stack((first, np.maximum(1, first + chance.normal(0, 3, count).astype(np.int64))), 1)


def cost(lengths, rows):
    return len(rows) * int(lengths[rows].max(0).sum())


def test_batches_by_hand():
    lengths = lengths_of((2, 3), (1, 2), (2, 1), (1, 9))
    planned = batches(lengths, 20, seed=0, epoch=0)
    # sorted by the first field, the second down and then up: (1,9) (1,2) (2,1) (2,3);
    # 2 × (1 + 9) = 20 fits, a third row does not
    assert sorted(sorted(rows.tolist()) for rows in planned) == [[0, 2], [1, 3]]
    assert padding_fraction(lengths, planned) == pytest.approx(1 - (13 + 8) / (20 + 10))


def test_one_field_by_hand():
    lengths = lengths_of(5, 1, 3, 2, 4)
    planned = batches(lengths, 6, seed=3, epoch=0)
    assert sorted(sorted(rows.tolist()) for rows in planned) == [[0], [1, 3], [2], [4]]


MANY = st.integers(1, 3).flatmap(
    lambda fields: st.lists(st.tuples(*[st.integers(0, 30)] * fields), min_size=1, max_size=60).map(
        lambda rows: np.array(rows, dtype=np.int64)
    )
)


@settings(max_examples=100, deadline=None)
@given(lengths=MANY, budget=st.integers(1, 200), seed=st.integers(0, 5), epoch=st.integers(0, 3))
def test_every_row_once_and_within_the_budget(lengths, budget, seed, epoch):
    planned = batches(lengths, budget, seed=seed, epoch=epoch)
    assert sorted(np.concatenate(planned).tolist()) == list(range(len(lengths)))
    for rows in planned:
        assert len(rows) == 1 or cost(lengths, rows) <= budget
    assert len(planned) == len(batches(lengths, budget, seed=seed + 1, epoch=epoch + 1))
    assert 0 <= padding_fraction(lengths, planned) <= 1


def test_a_row_beyond_the_budget_is_a_batch_of_its_own():
    planned = batches(lengths_of((1, 1), (50, 50), (1, 1)), 10, seed=0, epoch=0)
    assert sorted(len(rows) for rows in planned) == [1, 2]


def test_batches_depend_on_seed_and_epoch_only():
    lengths = natural(2000)
    order = [tuple(rows.tolist()) for rows in batches(lengths, 500, seed=1, epoch=2)]
    again = [tuple(rows.tolist()) for rows in batches(lengths.copy(), 500, seed=1, epoch=2)]
    assert order == again
    for seed, epoch in ((1, 3), (2, 2)):
        other = [tuple(rows.tolist()) for rows in batches(lengths, 500, seed=seed, epoch=epoch)]
        assert order != other
        assert {frozenset(rows) for rows in order} != {frozenset(rows) for rows in other}


def test_batches_are_not_sorted_by_length():
    lengths = natural(5000)
    means = [lengths[rows].mean() for rows in batches(lengths, 500, seed=0, epoch=0)]
    assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.3


@pytest.mark.parametrize("budget", [1000, 4096])
def test_little_of_the_batches_is_padding(budget):
    lengths = natural(30_000)
    planned = batches(lengths, budget, seed=0, epoch=0)
    assert padding_fraction(lengths, planned) < 0.05
    shuffled = np.array_split(np.random.default_rng(0).permutation(len(lengths)), len(planned))
    assert padding_fraction(lengths, shuffled) > 0.3


def test_planning_of_many_rows_is_fast():
    planned = batches(natural(200_000), 4096, seed=0, epoch=0)
    assert sum(map(len, planned)) == 200_000


@pytest.mark.parametrize(
    ("lengths", "budget", "message"),
    [
        (lengths_of((1, 2)), 0, "at least 1 token, got 0"),
        (np.array([1, 2]), 5, r"\(rows, fields\), got \(2,\)"),
        (lengths_of((1, -2)), 5, "0 or more, got -2"),
    ],
)
def test_raises_on_invalid_lengths_and_budgets(lengths, budget, message):
    with pytest.raises(DataError, match=message):
        batches(lengths, budget, seed=0, epoch=0)


def test_no_rows_have_no_batches():
    assert batches(np.empty((0, 2), np.int64), 10, seed=0, epoch=0) == []
    assert padding_fraction(np.empty((0, 2), np.int64), []) == 0
    with pytest.raises(DataError, match="no rows"):
        Plan(lengths=np.empty((0, 2), np.int64), budget=10, seed=0)


# the plan


def flat(assignments):
    return [(index, tuple(rows.tolist())) for index, rows in assignments]


def test_updates_read_epoch_after_epoch():
    lengths = natural(300)
    plan = Plan(lengths=lengths, budget=200, seed=5)
    stream = [
        tuple(rows.tolist())
        for epoch in range(3)
        for rows in batches(lengths, 200, seed=5, epoch=epoch)
    ]
    read = [plan.update(before) for before in range(len(stream))]
    assert [len(update) for update in read] == [1] * len(stream)
    assert [flat(update)[0] for update in read] == list(enumerate(stream))
    assert plan.epoch_of(0) == 0
    assert plan.epoch_of(plan.per_epoch) == 1
    assert plan.epoch_of(len(stream)) == 3


@pytest.mark.parametrize(("world", "size"), [(2, 2), (1, 2), (2, 6), (3, 6), (2, 7), (4, 2)])
def test_processes_together_read_the_batches_of_one(world, size):
    lengths = natural(102)
    alone = Plan(lengths=lengths, budget=150, seed=1, size=size)
    ranks = [
        Plan(lengths=lengths, budget=150, seed=1, rank=rank, world=world, size=size)
        for rank in range(world)
    ]
    assert alone.per_epoch % size  # so that updates cross the ends of epochs
    assert alone.rounds == size
    for read in range(0, 2 * alone.per_epoch * alone.size, alone.size):
        together = [flat(plan.update(read)) for plan in ranks]
        assert max(map(len, together)) == ranks[0].rounds
        assert min(map(len, together)) == size // world
        assert sorted(chain.from_iterable(together)) == flat(alone.update(read))
        assert ranks[0].epoch_of(read) == alone.epoch_of(read)


def test_updates_in_any_order_equal_updates_in_sequence():
    lengths = natural(200)
    walked = Plan(lengths=lengths, budget=100, seed=2, size=3)
    walk = [flat(walked.update(3 * step)) for step in range(200)]
    jumped = Plan(lengths=lengths, budget=100, seed=2, size=3)
    for step in (199, 3, 77, 76, 0):
        assert flat(jumped.update(3 * step)) == walk[step]
    assert [index for index, _ in jumped.update(10**9)] == [10**9, 10**9 + 1, 10**9 + 2]


def test_updates_of_changing_sizes_read_every_batch_once():
    """A training run may be resumed with other processes and updates of another size."""
    lengths, read, seen = natural(200), 0, []
    for world, size in ((1, 1), (2, 2), (1, 2), (3, 6), (1, 1), (2, 4), (3, 4)):
        for _ in range(5):
            for rank in range(world):
                plan = Plan(lengths=lengths, budget=100, seed=2, size=size, rank=rank, world=world)
                seen += [index for index, _ in plan.update(read)]
            read += plan.size
    assert sorted(seen) == list(range(read))


def test_one_batch_may_hold_all_rows():
    plan = Plan(lengths=lengths_of((1, 1), (1, 1)), budget=100, seed=0, size=5)
    assert [sorted(rows.tolist()) for _, rows in plan.update(7)] == [[0, 1]] * 5


@pytest.mark.parametrize(
    "wrong", [{"rank": 1}, {"rank": -1}, {"world": 0}, {"size": 0}, {"seed": -1}]
)
def test_raises_on_an_invalid_plan(wrong):
    with pytest.raises(DataError, match="got"):
        Plan(**{"lengths": natural(5), "budget": 10, "seed": 0, **wrong})


def test_raises_on_a_negative_number_of_batches():
    with pytest.raises(DataError, match="batches read must be 0 or more, got -1"):
        Plan(lengths=natural(5), budget=10, seed=0).update(-1)
