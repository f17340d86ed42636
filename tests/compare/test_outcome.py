"""Verdicts of comparisons with measurements made up for each case."""

import numpy as np
import pytest

from saccade.compare.comparison import Comparison, Contender
from saccade.compare.measurements import Measurements, PredictionSpeed, TrainingCost
from saccade.compare.page import pages
from saccade.metrics.score import MetricScore
from saccade.tasks import Baseline
from tests.compare.tiny import undrawn

quick = pytest.fixture(scope="module", autouse=True)(undrawn)

LOWER = {"loss", "ter", "bits_per_character"}
FLAT = (1.0, 20.0, 30.0, 30.0, 30.0, 30.0)
STEEP = (1.0, 6.0, 12.0, 18.0, 24.0, 30.0)


def score(name, value, noise, seed):
    resamples = value + noise * np.random.default_rng(seed).normal(size=400)
    return MetricScore(
        name=name,
        value=value,
        signature="s",
        interval=(value - 2 * noise, value + 2 * noise),
        resamples=tuple(resamples.tolist()),
        higher_is_better=name not in LOWER,
    )


def contender(number, name, metrics, *, baselines=(), curve=FLAT, noise=0.01):
    metric = next(iter(metrics))
    records = [
        {"step": 100 * (i + 1), "seconds": 1.0 * i, "valid_loss": 5.0 - i, metric: value}
        for i, value in enumerate(curve)
    ]
    measurements = Measurements(
        parameters=10,
        split="test",
        items=50,
        comparison_metric=metric,
        scores={key: score(key, value, noise, number) for key, value in metrics.items()},
        by_length=[],
        training=TrainingCost(
            steps=600,
            best_step=600,
            seconds=9.0,
            epochs=2.0,
            ended="all 600 steps are done",
            unit="tokens",
            tokens_per_second=None,
            peak_memory=None,
        ),
        answering=PredictionSpeed(latency_seconds=0.1, inputs_per_second=9.0, together=4),
        curve=records,
        samples=[],
        baselines=list(baselines),
    )
    return Contender(name=name, number=number, measured={0: measurements}, failed={}, shown=[])


def baseline(name, kind="trivial", noise=0.01, **metrics):
    scores = {key: score(key, value, noise, 99) for key, value in metrics.items()}
    return Baseline(name=name, kind=kind, scores=scores, split="test", items=50)


def compared(*contenders):
    return Comparison(
        task="text_to_text", data="d", budget="1 minute", seeds=(0,), entrants=contenders
    )


COPY = baseline("copy of the input", bleu=0.05, chrf=10.0)


def test_garbage_has_not_learned_however_small_the_p_value():
    one = contender(0, "rnn", {"bleu": 0.20, "chrf": 9.0}, baselines=[COPY])
    other = contender(1, "transformer", {"bleu": 0.10, "chrf": 11.0}, baselines=[COPY])
    comparison = compared(one, other)
    table = comparison.as_json()
    assert table["recipes"][1]["against_best"]["bleu"]["p_value"] < 0.05
    assert table["verdict"] == "not_learned"
    assert table["summary"].startswith("No recipe has learned enough to be compared (BLEU).")
    assert "copy of the input has BLEU 0.1" in table["summary"]
    assert "is the best" not in table["summary"]
    assert table["disagreements"] == {"chrf": "transformer"}
    assert "BLEU ranks rnn first, chrF ranks transformer first" in table["summary"]
    assert [recipe["learned"] for recipe in table["recipes"]] == [False, False]


def test_difference_from_the_baseline_within_noise_is_not_learned():
    majority = baseline("majority class", noise=0.05, accuracy=0.5)
    one = contender(0, "one", {"accuracy": 0.55}, baselines=[majority], noise=0.05)
    assert compared(one).verdict == "not_learned"
    sure = contender(0, "one", {"accuracy": 0.95}, baselines=[majority], noise=0.05)
    assert compared(sure).verdict == "better"


def test_better():
    one = contender(0, "rnn", {"bleu": 20.0, "chrf": 40.0}, baselines=[COPY])
    other = contender(1, "transformer", {"bleu": 30.0, "chrf": 50.0}, baselines=[COPY])
    comparison = compared(one, other)
    table = comparison.as_json()
    assert (table["verdict"], table["best"]) == ("better", "transformer")
    assert table["summary"].startswith("transformer is the best (BLEU): 30.0 [")
    assert table["remarks"] == ["The best baseline (copy of the input) has BLEU 0.05"]
    assert (table["disagreements"], table["baselines"][0]["name"]) == ({}, "copy of the input")
    assert table["recipes"][0]["against_baselines"]["copy of the input"]["gain"] > 19


