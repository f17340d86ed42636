"""The cut of rows into batches equals the plain computation over sorted rows, in less memory."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.data.batches import cut
from saccade.data.batches.cut import Cut, sort_lengths


class SlowCut:
    """The reference: all rows are sorted by their lengths, and the batches cut from them."""

    def __init__(self, lengths, budget):
        order = sort_lengths(lengths)
        ordered = lengths[order].astype(np.int64)
        differs = np.ones(len(order), dtype=bool)
        differs[1:] = (ordered[1:] != ordered[:-1]).any(1)
        self.rank = np.empty(len(order), np.int64)
        self.rank[order] = np.cumsum(differs)
        self.ends, start = [], 0
        while start < len(ordered):
            longest = np.maximum.accumulate(ordered[start:], axis=0).sum(1)
            padded = np.maximum(longest, 1) * np.arange(1, len(longest) + 1)
            start += max(1, int(np.searchsorted(padded, budget, side="right")))
            self.ends.append(start)

    def shuffled(self, seed, epoch):
        generator = np.random.default_rng([seed, epoch])
        shuffled = generator.permutation(len(self.rank))
        rows = shuffled[np.argsort(self.rank[shuffled], kind="stable")]
        batches = np.split(rows, self.ends[:-1])
        return [batches[i] for i in generator.permutation(len(self.ends))]


def same(lengths, budget, seed=0, epoch=0):
    fast = Cut(lengths, budget).shuffled(seed, epoch)
    slow = SlowCut(lengths, budget).shuffled(seed, epoch)
    return [rows.tolist() for rows in fast] == [rows.tolist() for rows in slow]


LENGTHS = st.integers(1, 3).flatmap(
    lambda fields: st.lists(
        st.tuples(*[st.one_of(st.integers(0, 9), st.integers(0, 5000))] * fields),
        min_size=1,
        max_size=80,
    ).map(lambda rows: np.array(rows, dtype=np.int64))
)


@settings(max_examples=150, deadline=None)
@given(lengths=LENGTHS, budget=st.integers(1, 400), seed=st.integers(0, 5), epoch=st.integers(0, 2))
def test_batches_equal_those_of_sorted_rows(lengths, budget, seed, epoch):
    assert same(lengths, budget, seed, epoch)


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "int64"])
@pytest.mark.parametrize(("piece", "table"), [(7, 2**22), (100, 10), (2**20, 10)])
def test_pieces_and_codes_do_not_change_the_batches(dtype, piece, table, monkeypatch):
    monkeypatch.setattr(cut, "PIECE", piece)
    monkeypatch.setattr(cut, "TABLE", table)
    lengths = np.random.default_rng(1).integers(0, 40, (997, 2)).astype(dtype)
    assert same(lengths, 211, seed=3, epoch=1)


def test_lengths_whose_combinations_have_no_code_of_64_bits_are_numbered(monkeypatch):
    monkeypatch.setattr(cut, "MOST_CODES", 1000)
    lengths = np.random.default_rng(2).integers(0, 500, (311, 3))
    assert same(lengths, 2000)


def test_an_epoch_takes_few_bytes_per_row(monkeypatch):
    monkeypatch.setattr(cut, "PIECE", 2**13)
    count = 400_000
    chance = np.random.default_rng(0)
    lengths = chance.integers(3, 40, (count, 2)).astype(np.uint16)
    tracemalloc.start()
    try:
        batches = Cut(lengths, 4096).shuffled(0, 0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum(map(len, batches)) == count
    fixed = 1_500_000  # of the pieces and of the distinct lengths
    assert peak < 8 * count + fixed
