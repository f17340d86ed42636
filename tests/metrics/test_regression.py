"""Metrics of numbers: by hand, against scipy, and where they are undefined."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from saccade.errors import MetricError
from saccade.metrics import mean_squared_error, pearson, spearman
from saccade.metrics.regression import number_tallies, pearson_tally, ranks, spearman_tally
from saccade.metrics.score import scores_of

ALL = [pearson, spearman, mean_squared_error]
PREDICTIONS = [1.0, 2.0, 3.0, 5.0]
REFERENCES = [2.0, 1.0, 4.0, 3.0]


def test_scores_of_numbers_by_hand():
    # predictions minus their mean: -1.75 -0.75 0.25 2.25; references: -0.5 -1.5 1.5 0.5
    assert pearson(PREDICTIONS, REFERENCES).value == pytest.approx(3.5 / math.sqrt(8.75 * 5))
    assert spearman(PREDICTIONS, REFERENCES).value == pytest.approx(1 - 6 * 4 / (4 * 15))
    assert mean_squared_error(PREDICTIONS, REFERENCES).value == (1 + 1 + 1 + 4) / 4


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ([3.0, 1.0, 2.0], [3, 1, 2]),
        ([5.0, 5.0, 1.0, 5.0], [3, 3, 1, 3]),
        ([0.0, -0.0], [1.5, 1.5]),
        ([7.0], [1]),
    ],
)
def test_equal_numbers_have_their_mean_rank(numbers, expected):
    assert ranks(np.array(numbers)).tolist() == expected


few = st.integers(-3, 3).map(float)
wide = st.floats(-1e6, 1e6).map(lambda x: round(x, 3))


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(few | wide, few | wide), min_size=2, max_size=30))
def test_correlations_equal_scipy(items):
    predictions, references = map(list, zip(*items, strict=True))
    assert ranks(np.array(predictions)) == pytest.approx(stats.rankdata(predictions))
    if len(set(predictions)) == 1 or len(set(references)) == 1:
        assert pearson_tally(predictions, references).of() == 0
        assert spearman_tally(predictions, references).of() == 0
    else:
        assert spearman_tally(predictions, references).of() == pytest.approx(
            stats.spearmanr(predictions, references).statistic, abs=1e-9
        )
        assert pearson_tally(predictions, references).of() == pytest.approx(
            np.corrcoef(predictions, references)[0, 1], abs=1e-6
        )


@pytest.mark.parametrize("offset", [0.0, 1e7, -1e12])
@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e60])
def test_correlation_is_invariant_to_offset_and_scale(offset, scale):
    moved = [(x + offset) * scale for x in PREDICTIONS]
    expected = 3.5 / math.sqrt(8.75 * 5)
    assert pearson(moved, REFERENCES).value == pytest.approx(expected, abs=1e-3)
    assert pearson(REFERENCES, [-x for x in moved]).value == pytest.approx(-expected, abs=1e-3)
    assert spearman(moved, REFERENCES).value == spearman(PREDICTIONS, REFERENCES).value


@pytest.mark.parametrize("metric", [pearson, spearman])
@pytest.mark.parametrize("constant", [0.0, 0.1, -1 / 3, 1e90, 1e-300])
def test_correlation_with_a_constant_is_zero(metric, constant):
    for predictions, references in (([constant] * 4, REFERENCES), (PREDICTIONS, [constant] * 4)):
        score = metric(predictions, references, samples=20)
        assert (score.value, score.interval) == (0, (0, 0))
    assert metric([constant], [2.0]).value == 0


def test_correlation_of_a_repeated_item_is_zero():
    """A ninth of the resamples of 3 items has one item only; its variance is rounding."""
    tally = pearson_tally([0.1, 0.7, 1 / 3], [1 / 7, 0.3, 0.9])
    for item in range(3):
        for times in (1, 2, 3, 1000):
            assert tally.of([item] * times) == 0
    assert np.isfinite(tally.resampled(200, 1)).all()
    assert (np.abs(tally.resampled(200, 1)) <= 1).all()


def test_spearman_of_some_items_uses_ranks_among_all():
    predictions, references = [1.0, 10.0, 2.0, 3.0], [1.0, 2.0, 3.0, 4.0]
    some = spearman_tally(predictions, references).of([0, 1, 3])
    assert some == pytest.approx(np.corrcoef([1, 4, 3], [1, 2, 4])[0, 1])


def test_pearson_of_some_items_uses_these_items_only():
    tally = pearson_tally(PREDICTIONS, REFERENCES)
    assert tally.of([0, 2, 3]) == pytest.approx(np.corrcoef([1, 3, 5], [2, 4, 3])[0, 1])


def test_number_tallies_contain_every_metric():
    scores = scores_of(number_tallies(PREDICTIONS, REFERENCES), samples=30, seed=2)
    assert list(scores) == ["pearson", "spearman", "mean_squared_error"]
    for metric in ALL:
        assert scores[metric.__name__] == metric(PREDICTIONS, REFERENCES, samples=30, seed=2)
    assert [score.higher_is_better for score in scores.values()] == [True, True, False]
    assert scores["spearman"].signature.startswith("nrefs:1|bs:30|seed:2|numbers:ranks|saccade:")
    bare = scores_of(number_tallies(PREDICTIONS, REFERENCES), samples=0, seed=2)
    assert all(score.interval is None for score in bare.values())


@pytest.mark.parametrize("metric", [*ALL, number_tallies])
@pytest.mark.parametrize(
    ("predictions", "references", "message"),
    [
        ([1.0], [1.0, 2.0], "got 1 predictions and 2 references"),
        ([], [], "got 0 predictions"),
        ([1.0, math.nan], [1.0, 2.0], "the prediction of item 1 is nan; it must be finite"),
        ([1.0, 2.0], [-math.inf, 2.0], "the reference of item 0 is -inf"),
        ([1e200], [1.0], "at most 1e[+]100 in size"),
    ],
)
def test_raises_on_invalid_items(metric, predictions, references, message):
    with pytest.raises(MetricError, match=message):
        metric(predictions, references)
