"""Calibration: the error by hand, and the temperature that minimises the loss."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from saccade.errors import MetricError
from saccade.metrics import (
    cross_fit,
    expected_calibration_error,
    fit_temperature,
    fit_temperature_of_sigmoids,
)
from saccade.metrics.calibration import (
    HIGHEST,
    LOWEST,
    Calibration,
    expected_calibration_error_tally,
    minimising_temperature,
)

ITEMS, CLASSES = 211, 7


def sample(temperature, *, seed=0, items=ITEMS, classes=CLASSES):
    """Return logits, and labels sampled from softmax(logits / temperature)."""
    generator = np.random.default_rng(seed)
    logits = 3 * generator.normal(size=(items, classes))
    noise = generator.gumbel(size=logits.shape)
    return logits, (logits / temperature + noise).argmax(1)


def loss(logits, labels, temperature):
    return -log_softmax(logits / temperature, 1)[np.arange(len(labels)), labels].mean()


def loss_of_sigmoids(logits, labels, temperature):
    return np.logaddexp(0, np.where(labels, -logits, logits) / temperature).mean()


def least(loss_at):
    minimum = minimize_scalar(
        lambda x: loss_at(math.exp(x)),
        bounds=(math.log(LOWEST), math.log(HIGHEST)),
        method="bounded",
        options={"xatol": 1e-9},
    )
    return math.exp(minimum.x)


def test_calibration_error_by_hand():
    # 0.9 and 0.92 share a bin (0.8667 to 0.9333], one of them right; 0.6 is alone and right
    probabilities = np.array([[0.9, 0.1], [0.08, 0.92], [0.6, 0.4]])
    score = expected_calibration_error(probabilities, np.array([0, 0, 0]), samples=0)
    assert score.value == pytest.approx((abs(1.82 - 1) + abs(0.6 - 1)) / 3)
    assert not score.higher_is_better
    assert score.signature.startswith("nrefs:1|bins:15|saccade:")


def test_a_temperature_is_measured_on_folds_that_it_was_not_fitted_to():
    logits, labels = sample(2.0)
    calibration = cross_fit(logits, labels)
    assert calibration.fitted == pytest.approx(least(lambda t: loss(logits, labels, t)), rel=1e-4)
    assert calibration.loss_before == pytest.approx(loss(logits, labels, 1.0))
    order = np.random.default_rng(0).permutation(len(logits))
    total = 0.0
    for fold in np.array_split(order, 5):
        others = [i for i in range(len(logits)) if i not in set(fold.tolist())]
        temperature = least(lambda t, rows=others: loss(logits[rows], labels[rows], t))
        total += len(fold) * loss(logits[fold], labels[fold], temperature)
    assert calibration.loss_after == pytest.approx(total / len(logits), rel=1e-6)
    assert calibration.loss_after > loss(logits, labels, calibration.fitted)
    assert calibration.applied
    assert calibration.temperature == calibration.fitted


@pytest.mark.parametrize("worse", ["error", "loss"])
def test_a_temperature_that_makes_one_measure_worse_is_not_applied(worse):
    values = {"error_before": 0.1, "error_after": 0.05, "loss_before": 0.5, "loss_after": 0.4}
    good = Calibration(fitted=1.5, labels=100, **values)
    assert good.temperature == 1.5
    bad = replace(good, **{f"{worse}_after": 0.6})
    assert (bad.applied, bad.temperature) == (False, 1.0)


def test_a_bin_includes_its_upper_end():
    """0.6 = 9/15 shares the bin of 0.55, and 0.61 does not."""
    below = np.array([[0.6, 0.4], [0.55, 0.45]])
    parted = np.array([[0.61, 0.39], [0.55, 0.45]])
    right = np.array([0, 1])
    assert expected_calibration_error(below, right).value == pytest.approx(abs(1.15 - 1) / 2)
    assert expected_calibration_error(parted, right).value == pytest.approx((0.39 + 0.55) / 2)


def test_calibration_error_at_the_ends_of_confidence():
    sure = np.array([[1.0, 0.0], [1.0, 0.0]])
    assert expected_calibration_error(sure, np.array([0, 0])).value == 0
    assert expected_calibration_error(sure, np.array([1, 1])).value == 1
    alone = np.ones((3, 1), dtype=np.float32)
    assert expected_calibration_error(alone, np.zeros(3, dtype=int)).value == 0
    even = np.full((4, 100), 0.01)
    assert expected_calibration_error(even, np.array([1, 2, 3, 4])).value == pytest.approx(0.01)


def test_the_right_temperature_lowers_the_error():
    logits, labels = sample(3.0, items=2003)
    errors = [
        expected_calibration_error_tally(np.exp(log_softmax(logits / t, 1)), labels).of()
        for t in (1.0, fit_temperature(logits, labels))
    ]
    assert errors[1] < 0.05 < 0.2 < errors[0]


@pytest.mark.parametrize("true", [0.2, 0.7, 1.0, 3.0, 9.0])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_temperature_minimises_the_loss(true, seed):
    logits, labels = sample(true, seed=seed)
    fitted = fit_temperature(logits, labels)
    assert fitted == pytest.approx(least(lambda t: loss(logits, labels, t)), rel=1e-5)
    assert fitted == fit_temperature(logits, labels)
    assert fit_temperature(2 * logits, labels) == pytest.approx(2 * fitted, rel=1e-9)
    assert fit_temperature(logits + 1000, labels) == pytest.approx(fitted, rel=1e-9)


def test_the_true_temperature_is_recovered():
    logits, labels = sample(2.5, items=20011)
    assert fit_temperature(logits.astype(np.float32), labels) == pytest.approx(2.5, rel=0.05)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3, 1e30])
def test_logits_that_are_always_right_end_at_the_lower_bound(scale):
    logits, _ = sample(1.0)
    assert fit_temperature(scale * logits, logits.argmax(1)) == LOWEST
    assert fit_temperature_of_sigmoids(scale * logits, logits > 0) == LOWEST


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3, 1e30])
def test_logits_that_are_always_wrong_end_at_the_upper_bound(scale):
    logits, _ = sample(1.0)
    assert fit_temperature(scale * logits, logits.argmin(1)) == HIGHEST
    assert fit_temperature_of_sigmoids(scale * logits, logits < 0) == HIGHEST


def test_equal_logits_have_temperature_one():
    even = np.full((3, 5), 0.7)
    assert fit_temperature(even, np.array([0, 1, 4])) == 1
    assert fit_temperature(even[:, :1], np.zeros(3, dtype=int)) == 1
    assert fit_temperature_of_sigmoids(np.zeros((3, 5)), even > 0) == 1


@pytest.mark.parametrize("seed", range(8))
def test_temperature_with_outliers_minimises_the_loss(seed):
    generator = np.random.default_rng(seed)
    logits = generator.standard_cauchy((53, 3)) * 10.0 ** generator.integers(-2, 3, (53, 1))
    labels = np.where(generator.random(53) < 0.9, logits.argmax(1), generator.integers(3, size=53))
    fitted = fit_temperature(logits, labels)
    best = least(lambda t: loss(logits, labels, t))
    assert loss(logits, labels, fitted) <= loss(logits, labels, best) + 1e-9
    several = (logits > 0) ^ (generator.random(logits.shape) < 0.05)
    fitted = fit_temperature_of_sigmoids(logits, several)
    best = least(lambda t: loss_of_sigmoids(logits, several, t))
    assert loss_of_sigmoids(logits, several, fitted) <= (
        loss_of_sigmoids(logits, several, best) + 1e-9
    )


def test_the_search_converges_where_newton_alone_cycles():
    """The slope is the signed root of the distance to 2: Newton's steps go from 1 to 3 and back."""

    def derivatives(sharpness):
        way = sharpness - 2
        root = math.sqrt(abs(way))
        return math.copysign(root, way), 1 / (2 * root) if root else math.inf

    assert minimising_temperature(derivatives) == pytest.approx(1 / 2, rel=1e-9)


