"""Calibration: whether confidence equals accuracy, and the temperature that makes it so.

    expected calibration error   mean of |confidence - accuracy| over bins of items of similar
                                 confidence, weighted by their number of items
    temperature                  the T that minimises the negative log-likelihood of
                                 softmax(logits / T)

Both are from Guo et al. 2017, "On calibration of modern neural networks". A temperature changes no
prediction, only its confidence: above 1 lowers it, below 1 raises it. `cross_fit` measures a
temperature on items that it was not fitted to.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from saccade.errors import MetricError
from saccade.metrics.score import Tally, require_numbers, require_same_length, scored, signature_of

BINS = 15
LOWEST, HIGHEST = 0.05, 20.0  # temperatures
FOLDS = 5
_STEPS = 200  # halving alone needs fewer than 50
_EXACT = 1e-12


def expected_calibration_error_tally(
    probabilities: Float[np.ndarray, "items classes"], right: Int[np.ndarray, " _"]
) -> Tally:
    """The expected calibration error (Guo et al. 2017), a fraction.

        ECE = Σ_bins (items of the bin / items) · |mean confidence - accuracy|

    The prediction is the most probable class (the first of equal ones), and its probability is the
    confidence. There are 15 equal bins from 0 to 1, each including its upper end. Resamples of a
    well calibrated model have larger errors than all items, so the value may be below its interval.

    Args:
        probabilities: The probabilities (items, classes).
        right: The index of the right class of each item.
    """
    probabilities = np.asarray(probabilities, dtype=np.float64)
    _require_classes("probabilities", probabilities, right)
    wrong = (probabilities < 0).any(1) | (np.abs(probabilities.sum(1) - 1) > 1e-3)
    if wrong.any():
        item = int(wrong.argmax())
        raise MetricError(
            f"the probabilities of item {item} are from {probabilities[item].min():g} to "
            f"{probabilities[item].max():g} and sum to {probabilities[item].sum():g}; they must "
            "not be negative and must sum to 1"
        )
    confidence = probabilities.max(1)
    column = np.searchsorted(np.arange(1, BINS) / BINS, confidence, side="left")
    counts = np.zeros((len(right), BINS + 1))
    counts[np.arange(len(right)), column] = confidence - (probabilities.argmax(1) == right)
    counts[:, -1] = 1
    return Tally(
        name="expected_calibration_error",
        counts=counts,
        value=_mean_distance,
        signature=signature_of(f"bins:{BINS}"),
        higher_is_better=False,
    )


expected_calibration_error = scored(expected_calibration_error_tally)


def fit_temperature(
    logits: Float[np.ndarray, "items classes"], labels: Int[np.ndarray, " _"]
) -> float:
    """Fit the temperature T that minimises the negative log-likelihood of softmax(logits / T).

    Args:
        logits: The logits (items, classes).
        labels: The index of the right class of each item.

    Returns:
        T from 0.05 to 20: 0.05 if the logits are always right, 20 if they are worse than chance,
        and 1 if all are equal.
    """
    logits = np.asarray(logits, dtype=np.float64)
    _require_classes("logits", logits, labels)
    above = logits - logits[np.arange(len(labels)), labels][:, None]  # relative to the right class

    def derivatives(sharpness: float) -> tuple[float, float]:
        scaled = sharpness * above
        likelihood = np.exp(scaled - scaled.max(1, keepdims=True))
        likelihood /= likelihood.sum(1, keepdims=True)
        mean = (likelihood * above).sum(1)
        spread = (likelihood * (above - mean[:, None]) ** 2).sum(1)
        return float(mean.mean()), float(spread.mean())

    return minimising_temperature(derivatives) if above.any() else 1.0


def fit_temperature_of_sigmoids(
    logits: Float[np.ndarray, "items classes"], labels: Bool[np.ndarray, "_ _"]
) -> float:
    """Fit the temperature of sigmoid(logits / T), where an item may have several labels.

    Args:
        logits: The logits (items, classes).
        labels: True where a class is right (items, classes).

    Returns:
        T from 0.05 to 20, as `fit_temperature` returns it.
    """
    logits = np.asarray(logits, dtype=np.float64)
    if logits.shape != labels.shape:
        raise MetricError(
            f"got logits {logits.shape} and labels {labels.shape} (items, classes); every logit "
            "needs a label"
        )
    require_same_length(logits=len(logits), labels=len(labels))
    require_numbers("logits", logits)
    margin = np.where(labels, logits, -logits)  # distance of each logit to the right side of 0

    def derivatives(sharpness: float) -> tuple[float, float]:
        wrong = _sigmoid(-sharpness * margin)
        slope = -(margin * wrong).mean()
        return float(slope), float((margin**2 * wrong * (1 - wrong)).mean())

    return minimising_temperature(derivatives) if margin.any() else 1.0


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """A temperature, and its effect on items that it was not fitted to.

    Attributes:
        fitted: The temperature that minimises the negative log-likelihood of all items.
        labels: The number of labels that it was fitted to.
        error_before: The expected calibration error with a temperature of 1.
        error_after: The error of each fifth of the items with the temperature of the others.
        loss_before: The mean negative log-likelihood with a temperature of 1.
        loss_after: That of each fifth of the items with the temperature of the others.
    """

    fitted: float
    labels: int
    error_before: float
    error_after: float
    loss_before: float
    loss_after: float

    @property
    def applied(self) -> bool:
        """Whether the temperature makes neither the calibration error nor the loss worse."""
        return self.error_after <= self.error_before and self.loss_after <= self.loss_before

    @property
    def temperature(self) -> float:
        """The temperature to use: 1 if the fitted one is not applied."""
        return self.fitted if self.applied else 1.0


def cross_fit(
    logits: Float[np.ndarray, "items classes"], labels: Int[np.ndarray, "items ..."]
) -> Calibration:
    """Fit a temperature, and measure it by five-fold cross-fitting.

    Args:
        logits: The logits (items, classes), of at least five items.
        labels: The index of the right class of each item; or, where an item may have several
            labels, 1 or 0 for each class (items, classes), as `fit_temperature_of_sigmoids`.
    """
    logits = np.asarray(logits, dtype=np.float64)
    if labels.ndim == 2:  # each label is a choice of two classes, whose logits are 0 and its own
        logits = np.stack((np.zeros_like(logits), logits), -1)
    scaled = logits.copy()
    order = np.random.default_rng(0).permutation(len(logits))
    for fold in np.array_split(order, FOLDS):
        others = np.setdiff1d(order, fold)
        scaled[fold] /= fit_temperature(*_flat(logits[others], labels[others]))
    before, after = (_measured(*_flat(numbers, labels)) for numbers in (logits, scaled))
    return Calibration(
        fitted=fit_temperature(*_flat(logits, labels)),
        labels=labels.size,
        error_before=before[0],
        error_after=after[0],
        loss_before=before[1],
        loss_after=after[1],
    )


def _flat(
    logits: Float[np.ndarray, "items ... classes"], labels: Int[np.ndarray, "items ..."]
) -> tuple[Float[np.ndarray, "labels classes"], Int[np.ndarray, " labels"]]:
    return logits.reshape(-1, logits.shape[-1]), labels.reshape(-1)


def _measured(
    logits: Float[np.ndarray, "items classes"], labels: Int[np.ndarray, " _"]
) -> tuple[float, float]:
    """Return the expected calibration error and the mean negative log-likelihood."""
    shifted = logits - logits.max(1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    error = expected_calibration_error_tally(np.exp(log_p), labels).of()
    return error, float(-log_p[np.arange(len(labels)), labels].mean())


def minimising_temperature(derivatives: Callable[[float], tuple[float, float]]) -> float:
    """Return the temperature at which the slope of the loss is 0, or the nearest bound.

    The loss is convex in the sharpness 1 / T, so its slope only rises. Newton's method finds the
    zero; bisection replaces a step that leaves the bracket or follows one that did not halve the
    slope.

    Args:
        derivatives: Returns the first and second derivative of the loss at a sharpness.
    """
    low, high = 1 / HIGHEST, 1 / LOWEST
    if derivatives(high)[0] <= 0:
        return LOWEST
    if derivatives(low)[0] >= 0:
        return HIGHEST
    sharpness, before = 1.0, math.inf
    for _ in range(_STEPS):
        slope, curvature = derivatives(sharpness)
        low, high = (low, sharpness) if slope > 0 else (sharpness, high)
        nearer = sharpness - slope / curvature if curvature > 0 else math.inf
        if not low <= nearer <= high or abs(slope) > before / 2:
            nearer = math.sqrt(low * high)
        moved, sharpness, before = abs(nearer - sharpness), nearer, abs(slope)
        if moved <= _EXACT * sharpness:
            break
    return 1 / sharpness


def _sigmoid(x: Float[np.ndarray, "items classes"]) -> Float[np.ndarray, "items classes"]:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, small) / (1 + small)


def _mean_distance(sums: Float[np.ndarray, " numbers"]) -> float:
    return float(np.abs(sums[:-1]).sum() / sums[-1])


def _require_classes(
    what: str, numbers: Float[np.ndarray, "items classes"], right: Int[np.ndarray, " _"]
) -> None:
    require_same_length(**{what: len(numbers), "labels": len(right)})
    require_numbers(what, numbers)
    outside = (right < 0) | (right >= numbers.shape[1])
    if outside.any():
        item = int(outside.argmax())
        raise MetricError(
            f"the label of item {item} is {right[item]}; it must be the index of one of the "
            f"{numbers.shape[1]} classes, from 0"
        )
