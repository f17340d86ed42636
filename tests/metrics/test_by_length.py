"""Quality by length: buckets that are full enough and cover every item once."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.errors import MetricError
from saccade.metrics import TextMetricsConfig, by_length
from saccade.metrics.by_length import input_length, length_buckets

EXACT = TextMetricsConfig(names=("exact_match", "word_edit_rate"))


def same(texts):
    """Return the tallies of predictions that are all right."""
    return EXACT.tally(texts, [[text] for text in texts])


def test_buckets_by_hand():
    inputs = ["a", "b", "a b", "a b c", "a b d", "a b c d e"]
    predictions = ["x", "y", "x y", "x y z", "x y", "no"]
    references = [["x"], ["x"], ["x y"], ["x y z"], ["x y z"], ["a b c d"]]
    assert by_length(EXACT.tally(predictions, references), inputs, buckets=2, least=2) == [
        {"from": 1, "to": 2, "unit": "words", "count": 3,
         "exact_match": pytest.approx(2 / 3), "word_edit_rate": pytest.approx(1 / 4)},
        {"from": 3, "to": 5, "unit": "words", "count": 3,
         "exact_match": pytest.approx(1 / 3), "word_edit_rate": pytest.approx(5 / 10)},
    ]  # fmt: skip


def test_single_words_are_measured_in_characters():
    inputs = ["cat", "house", "", "a"]
    rows = by_length(same(inputs), inputs, buckets=2, least=1)
    assert [(row["from"], row["to"], row["unit"]) for row in rows] == [
        (0, 1, "characters"),
        (3, 5, "characters"),
    ]
    [row] = by_length(same(inputs), inputs, unit="words")
    assert (row["from"], row["to"], row["count"]) == (0, 1, 4)


@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=80),
    st.integers(1, 7),
    st.integers(1, 20),
)
def test_buckets_are_full_disjoint_and_complete(lengths, buckets, least):
    bounds = length_buckets(lengths, buckets=buckets, least=least)
    counts = [sum(low <= length <= high for length in lengths) for low, high in bounds]
    assert 1 <= len(bounds) <= buckets
    assert sum(counts) == len(lengths)
    assert all(low <= high for low, high in bounds)
    assert all(a[1] < b[0] for a, b in pairwise(bounds))
    assert (bounds[0][0], bounds[-1][1]) == (min(lengths), max(lengths))
    assert min(counts) >= min(least, len(lengths))


def test_few_items_are_one_bucket():
    assert length_buckets([4, 9, 2]) == [(2, 9)]
    assert length_buckets([]) == []


def test_input_length_in_words_and_characters():
    assert input_length(" été  là ", "words") == 2
    assert input_length(" été  là ", "characters") == 7
    with pytest.raises(MetricError, match="unit must be words or characters, got 'tokens'"):
        input_length.__wrapped__("a", "tokens")  # without the runtime check of types


@pytest.mark.parametrize(
    ("options", "message"),
    [({"buckets": 0}, "buckets = 0"), ({"least": 0}, "least = 0")],
)
def test_raises_on_invalid_buckets(options, message):
    with pytest.raises(MetricError, match=message):
        length_buckets([1], **options)


def test_raises_if_inputs_and_predictions_differ_in_number():
    with pytest.raises(MetricError, match="1 inputs for 2 predictions"):
        by_length(same(["a", "b"]), ["a"])