def test_tie():
    one = contender(0, "rnn", {"bleu": 30.0}, baselines=[COPY], noise=1.0)
    other = contender(1, "transformer", {"bleu": 30.1}, baselines=[COPY], noise=1.0)
    comparison = compared(one, other)
    assert comparison.verdict == "tie"
    assert comparison.summary().startswith("No recipe is significantly better than the others")


def test_leading_over_some_recipes_only_is_a_tie():
    contenders = [
        contender(number, name, {"bleu": value}, baselines=[COPY], noise=noise)
        for number, (name, value, noise) in enumerate(
            [("a", 30.1, 1.0), ("b", 30.0, 1.0), ("c", 10.0, 1.0)]
        )
    ]
    assert compared(*contenders).verdict == "tie"


def test_metrics_that_disagree_are_named():
    one = contender(0, "rnn", {"bleu": 30.0, "chrf": 40.0, "loss": 2.0}, baselines=[COPY])
    other = contender(1, "luong", {"bleu": 29.0, "chrf": 45.0, "loss": 1.0}, baselines=[COPY])
    table = compared(one, other).as_json()
    assert (table["verdict"], table["best"]) == ("better", "rnn")
    assert table["disagreements"] == {"chrf": "luong"}  # losses per token do not rank recipes
    assert "The metrics disagree: BLEU ranks rnn first, chrF ranks luong first" in table["summary"]


def test_uncertain_order_of_another_metric_is_not_a_disagreement():
    one = contender(0, "a", {"bleu": 30.0, "chrf": 40.0}, baselines=[COPY], noise=3.0)
    other = contender(1, "b", {"bleu": 29.9, "chrf": 40.1}, baselines=[COPY], noise=3.0)
    assert compared(one, other).as_json()["disagreements"] == {}


def test_steep_end_of_a_training_is_reported():
    one = contender(0, "rnn", {"bleu": 30.0}, baselines=[COPY], curve=STEEP)
    other = contender(1, "luong", {"bleu": 20.0}, baselines=[COPY], curve=FLAT)
    table = compared(one, other).as_json()
    assert [recipe["still_improving"] for recipe in table["recipes"]] == [True, False]
    assert "rnn was still improving steeply when training ended" in table["summary"]


def test_simple_baseline_that_is_not_beaten_is_reported():
    majority = baseline("majority class", accuracy=0.2)
    linear = baseline("TF-IDF + logistic regression", "simple", accuracy=0.89)
    one = contender(0, "bert", {"accuracy": 0.82}, baselines=[majority, linear])
    other = contender(1, "rnn", {"accuracy": 0.7}, baselines=[majority, linear])
    comparison = compared(one, other)
    assert comparison.verdict == "better"
    expected = "No recipe beats the simple baseline TF-IDF + logistic regression with accuracy 0.89"
    assert expected in comparison.summary()
    assert "--init" in comparison.summary()


def test_lower_is_better_for_losses():
    ngrams = baseline("3-gram model", bits_per_character=2.0)
    good = contender(0, "a", {"bits_per_character": 1.5}, baselines=[ngrams])
    poor = contender(0, "a", {"bits_per_character": 2.5}, baselines=[ngrams])
    close = contender(0, "a", {"bits_per_character": 1.99}, baselines=[ngrams], noise=1e-6)
    assert [compared(c).verdict for c in (good, poor, close)] == [
        "better",
        "not_learned",
        "not_learned",
    ]


def test_without_baselines_the_learning_curve_decides():
    """Older comparisons, and tasks of other packages."""
    one = contender(0, "a", {"bleu": 3.0})
    assert compared(one).verdict == "better"
    assert compared(one).as_json()["baselines"] == []
    rising = [{"step": n, "seconds": 1.0, "valid_loss": 1.0 + n} for n in range(1, 4)]
    measurements = one.measured[0]
    object.__setattr__(measurements, "curve", rising)
    comparison = compared(one)
    assert comparison.verdict == "not_learned"
    assert "the validation loss of the best one did not fall" in comparison.summary()


def test_comparison_without_a_complete_training_has_not_learned():
    failed = Contender(name="a", number=0, measured={}, failed={0: "why"}, shown=[])
    assert compared(failed).as_json()["verdict"] == "not_learned"


def test_page_shows_verdict_and_baselines():
    one = contender(0, "rnn", {"bleu": 0.2, "chrf": 9.0}, baselines=[COPY])
    [page] = pages(compared(one)).values()
    assert '<span class="badge bad">not learned</span>' in page
    assert "copy of the input (trivial baseline)" in page
