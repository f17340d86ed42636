"""Whether a model is right as often as it says, and the temperature that makes it so.

    expected calibration error   the mean of |confidence - share of right answers| over bins of
                                 items of like confidence, each weighed by its items
    temperature                  the T for which softmax(logits / T) makes the right classes
                                 likeliest

Both are of Guo et al. 2017, "On calibration of modern neural networks". A temperature changes no
answer, only how sure it is: above 1 less, below 1 more.
"""

import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float, Int

from saccade.errors import MetricError
from saccade.metrics.score import Tally, require_as_many, require_numbers, scored, signature_of

BINS = 15
LOWEST, HIGHEST = 0.05, 20.0  # temperatures
_STEPS = 200  # halving alone needs fewer than 50
_EXACT = 1e-12


def expected_calibration_error_tally(
    probabilities: Float[np.ndarray, "items classes"], right: Int[np.ndarray, " _"]
) -> Tally:
    """Confidence less rightness of each item, in the column of its bin.

    `right` are the numbers of the right classes. The answer is the likeliest class (the first of
    equally likely ones), its probability the confidence; 15 equal bins part 0 to 1, each with its
    upper end. The error of a resample is larger than that of the whole where the model is well
    calibrated, so the value may lie below its interval.
    """
    probabilities = np.asarray(probabilities, dtype=np.float64)
    _require_classes("probabilities", probabilities, right)
    wrong = (probabilities < 0).any(1) | (np.abs(probabilities.sum(1) - 1) > 1e-3)
    if wrong.any():
        item = int(wrong.argmax())
        raise MetricError(
            "probabilities must not be negative and must add up to 1; those of item "
            f"{item} go from {probabilities[item].min():g} to {probabilities[item].max():g} and "
            f"add up to {probabilities[item].sum():g}"
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
    """The T from 0.05 to 20 of the least negative log-likelihood of softmax(logits / T).

    `labels` are the numbers of the right classes. Logits that are always right give 0.05, those
    that are worse than none give 20, and those that tell nothing give 1.
    """
    logits = np.asarray(logits, dtype=np.float64)
    _require_classes("logits", logits, labels)
    above = logits - logits[np.arange(len(labels)), labels][:, None]  # the right class is at 0

    def derivatives(sharpness: float) -> tuple[float, float]:
        scaled = sharpness * above
        likelihood = np.exp(scaled - scaled.max(1, keepdims=True))
        likelihood /= likelihood.sum(1, keepdims=True)
        mean = (likelihood * above).sum(1)
        spread = (likelihood * (above - mean[:, None]) ** 2).sum(1)
        return float(mean.mean()), float(spread.mean())

    return flattest(derivatives) if above.any() else 1.0


def fit_temperature_of_sigmoids(
    logits: Float[np.ndarray, "items classes"], labels: Bool[np.ndarray, "_ _"]
) -> float:
    """The same for sigmoid(logits / T), where an item may have several labels.

    `labels` is True where the class is right.
    """
    logits = np.asarray(logits, dtype=np.float64)
    if logits.shape != labels.shape:
        raise MetricError(
            "each logit needs to know whether its class is right; got logits "
            f"{logits.shape} and labels {labels.shape} (items, classes)"
        )
    require_as_many(logits=len(logits), labels=len(labels))
    require_numbers("logits", logits)
    margin = np.where(labels, logits, -logits)  # how far on its right side each one is

    def derivatives(sharpness: float) -> tuple[float, float]:
        wrong = _sigmoid(-sharpness * margin)
        slope = -(margin * wrong).mean()
        return float(slope), float((margin**2 * wrong * (1 - wrong)).mean())

    return flattest(derivatives) if margin.any() else 1.0


def flattest(derivatives: Callable[[float], tuple[float, float]]) -> float:
    """The temperature at which the slope of the loss is 0, or the bound on its way there.

    The loss is convex in the sharpness 1 / T, so `derivatives`, its first and second one there,
    has a first that only rises. Newton's steps find where it passes 0; the bracket around that
    place is halved instead where a step leaves it, or the one before did not halve the slope.
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
    require_as_many(**{what: len(numbers), "labels": len(right)})
    require_numbers(what, numbers)
    outside = (right < 0) | (right >= numbers.shape[1])
    if outside.any():
        item = int(outside.argmax())
        raise MetricError(
            f"the label of item {item} is {right[item]}; it must be the number of one of the "
            f"{numbers.shape[1]} classes, from 0"
        )
