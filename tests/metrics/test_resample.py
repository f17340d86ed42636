"""Intervals and the paired bootstrap: equal to sacreBLEU, and with a calibrated p-value."""

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest

from saccade.errors import MetricError
from saccade.metrics import exact_match, paired_bootstrap, resample
from saccade.metrics.resample import percentiles, resampled_sums
from saccade.metrics.text import bleu_tally, chrf_tally
from tests.metrics.corpora import sentences, worse

TRUTH = sentences(41)
REFERENCES = [[text] for text in TRUTH]


def ratio(sums):
    return float(sums[0] / sums[1])


def mean_counts(values):
    """Return counts whose ratio is the mean of the values."""
    values = np.asarray(values, dtype=float)
    return np.stack((values, np.ones_like(values)), 1)


@pytest.mark.parametrize(("count", "metric"), [(bleu_tally, BLEU), (chrf_tally, CHRF)])
@pytest.mark.parametrize("wrong_fraction", [0.25, 0.33, 0.6])
def test_sacrebleu_p_value_equals_sacrebleu(count, metric, wrong_fraction):
    one, other = worse(TRUTH, 0.3, seed=1), worse(TRUTH, wrong_fraction, seed=2)
    test = PairedTest(
        [("other", other), ("one", one)], {"m": metric()}, [TRUTH], test_type="bs", n_samples=300
    )
    _, results = test()
    expected = next(value for name, value in results.items() if name != "System")[1]
    a, b = count(one, REFERENCES), count(other, REFERENCES)
    result = paired_bootstrap(a.counts, b.counts, a.value, samples=300)
    assert result.sacrebleu_p_value == pytest.approx(expected.p_value, abs=1e-12)
    assert result.difference == pytest.approx(a.of() - b.of())


def test_a_clear_difference_is_significant_in_both_directions():
    a, b = mean_counts([1.0] * 50 + [0.0] * 10), mean_counts([0.0] * 40 + [1.0] * 20)
    clear = paired_bootstrap(a, b, ratio)
    assert clear.difference == pytest.approx(0.5)
    assert clear.interval[0] > 0
    assert clear.p_value < 0.01
    assert clear.fraction_above > 0.99
    back = paired_bootstrap(b, a, ratio)
    assert back.difference == -clear.difference
    assert back.interval == pytest.approx((-clear.interval[1], -clear.interval[0]))
    assert back.p_value == clear.p_value
    assert back.fraction_above < 0.01


def test_equal_systems_do_not_differ():
    a = mean_counts([0.0, 1.0, 1.0, 0.0, 1.0])
    same = paired_bootstrap(a, a.copy(), ratio)
    assert (same.difference, same.interval, same.p_value) == (0, (0, 0), 1)
    assert same.sacrebleu_p_value == pytest.approx(1 / 1001)  # so it is not the p-value reported
    swapped = paired_bootstrap(a, a[[1, 0, 2, 3, 4]], ratio)
    assert swapped.difference == 0
    assert swapped.p_value == 1


def test_a_constant_difference_has_the_smallest_p_value():
    a, b = mean_counts([1.0] * 7), mean_counts([0.0] * 7)
    difference = paired_bootstrap(a, b, ratio, samples=99)
    assert difference.p_value == 1 / 100
    assert difference.interval == (1, 1)


def test_p_value_of_equal_systems_is_calibrated():
    generator = np.random.default_rng(7)
    rounds, wrong, wrong_by_sacrebleu = 150, 0, 0
    for seed in range(rounds):
        a, b = (mean_counts(generator.normal(size=80)) for _ in range(2))
        difference = paired_bootstrap(a, b, ratio, samples=150, seed=seed)
        wrong += difference.p_value < 0.05
        wrong_by_sacrebleu += difference.sacrebleu_p_value < 0.05
    assert 0.01 <= wrong / rounds <= 0.1
    assert wrong < wrong_by_sacrebleu


def test_resamples_do_not_depend_on_the_chunk_size(monkeypatch):
    counts = np.random.default_rng(0).random((13, 3))
    at_once = resampled_sums(counts, 31, 5)
    assert at_once.shape == (31, 3)
    for limit in (1, 30, 200):
        monkeypatch.setattr(resample, "_AT_ONCE", limit)
        assert resampled_sums(counts, 31, 5) == pytest.approx(at_once)


def test_resampled_sums_are_sums_of_sampled_items():
    chosen = np.random.default_rng(5).choice(4, size=(6, 4))
    counts = np.array([[1.0, 10.0], [2.0, 20.0], [4.0, 40.0], [8.0, 80.0]])
    assert (resampled_sums(counts, 6, 5) == counts[chosen].sum(1)).all()


def test_percentiles_exclude_a_fortieth_on_each_side():
    assert percentiles(np.arange(80.0)[::-1]) == (2, 77)
    assert percentiles(np.array([3.0])) == (3, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: paired_bootstrap(mean_counts([1]), mean_counts([1, 2]), ratio),
            r"\(1, 2\) and \(2, 2\)",
        ),
        (
            lambda: paired_bootstrap(mean_counts([1]), mean_counts([1]), ratio, samples=0),
            "at least 1",
        ),
        (lambda: paired_bootstrap(mean_counts([]), mean_counts([]), ratio), "0 items"),
        (lambda: resampled_sums(mean_counts([1]), 3, -1), "seed = -1"),
    ],
)
def test_raises_on_invalid_resampling(call, message):
    with pytest.raises(MetricError, match=message):
        call()


def test_a_single_item_has_no_interval():
    score = exact_match(["a"], [["a"]], samples=10)
    assert (score.value, score.interval) == (1.0, None)
    assert "bs:" not in score.signature
