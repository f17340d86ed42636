"""Means over seeds and verdicts: hand-worked numbers, sacreBLEU's own paired test, and the rate of
false positives."""

import numpy as np
import pytest
from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

from saccade.compare.statistics import Verdict, quality, verdict
from saccade.metrics import paired_bootstrap
from saccade.metrics.resample import paired_difference
from saccade.metrics.score import MetricScore, Tally, ratio, signature_of
from saccade.metrics.text import bleu_tally
from tests.metrics.corpora import sentences, worse


def score(value, resamples=(), *, higher_is_better=True):
    return MetricScore(
        name="m",
        value=value,
        signature="s",
        resamples=tuple(resamples),
        higher_is_better=higher_is_better,
    )


def mean_tally(values, *, higher_is_better=True):
    counts = np.stack((np.asarray(values, dtype=float), np.ones(len(values))), 1)
    return Tally(
        name="mean",
        counts=counts,
        value=ratio,
        signature=signature_of("x"),
        higher_is_better=higher_is_better,
    )


def test_quality_of_one_seed_equals_its_score():
    one = mean_tally(np.random.default_rng(0).random(30)).score(samples=200)
    combined = quality({7: one}, 3)
    assert (combined.mean, combined.interval, combined.resamples) == (
        one.value,
        one.interval,
        one.resamples,
    )
    assert (combined.spread, combined.by_seed) == (None, {7: one.value})


def test_mean_and_spread_by_hand():
    """1, 2 and 6 have the mean 3 and the deviations -2, -1, 3: √(14 / 2) = √7."""
    combined = quality({0: score(1.0), 1: score(2.0), 2: score(6.0)}, 0)
    assert (combined.mean, combined.interval) == (3.0, None)
    assert combined.spread == pytest.approx(7**0.5)
    assert str(combined) == "3 ± 2.6"


def test_resamples_sample_trainings_with_replacement():
    """Two trainings score 0 and 2: half the resamples hold both, a quarter each hold one twice.

    Their mean is then 1 above or below the mean of both, widened by √2 for two trainings.
    """
    combined = quality({0: score(0.0, [0.0] * 4000), 1: score(2.0, [2.0] * 4000)}, 1)
    values, times = np.unique(np.round(combined.resamples, 9), return_counts=True)
    assert values == pytest.approx([1 - 2**0.5, 1, 1 + 2**0.5])
    assert times / 4000 == pytest.approx([0.25, 0.5, 0.25], abs=0.03)
    assert combined.interval == pytest.approx((1 - 2**0.5, 1 + 2**0.5))


def test_verdict_equals_paired_bootstrap():
    one, other = worse(sentences(41), 0.2, seed=1), worse(sentences(41), 0.5, seed=2)
    truth = [[text] for text in sentences(41)]
    a, b = bleu_tally(one, truth), bleu_tally(other, truth)
    difference = verdict(quality({0: a.score()}, 0), quality({0: b.score()}, 1))
    direct = paired_bootstrap(a.counts, b.counts, a.value)
    assert difference.gain == pytest.approx(direct.difference)
    assert difference.interval == pytest.approx(direct.interval)
    assert difference.p_value == direct.p_value


def test_p_value_of_sacrebleu_is_reproduced():
    truth = sentences(41)
    one, other = worse(truth, 0.3, seed=1), worse(truth, 0.33, seed=2)
    systems = [("other", other), ("one", one)]
    _, results = PairedTest(systems, {"m": BLEU()}, [truth], test_type="bs", n_samples=300)()
    theirs = next(value for name, value in results.items() if name != "System")[1]
    a, b = (bleu_tally(x, [[t] for t in truth]).score(samples=300) for x in (one, other))
    differences = np.array(a.resamples) - np.array(b.resamples)
    ours = paired_difference(a.value - b.value, differences)
    assert ours.sacrebleu_p_value == pytest.approx(theirs.p_value, abs=1e-12)


def test_verdicts_in_words():
    better = Verdict(gain=3.2, interval=(2.1, 4.4), p_value=1 / 1001)
    assert str(better) == "better by 3.2 [2.1, 4.4], p < 0.001"
    worse_ = Verdict(gain=-3.2, interval=(-4.4, -2.1), p_value=0.012)
    assert str(worse_) == "worse by 3.2 [2.1, 4.4], p = 0.012"
    unsure = Verdict(gain=0.5, interval=(-1.0, 2.0), p_value=0.5)
    assert str(unsure) == "no significant difference (+0.5 [-1, 2], p = 0.5)"
    assert "was not measured" in str(Verdict(gain=1.0, interval=None, p_value=None))
    assert [v.significant for v in (better, worse_, unsure)] == [True, True, False]


def test_lower_error_is_better():
    """Errors of 1 on all items against 0 on all: every resample has the same difference."""
    none = quality({0: mean_tally([0.0] * 9, higher_is_better=False).score(samples=99)}, 0)
    all_ = quality({0: mean_tally([1.0] * 9, higher_is_better=False).score(samples=99)}, 1)
    assert verdict(none, all_) == Verdict(gain=1.0, interval=(1.0, 1.0), p_value=0.01)
    assert verdict(all_, none) == Verdict(gain=-1.0, interval=(-1.0, -1.0), p_value=0.01)


def test_difference_is_not_significant_if_seeds_disagree():
    """By items alone 0.5 is significant; one recipe's trainings are 0 and 1 above the other's."""
    zero, one = [0.0] * 999, [1.0] * 999
    steady = quality({0: score(0.0, zero), 1: score(0.0, zero)}, 0)
    shaky = quality({0: score(0.0, zero), 1: score(1.0, one)}, 1)
    sure = quality({0: score(1.0, one), 1: score(1.0, one)}, 1)
    assert verdict(sure, steady).significant
    unsure = verdict(shaky, steady)
    assert (unsure.gain, unsure.significant) == (0.5, False)


def test_verdict_of_equal_recipes_has_p_value_one():
    a = quality({0: mean_tally([0.0, 1.0, 1.0]).score()}, 0)
    assert verdict(a, a) == Verdict(gain=0.0, interval=(0.0, 0.0), p_value=1.0)


def test_single_item_has_no_significance():
    a, b = (quality({0: mean_tally([x]).score()}, i) for i, x in enumerate((1.0, 0.0)))
    assert verdict(a, b) == Verdict(gain=1.0, interval=None, p_value=None)


@pytest.mark.parametrize(("trainings", "most"), [(1, 0.1), (3, 0.12)])
def test_false_positive_rate_is_near_five_percent(trainings, most):
    """Seeds move a score as much as items do; with one training they do not move it at all."""
    generator = np.random.default_rng(5)
    items, samples, rounds = 60, 150, 200
    noise = 0.0 if trainings == 1 else 1 / items**0.5
    wrong = 0
    for _ in range(rounds):
        sampled = generator.integers(items, size=(samples, items))
        qualities = []
        for number in range(2):
            answers = generator.normal(size=(trainings, items))
            answers += noise * generator.normal(size=(trainings, 1))
            scores = [score(values.mean(), values[sampled].mean(1).tolist()) for values in answers]
            qualities.append(quality(dict(enumerate(scores)), number))
        wrong += verdict(*qualities).significant
    assert 0.01 <= wrong / rounds <= most
