"""Baselines of labels: the most frequent one, and a linear model if scikit-learn is installed."""

from __future__ import annotations

import math
import random
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from saccade.data.corpus import Item, Row, Split
from saccade.tasks._shared.baselines import BaselineMethod
from saccade.tasks._shared.evaluation import Evaluation
from saccade.tasks._shared.labels import Classes, Classification, Labels, Number, Several

Matrix = Any
"""A matrix of features (n, d), dense or sparse."""
Inputs = Sequence[tuple[str, ...]]
"""The values of input columns, one tuple per row."""
Measure = Callable[[list[Item], list[Classification]], Evaluation]
"""Measures the answers to some items."""

MOST_ROWS = 20_000
"""The maximum number of rows that a linear model is fitted to."""
TEXT_WORK, PIXEL_WORK = 5e6, 5e7
"""The maximum of (numbers in the matrix of features · classes): a few seconds of fitting."""
MOST_CHARACTERS = 3_000_000
"""The maximum number of characters of the texts that a linear model is fitted to."""
MOST_PIXELS = 1024
"""The maximum number of numbers that an image is reduced to."""
MOST_IMAGES = 5_000
ITERATIONS = 100
NEVER = -30.0
"""The logit of a class that the rows do not have."""
T = TypeVar("T")


class LinearFeatures(ABC):
    """Numbers that describe the inputs of a task.

    Attributes:
        name: Their name, such as "TF-IDF".
        work: The maximum of (numbers in the matrix · classes) of a linear model.
        rows: The maximum number of rows.
    """

    name: str
    work: float
    rows: int

    def room(self, rows: Inputs) -> int:
        """Return how many of the rows can be read in a short time."""
        return len(rows)

    @abstractmethod
    def fit(self, rows: Inputs) -> Matrix:
        """Learn from the rows which features there are; return the features of the rows."""

    @abstractmethod
    def of(self, rows: Inputs) -> Matrix:
        """Return the features of other rows."""


class TextFeatures(LinearFeatures):
    """TF-IDF of the words and the pairs of neighbouring words in each column."""

    name, work, rows = "TF-IDF", TEXT_WORK, MOST_ROWS

    def room(self, rows: Inputs) -> int:
        """Return how many rows have the maximum number of characters together."""
        ends = np.cumsum([sum(map(len, row)) for row in rows])
        return max(1, int(np.searchsorted(ends, MOST_CHARACTERS)))

    def fit(self, rows: Inputs) -> Matrix:
        """Learn the words of each column."""
        from scipy.sparse import hstack
        from sklearn.feature_extraction.text import TfidfVectorizer

        words = {"ngram_range": (1, 2), "sublinear_tf": True, "token_pattern": r"(?u)\w+|[^\w\s]"}
        self._columns = [TfidfVectorizer(**words) for _ in rows[0]]
        parts = zip(self._columns, zip(*rows, strict=True), strict=True)
        return hstack([column.fit_transform(texts) for column, texts in parts], format="csr")

    def of(self, rows: Inputs) -> Matrix:
        """Return the features of other rows; unknown words have none."""
        from scipy.sparse import hstack

        parts = zip(self._columns, zip(*rows, strict=True), strict=True)
        return hstack([column.transform(texts) for column, texts in parts], format="csr")