@pytest.mark.parametrize("true", [0.5, 1.0, 4.0])
def test_the_temperature_of_sigmoids_minimises_the_loss(true):
    generator = np.random.default_rng(5)
    logits = 3 * generator.normal(size=(ITEMS, CLASSES))
    labels = generator.random(logits.shape) < 1 / (1 + np.exp(-logits / true))
    fitted = fit_temperature_of_sigmoids(logits, labels)
    assert fitted == pytest.approx(least(lambda t: loss_of_sigmoids(logits, labels, t)), rel=1e-5)
    assert fitted == pytest.approx(true, rel=0.3)


def test_two_classes_equal_a_sigmoid_of_their_difference():
    logits, labels = sample(2.0, classes=2)
    difference = logits[:, 1:] - logits[:, :1]
    assert fit_temperature(logits, labels) == pytest.approx(
        fit_temperature_of_sigmoids(difference, labels[:, None] == 1), rel=1e-9
    )


@pytest.mark.parametrize("call", [expected_calibration_error, fit_temperature])
@pytest.mark.parametrize(
    ("numbers", "labels", "message"),
    [
        ([[0.5, 0.5]], [0, 1], "and 2 labels"),
        (np.empty((0, 2)), np.empty(0, dtype=int), "got 0 "),
        ([[0.5, 0.5]], [2], "the label of item 0 is 2; .* one of the 2 classes"),
        ([[0.5, 0.5], [0.5, 0.5]], [0, -1], "the label of item 1 is -1"),
        ([[0.5, 0.5], [math.nan, 0.5]], [0, 0], "of item 1 is nan"),
    ],
)
def test_raises_on_invalid_items(call, numbers, labels, message):
    with pytest.raises(MetricError, match=message):
        call(np.array(numbers), np.array(labels))


@pytest.mark.parametrize(
    ("row", "message"),
    [([0.5, 0.6], "sum to 1.1"), ([-0.5, 1.5], "item 1 are from -0.5 to 1.5")],
)
def test_raises_unless_probabilities_sum_to_one(row, message):
    with pytest.raises(MetricError, match=message):
        expected_calibration_error(np.array([[0.5, 0.5], row]), np.array([0, 0]))


def test_raises_unless_every_logit_has_a_label():
    with pytest.raises(MetricError, match=r"logits \(3, 2\) and labels \(3, 1\)"):
        fit_temperature_of_sigmoids(np.zeros((3, 2)), np.zeros((3, 1), dtype=bool))
    with pytest.raises(MetricError, match="got 0 "):
        fit_temperature_of_sigmoids(np.zeros((0, 2)), np.zeros((0, 2), dtype=bool))
    with pytest.raises(MetricError, match="of item 0 is inf"):
        fit_temperature_of_sigmoids(np.array([[math.inf]]), np.array([[True]]))
