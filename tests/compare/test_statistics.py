"""Means over seeds and verdicts: hand-worked numbers, sacreBLEU's own paired test, and how often
equal recipes are called different."""

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


def test_one_seed_is_the_score_itself():
    found = mean_tally(np.random.default_rng(0).random(30)).score(samples=200)
    told = quality({7: found}, 3)
    assert (told.mean, told.interval, told.resamples) == (
        found.value,
        found.interval,
        found.resamples,
    )
    assert (told.spread, told.by_seed) == (None, {7: found.value})


def test_mean_and_spread_by_hand():
    """1, 2 and 6 have the mean 3 and the deviations -2, -1, 3: √(14 / 2) = √7."""
    told = quality({0: score(1.0), 1: score(2.0), 2: score(6.0)}, 0)
    assert (told.mean, told.interval) == (3.0, None)
    assert told.spread == pytest.approx(7**0.5)
    assert str(told) == "3 ± 2.6"


def test_resamples_also_draw_seeds():
    """Of two trainings that score 0 and 2, half the draws have one of each, a quarter each twice.

    Their mean lies 1 above or below that of both, times √2: two trainings vary too little by that.
    """
    told = quality({0: score(0.0, [0.0] * 4000), 1: score(2.0, [2.0] * 4000)}, 1)
    values, times = np.unique(np.round(told.resamples, 9), return_counts=True)
    assert values == pytest.approx([1 - 2**0.5, 1, 1 + 2**0.5])
    assert times / 4000 == pytest.approx([0.25, 0.5, 0.25], abs=0.03)
    assert told.interval == pytest.approx((1 - 2**0.5, 1 + 2**0.5))


def test_the_verdict_is_the_paired_bootstrap():
    one, other = worse(sentences(41), 0.2, seed=1), worse(sentences(41), 0.5, seed=2)
    truth = [[text] for text in sentences(41)]
    a, b = bleu_tally(one, truth), bleu_tally(other, truth)
    told = verdict(quality({0: a.score()}, 0), quality({0: b.score()}, 1))
    direct = paired_bootstrap(a.counts, b.counts, a.value)
    assert told.gain == pytest.approx(direct.difference)
    assert told.interval == pytest.approx(direct.interval)
    assert told.p_value == direct.p_value


def test_sacrebleus_own_p_value_comes_from_the_same_resamples():
    truth = sentences(41)
    one, other = worse(truth, 0.3, seed=1), worse(truth, 0.33, seed=2)
    systems = [("other", other), ("one", one)]
    _, results = PairedTest(systems, {"m": BLEU()}, [truth], test_type="bs", n_samples=300)()
    theirs = next(value for name, value in results.items() if name != "System")[1]
    a, b = (bleu_tally(x, [[t] for t in truth]).score(samples=300) for x in (one, other))
    drawn = np.array(a.resamples) - np.array(b.resamples)
    ours = paired_difference(a.value - b.value, drawn)
    assert ours.sacrebleu_p_value == pytest.approx(theirs.p_value, abs=1e-12)


def test_verdicts_in_words():
    better = Verdict(gain=3.2, interval=(2.1, 4.4), p_value=1 / 1001)
    assert str(better) == "better by 3.2 [2.1, 4.4], p < 0.001"
    worse_ = Verdict(gain=-3.2, interval=(-4.4, -2.1), p_value=0.012)
    assert str(worse_) == "worse by 3.2 [2.1, 4.4], p = 0.012"
    unsure = Verdict(gain=0.5, interval=(-1.0, 2.0), p_value=0.5)
    assert str(unsure) == "no difference can be told (+0.5 [-1, 2], p = 0.5)"
    assert "was not measured" in str(Verdict(gain=1.0, interval=None, p_value=None))
    assert [each.told for each in (better, worse_, unsure)] == [True, True, False]


def test_less_of_an_error_is_better():
    """Errors of 1 on all items against 0 on all: every resample says the same."""
    none = quality({0: mean_tally([0.0] * 9, higher_is_better=False).score(samples=99)}, 0)
    all_ = quality({0: mean_tally([1.0] * 9, higher_is_better=False).score(samples=99)}, 1)
    assert verdict(none, all_) == Verdict(gain=1.0, interval=(1.0, 1.0), p_value=0.01)
    assert verdict(all_, none) == Verdict(gain=-1.0, interval=(-1.0, -1.0), p_value=0.01)


def test_seeds_that_disagree_leave_the_difference_untold():
    """By items alone 0.5 is certain; the trainings of one recipe lie 0 and 1 above the other."""
    zero, one = [0.0] * 999, [1.0] * 999
    steady = quality({0: score(0.0, zero), 1: score(0.0, zero)}, 0)
    shaky = quality({0: score(0.0, zero), 1: score(1.0, one)}, 1)
    sure = quality({0: score(1.0, one), 1: score(1.0, one)}, 1)
    assert verdict(sure, steady).told
    found = verdict(shaky, steady)
    assert (found.gain, found.told) == (0.5, False)


def test_equal_recipes_are_equal():
    a = quality({0: mean_tally([0.0, 1.0, 1.0]).score()}, 0)
    assert verdict(a, a) == Verdict(gain=0.0, interval=(0.0, 0.0), p_value=1.0)


def test_a_single_item_tells_nothing():
    a, b = (quality({0: mean_tally([x]).score()}, i) for i, x in enumerate((1.0, 0.0)))
    assert verdict(a, b) == Verdict(gain=1.0, interval=None, p_value=None)


@pytest.mark.parametrize(("trainings", "most"), [(1, 0.1), (3, 0.12)])
def test_of_equal_recipes_few_are_called_different(trainings, most):
    """Where seeds move a score as much as items do, and trainings are one: that one is steady."""
    generator = np.random.default_rng(5)
    items, samples, rounds = 60, 150, 200
    noise = 0.0 if trainings == 1 else 1 / items**0.5
    wrong = 0
    for _ in range(rounds):
        drawn = generator.integers(items, size=(samples, items))
        found = []
        for number in range(2):
            answers = generator.normal(size=(trainings, items))
            answers += noise * generator.normal(size=(trainings, 1))
            scores = [score(each.mean(), each[drawn].mean(1).tolist()) for each in answers]
            found.append(quality(dict(enumerate(scores)), number))
        wrong += verdict(*found).told
    assert 0.01 <= wrong / rounds <= most