class PixelFeatures(LinearFeatures):
    """The pixels of images, from 0 to 1, averaged over squares if there are many.

    Args:
        pixels: Returns the bytes (c, h, w) of the image of a name.
    """

    name, work, rows = "pixels", PIXEL_WORK, MOST_IMAGES

    def __init__(self, pixels: Callable[[str], npt.NDArray[np.uint8]]) -> None:
        self._pixels = pixels

    def fit(self, rows: Inputs) -> Matrix:
        """Return the pixels of the images."""
        return self.of(rows)

    def of(self, rows: Inputs) -> Matrix:
        """Return the pixels of the images."""
        return np.stack([self._reduced(row[0]) for row in rows])

    def _reduced(self, name: str) -> npt.NDArray[np.float32]:
        image = torch.from_numpy(self._pixels(name)).float() / 255
        side = min(image.shape[-1], math.isqrt(MOST_PIXELS // len(image)))
        return torch.nn.functional.adaptive_avg_pool2d(image, side).flatten().numpy()


class MeanVectorFeatures(LinearFeatures):
    """The mean over time of the vectors of a sequence.

    Args:
        vectors: Returns the scaled vectors (steps, width) of a name.
    """

    name, work, rows = "mean vector", PIXEL_WORK, MOST_ROWS

    def __init__(self, vectors: Callable[[str], npt.NDArray[np.float32]]) -> None:
        self._vectors = vectors

    def fit(self, rows: Inputs) -> Matrix:
        """Return the mean vectors."""
        return self.of(rows)

    def of(self, rows: Inputs) -> Matrix:
        """Return the mean vectors."""
        return np.stack([self._vectors(row[0]).mean(0) for row in rows])


def label_baselines(
    labels: Labels, train: Split, measure: Measure, features: LinearFeatures | None
) -> Iterator[BaselineMethod]:
    """Yield the most frequent label or the mean, and a linear model on features of the inputs.

    Args:
        labels: The labels.
        train: The training data, whose last column is the label.
        measure: Measures answers as those of the model are.
        features: The features that a linear model reads; None for no linear model.
    """
    counts: Counter[str] = Counter()
    most = 0 if features is None else features.rows
    rows = sampled(_labelled(train, labels, counts), most)
    if not counts:
        return
    name, constant = _constant(labels, counts)
    yield BaselineMethod(
        name=name, kind="trivial", evaluate=lambda items: measure(items, [constant] * len(items))
    )
    if features is None or find_spec("sklearn") is None:
        return
    total = counts.total()
    rows = rows[: features.room([row.values[:-1] for row in rows])]
    matrix = features.fit([row.values[:-1] for row in rows])
    size = matrix.nnz if hasattr(matrix, "nnz") else matrix.size
    rows = rows[: max(1, int(len(rows) * min(1.0, features.work / (size * labels.outputs))))]
    encoded = [np.array(labels.encode(row.values[-1], row.where)) for row in rows]
    predict = _linear_model(labels, matrix[: len(rows)], labels.decode(encoded).numpy())

    def evaluate(items: list[Item]) -> Evaluation:
        logits = torch.from_numpy(predict(features.of([item.inputs for item in items])))
        return measure(items, [labels.answer(row, 1.0) for row in logits.unsqueeze(1)])

    model = "ridge regression" if isinstance(labels, Number) else "logistic regression"
    note = f"fitted to {len(rows):,} of {total:,} rows" if len(rows) < total else ""
    yield BaselineMethod(
        name=f"{features.name} + {model}", kind="simple", evaluate=evaluate, note=note
    )


def sampled(values: Iterable[T], count: int, seed: int = 0) -> list[T]:
    """Return up to `count` of the values in random order, the same every time."""
    chance, chosen = random.Random(seed), list[T]()
    for number, value in enumerate(values):  # reservoir sampling, so few are in memory
        if number < count:
            chosen.append(value)
        elif (place := chance.randrange(number + 1)) < count:
            chosen[place] = value
    chance.shuffle(chosen)
    return chosen


def _labelled(train: Split, labels: Labels, counts: Counter[str]) -> Iterator[Row]:
    """Yield the rows that can be used in training, and count their labels."""
    for row in train:
        label = row.values[-1].strip()
        if all(value.strip() for value in row.values[:-1]) and (label or labels.may_be_empty):
            counts[label] += 1
            yield row


def _constant(labels: Labels, counts: Counter[str]) -> tuple[str, Classification]:
    """Return the name and the answer of the best method that does not look at its input."""
    total = counts.total()
    match labels:
        case Number():
            mean = sum(float(label) * count for label, count in counts.items()) / total
            return "mean", Classification(f"{mean:.4f}", 0.0)
        case Several():
            sets: Counter[frozenset[str]] = Counter()
            for label, count in counts.items():
                sets[frozenset(labels.split(label))] += count
            # of equally frequent sets, the smallest, then the first by name
            best = min(sets, key=lambda names: (-sets[names], len(names), sorted(names)))
            frequency = {
                name: sum(count for names, count in sets.items() if name in names) / total
                for name in labels.names
            }
            text = labels.separator.join(name for name in labels.names if name in best)
            score = math.log(sets[best] / total)
            return "most frequent labels", Classification(text, score, probabilities=frequency)
    frequency = {name: counts[name] / total for name in labels.names}
    label = max(labels.names, key=lambda name: frequency[name])
    score = math.log(frequency[label])
    return "majority class", Classification(label, score, probabilities=frequency)


def _linear_model(
    labels: Labels, matrix: Matrix, truth: npt.NDArray[Any]
) -> Callable[[Matrix], npt.NDArray[np.float64]]:
    """Return a function from features to logits (n, c), as the model of a task has them."""
    from sklearn.linear_model import LogisticRegression, Ridge

    sparse = hasattr(matrix, "nnz")
    if isinstance(labels, Number):
        ridge = Ridge(alpha=1.0).fit(matrix, (truth - labels.mean) / labels.scale)
        return lambda x: ridge.predict(x).reshape(-1, 1).astype(np.float64)
    if isinstance(labels, Classes) and not sparse and len(set(truth.tolist())) > 1:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it could be fitted for longer
            model = LogisticRegression(C=0.1, max_iter=ITERATIONS).fit(matrix, truth)

        def log_probabilities(x: Matrix) -> npt.NDArray[np.float64]:
            logits = np.full((len(x), labels.outputs), NEVER)
            logits[:, model.classes_] = model.predict_log_proba(x)
            return logits

        return log_probabilities
    member = np.eye(labels.outputs)[truth] if isinstance(labels, Classes) else truth
    options = {"C": 10.0, "solver": "liblinear", "dual": True} if sparse else {"C": 0.1}
    columns: list[Callable[[Matrix], npt.NDArray[np.float64]]] = []
    for column in member.T > 0:
        if column.all() or not column.any():
            logit = -NEVER if column.all() else NEVER
            columns.append(partial(_repeated, logit))
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            one = LogisticRegression(max_iter=ITERATIONS, **options).fit(matrix, column)
        columns.append(one.decision_function)

    def logits_of(x: Matrix) -> npt.NDArray[np.float64]:
        logits = np.stack([column(x) for column in columns], 1).astype(np.float64)
        # of one class per input: the logarithms of sigmoids, whose softmax are probabilities
        return -np.logaddexp(0.0, -logits) if isinstance(labels, Classes) else logits

    return logits_of


def _repeated(logit: float, x: Matrix) -> npt.NDArray[np.float64]:
    return np.full(x.shape[0], logit)
