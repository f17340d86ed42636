"""Alignment error rate, checked by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.errors import MetricError
from saccade.lens.alignment.error_rate import alignment_error_rate

links = st.frozensets(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=8)
corpora = st.lists(st.tuples(links, links, links), max_size=4)


def test_alignment_error_rate_by_hand():
    """A has 3 links, S 2, P 3: one sure, two possible hits, so 1 - (1 + 2) / (3 + 2)."""
    predicted = [{(0, 0), (1, 2), (5, 5)}]
    sure, possible = [{(0, 0), (1, 1)}], [{(0, 0), (1, 1), (1, 2)}]
    assert alignment_error_rate(predicted, sure, possible) == pytest.approx(2 / 5)


def test_sure_links_count_as_possible():
    predicted, sure = [{(0, 0), (1, 2)}], [{(0, 0)}]
    repeated = alignment_error_rate(predicted, sure, [{(0, 0), (1, 2)}])
    assert alignment_error_rate(predicted, sure, [{(1, 2)}]) == repeated == 0


def test_counts_are_summed_over_the_corpus_and_not_averaged():
    """First sentence: 2 of 2 links right, second: 0 of 1; 1 - (2 + 2) / (3 + 3)."""
    gold = [{(0, 0), (1, 1)}, {(0, 0)}]
    predicted = [{(0, 0), (1, 1)}, {(3, 3)}]
    assert alignment_error_rate(predicted, gold, gold) == pytest.approx(1 / 3)


def test_is_0_at_best_and_1_at_worst():
    gold = [{(0, 0), (1, 1)}]
    assert alignment_error_rate(gold, gold, gold) == 0
    assert alignment_error_rate([{(2, 2)}], gold, gold) == 1
    assert alignment_error_rate([set()], gold, gold) == 1
    assert alignment_error_rate([set()], [set()], [{(0, 0)}]) == 0
    assert alignment_error_rate([], [], []) == 0


def test_source_and_target_are_distinguished():
    assert alignment_error_rate([{(0, 1)}], [{(1, 0)}], [{(1, 0)}]) == 1


@given(corpora)
def test_is_a_fraction_and_ignores_repeated_links(corpus):
    parts = [[item[i] for item in corpus] for i in range(3)]
    rate = alignment_error_rate(*parts)
    assert 0 <= rate <= 1
    assert rate == alignment_error_rate(*([[*one, *one] for one in part] for part in parts))


def test_raises_on_different_numbers_of_sentences():
    with pytest.raises(MetricError, match="got 1, 2 and 1 sets"):
        alignment_error_rate([set()], [set(), set()], [set()])
