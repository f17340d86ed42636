"""Intervals and the paired bootstrap: sacreBLEU's numbers, and a p-value that keeps its word."""

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


def share(values):
    """Counts whose ratio is the mean of the values."""
    values = np.asarray(values, dtype=float)
    return np.stack((values, np.ones_like(values)), 1)


@pytest.mark.parametrize(("count", "metric"), [(bleu_tally, BLEU), (chrf_tally, CHRF)])
@pytest.mark.parametrize("share_wrong", [0.25, 0.33, 0.6])
def test_sacrebleus_own_p_value(count, metric, share_wrong):
    one, other = worse(TRUTH, 0.3, seed=1), worse(TRUTH, share_wrong, seed=2)
    test = PairedTest(
        [("other", other), ("one", one)], {"m": metric()}, [TRUTH], test_type="bs", n_samples=300
    )
    _, results = test()
    theirs = next(value for name, value in results.items() if name != "System")[1]
    a, b = count(one, REFERENCES), count(other, REFERENCES)
    ours = paired_bootstrap(a.counts, b.counts, a.value, samples=300)
    assert ours.sacrebleu_p_value == pytest.approx(theirs.p_value, abs=1e-12)
    assert ours.difference == pytest.approx(a.of() - b.of())


def test_a_clear_difference_and_none():
    a, b = share([1.0] * 50 + [0.0] * 10), share([0.0] * 40 + [1.0] * 20)
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
    a = share([0.0, 1.0, 1.0, 0.0, 1.0])
    same = paired_bootstrap(a, a.copy(), ratio)
    assert (same.difference, same.interval, same.p_value) == (0, (0, 0), 1)
    assert same.sacrebleu_p_value == pytest.approx(1 / 1001)  # which is why it is not ours
    swapped = paired_bootstrap(a, a[[1, 0, 2, 3, 4]], ratio)
    assert swapped.difference == 0
    assert swapped.p_value == 1


def test_a_difference_that_every_resample_has_is_certain():
    a, b = share([1.0] * 7), share([0.0] * 7)
    found = paired_bootstrap(a, b, ratio, samples=99)
    assert found.p_value == 1 / 100
    assert found.interval == (1, 1)


def test_of_equal_systems_about_one_in_twenty_is_called_different():
    generator = np.random.default_rng(7)
    rounds, wrong, wrong_by_sacrebleu = 150, 0, 0
    for seed in range(rounds):
        a, b = (share(generator.normal(size=80)) for _ in range(2))
        found = paired_bootstrap(a, b, ratio, samples=150, seed=seed)
        wrong += found.p_value < 0.05
        wrong_by_sacrebleu += found.sacrebleu_p_value < 0.05
    assert 0.01 <= wrong / rounds <= 0.1
    assert wrong < wrong_by_sacrebleu


def test_resamples_are_drawn_alike_whatever_the_memory(monkeypatch):
    counts = np.random.default_rng(0).random((13, 3))
    at_once = resampled_sums(counts, 31, 5)
    assert at_once.shape == (31, 3)
    for limit in (1, 30, 200):
        monkeypatch.setattr(resample, "_AT_ONCE", limit)
        assert resampled_sums(counts, 31, 5) == pytest.approx(at_once)


def test_resampled_sums_are_sums_of_drawn_items():
    drawn = np.random.default_rng(5).choice(4, size=(6, 4))
    counts = np.array([[1.0, 10.0], [2.0, 20.0], [4.0, 40.0], [8.0, 80.0]])
    assert (resampled_sums(counts, 6, 5) == counts[drawn].sum(1)).all()


def test_percentiles_leave_out_a_fortieth_on_each_side():
    assert percentiles(np.arange(80.0)[::-1]) == (2, 77)
    assert percentiles(np.array([3.0])) == (3, 3)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: paired_bootstrap(share([1]), share([1, 2]), ratio), r"\(1, 2\) and \(2, 2\)"),
        (lambda: paired_bootstrap(share([1]), share([1]), ratio, samples=0), "at least 1"),
        (lambda: paired_bootstrap(share([]), share([]), ratio), "0 items"),
        (lambda: resampled_sums(share([1]), 3, -1), "seed = -1"),
    ],
)
def test_what_cannot_be_resampled_is_refused(call, said):
    with pytest.raises(MetricError, match=said):
        call()


def test_a_single_item_has_no_interval():
    score = exact_match(["a"], [["a"]], samples=10)
    assert (score.value, score.interval) == (1.0, None)
    assert "bs:" not in score.signature
