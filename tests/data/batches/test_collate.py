"""Padding: by hand, and of rows in a file."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.data.batches.collate import mask_of, pad, pad_rows
from saccade.data.store.ragged import Ragged


def ragged_of(sequences):
    tokens = np.array([x for sequence in sequences for x in sequence], dtype=np.uint16)
    offsets = np.cumsum([0, *map(len, sequences)]).astype(np.int64)
    return Ragged(tokens, offsets)


def test_padding_by_hand():
    tokens, mask = pad([[5, 6, 7], [8]], 9)
    assert tokens.dtype == torch.int64
    assert tokens.tolist() == [[5, 6, 7], [8, 9, 9]]
    assert mask.tolist() == [[True, True, True], [True, False, False]]


def test_start_and_end_surround_each_sequence():
    tokens, mask = pad([[5, 6], [], [7]], 0, start=1, end=2)
    assert tokens.tolist() == [[1, 5, 6, 2], [1, 2, 0, 0], [1, 7, 2, 0]]
    assert mask.sum(1).tolist() == [4, 2, 3]
    assert pad([[5], [6, 7]], end=3)[0].tolist() == [[5, 3, 0], [6, 7, 3]]
    assert pad([[5], [6, 7]], start=3)[0].tolist() == [[3, 5, 0], [3, 6, 7]]


def test_padding_of_no_sequences():
    tokens, mask = pad([])
    assert tokens.shape == mask.shape == (0, 0)
    assert pad([[], []])[0].shape == (2, 0)
    assert mask_of(np.array([2, 0])).tolist() == [[True, True], [False, False]]


ID = st.integers(0, 2**16 - 1)


@settings(max_examples=40, deadline=None)
@given(
    sequences=st.lists(st.lists(ID, max_size=6), min_size=1, max_size=6),
    value=ID,
    start=st.none() | ID,
    end=st.none() | ID,
    data=st.data(),
)
def test_pad_rows_equals_pad(sequences, value, start, end, data):
    rows = data.draw(st.lists(st.integers(0, len(sequences) - 1), max_size=8))
    chosen = [sequences[row] for row in rows]
    tokens, mask = pad_rows(ragged_of(sequences), rows, value, start=start, end=end)
    expected, expected_mask = pad(chosen, value, start=start, end=end)
    assert tokens.equal(expected)
    assert mask.equal(expected_mask)
    before, after = [x for x in [start] if x is not None], [x for x in [end] if x is not None]
    for row, real, sequence in zip(tokens, mask, chosen, strict=True):
        assert row[real].tolist() == [*before, *sequence, *after]
        assert (row[~real] == value).all()
