"""Metrics of tags, as fractions.

    accuracy         words with the correct tag
    span_precision   predicted spans with the correct words and type
    span_recall      reference spans that are predicted
    span_f1          2 · correct spans / (predicted spans + reference spans)

Spans are read from tags of the schemes BIO (B-TYPE begins a span, I-TYPE continues it, O is
outside) and BIOES (also E-TYPE, the last word of a span, and S-TYPE, a span of one word), as
conlleval and seqeval read them (Tjong Kim Sang and Buchholz 2000, "Introduction to the CoNLL-2000
shared task"): a tag that cannot continue the span before it begins a new one. Spans of all types
count together.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np

from saccade.errors import MetricError
from saccade.metrics.classification import ClassScores
from saccade.metrics.score import (
    IntervalsConfig,
    Tally,
    require_names,
    require_resampling,
    require_same_length,
    scored,
    signature_of,
)

Scheme = Literal["BIO", "BIOES", "none"]
"""How tags mark spans; "none" if tags are plain labels, such as parts of speech."""
TaggingMetric = Literal["accuracy", "span_precision", "span_recall", "span_f1"]
OUTSIDE = "O"
"""The tag of words that belong to no span."""
SPAN_TAG = re.compile(r"([BIES])-(.+)")
Tags = Sequence[str]


class WordSpan(NamedTuple):
    """A span of words.

    Attributes:
        start: The index of its first word.
        end: The index of the word after its last one.
        label: Its type.
    """

    start: int
    end: int
    label: str


def spans_of(tags: Tags, scheme: Scheme = "BIO") -> list[WordSpan]:
    """Return the spans marked by tags; without a scheme, each word is a span.

    >>> spans_of(["B-PER", "I-PER", "O", "I-LOC"])
    [WordSpan(start=0, end=2, label='PER'), WordSpan(start=3, end=4, label='LOC')]
    """
    if scheme == "none":
        return [WordSpan(i, i + 1, tag) for i, tag in enumerate(tags)]
    spans: list[WordSpan] = []
    before = ""  # the prefix of the last tag
    for i, tag in enumerate(tags):
        match = SPAN_TAG.fullmatch(tag)
        prefix, label = match.groups() if match else ("", "")
        if before in ("B", "I") and prefix in ("I", "E") and spans[-1].label == label:
            spans[-1] = spans[-1]._replace(end=i + 1)
        elif prefix:
            spans.append(WordSpan(i, i + 1, label))
        before = prefix
    return spans


def scheme_of(tags: Iterable[str]) -> Scheme:
    """Return the scheme of a set of tags.

    >>> scheme_of(["O", "B-PER", "I-PER"]), scheme_of(["S-PER", "O"]), scheme_of(["NOUN", "VERB"])
    ('BIO', 'BIOES', 'none')
    """
    marks = {match[1] for tag in tags if (match := SPAN_TAG.fullmatch(tag))}
    if not marks:
        return "none"
    return "BIOES" if marks & {"E", "S"} else "BIO"


def tags_of(spans: Iterable[WordSpan], length: int, scheme: Scheme = "BIO") -> list[str]:
    """Return the tags that mark spans in a sentence of `length` words.

    Args:
        spans: The spans.
        length: The number of words.
        scheme: The scheme of the tags.

    >>> tags_of([WordSpan(0, 2, "PER"), WordSpan(3, 4, "LOC")], 4, "BIOES")
    ['B-PER', 'E-PER', 'O', 'S-LOC']
    """
    tags = [OUTSIDE] * length
    for start, end, label in spans:
        if scheme == "none":
            tags[start:end] = [label] * (end - start)
            continue
        marks = ["B", *"I" * (end - start - 1)]
        if scheme == "BIOES":
            marks[-1] = "S" if len(marks) == 1 else "E"
        tags[start:end] = [f"{mark}-{label}" for mark in marks]
    return tags


def may_follow(before: str, tag: str, scheme: Scheme) -> bool:
    """Return whether a tag may come after another; "" stands for both ends of a sentence.

    Args:
        before: The tag of the word before.
        tag: The tag.
        scheme: The scheme of both.

    >>> may_follow("O", "I-PER", "BIO"), may_follow("B-PER", "", "BIOES")
    (False, False)
    """
    if scheme == "none":
        return True
    (mark, label), (after, other) = (_parts(one) for one in (before, tag))
    inside = after in ("I", "E")
    if scheme == "BIOES" and mark in ("B", "I"):  # the span must end first
        return inside and label == other
    return not inside or (mark in ("B", "I") and label == other)


def _parts(tag: str) -> tuple[str, str]:
    match = SPAN_TAG.fullmatch(tag)
    return (match[1], match[2]) if match else ("", "")


def accuracy_tally(predictions: Sequence[Tags], references: Sequence[Tags]) -> Tally:
    """The fraction of words with the correct tag.

    Args:
        predictions: The predicted tags of each sentence.
        references: The right tags of each sentence.
    """
    _require_tags(predictions, references)
    counts = [
        (sum(a == b for a, b in zip(predicted, right, strict=True)), len(right))
        for predicted, right in zip(predictions, references, strict=True)
    ]
    return _tally("accuracy", counts, "words")


def span_precision_tally(
    predictions: Sequence[Tags], references: Sequence[Tags], scheme: Scheme = "BIO"
) -> Tally:
    """The fraction of the predicted spans that are correct.

    Args:
        predictions: The predicted tags of each sentence.
        references: The right tags of each sentence.
        scheme: The scheme of the tags.
    """
    counts = [
        (right, predicted) for right, predicted, _ in _matches(predictions, references, scheme)
    ]
    return _tally("span_precision", counts, f"spans:{scheme}")


def span_recall_tally(
    predictions: Sequence[Tags], references: Sequence[Tags], scheme: Scheme = "BIO"
) -> Tally:
    """The fraction of the spans in the references that are predicted.

    Args:
        predictions: The predicted tags of each sentence.
        references: The right tags of each sentence.
        scheme: The scheme of the tags.
    """
    counts = [(right, gold) for right, _, gold in _matches(predictions, references, scheme)]
    return _tally("span_recall", counts, f"spans:{scheme}")


def span_f1_tally(
    predictions: Sequence[Tags], references: Sequence[Tags], scheme: Scheme = "BIO"
) -> Tally:
    """The harmonic mean of the precision and the recall of spans.

    Args:
        predictions: The predicted tags of each sentence.
        references: The right tags of each sentence.
        scheme: The scheme of the tags.
    """
    counts = [
        (2 * right, predicted + gold)
        for right, predicted, gold in _matches(predictions, references, scheme)
    ]
    return _tally("span_f1", counts, f"spans:{scheme}")


tag_accuracy = scored(accuracy_tally)
span_precision = scored(span_precision_tally)
span_recall = scored(span_recall_tally)
span_f1 = scored(span_f1_tally)


def span_scores(
    predictions: Sequence[Tags], references: Sequence[Tags], scheme: Scheme = "BIO"
) -> list[ClassScores]:
    """Return precision, recall, F1 and support of each type of span; of each tag without a scheme.

    Args:
        predictions: The predicted tags of each sentence.
        references: The right tags of each sentence.
        scheme: The scheme of the tags.
    """
    _require_tags(predictions, references)
    right, predicted, gold = Counter[str](), Counter[str](), Counter[str]()
    for tags, truth in zip(predictions, references, strict=True):
        here, there = set(spans_of(tags, scheme)), set(spans_of(truth, scheme))
        right.update(span.label for span in here & there)
        predicted.update(span.label for span in here)
        gold.update(span.label for span in there)
    return [
        ClassScores(
            label,
            right[label] / max(1, predicted[label]),
            right[label] / max(1, gold[label]),
            2 * right[label] / max(1, predicted[label] + gold[label]),
            gold[label],
        )
        for label in sorted(filter(None, {*predicted, *gold}))
    ]


@dataclass(frozen=True, kw_only=True)
class TaggingMetricsConfig(IntervalsConfig):
    """The metrics of tags.

    names     metrics to report; the first selects the best weights. Metrics of spans are skipped if
              the tags mark none (parts of speech); accuracy then selects
    samples   number of resamples per confidence interval; 0 leaves the intervals out
    seed      seed of the resamples
    """

    names: tuple[TaggingMetric, ...] = ("span_f1", "span_precision", "span_recall", "accuracy")

    def __post_init__(self) -> None:
        require_names(self.names, get_args(TaggingMetric))
        require_resampling(self.samples, self.seed)

    def of(self, scheme: Scheme) -> tuple[TaggingMetric, ...]:
        """Return the names of the metrics that are defined for a scheme."""
        if scheme != "none":
            return self.names
        return tuple(name for name in self.names if name == "accuracy") or ("accuracy",)

    def tally(
        self, predictions: Sequence[Tags], references: Sequence[Tags], scheme: Scheme
    ) -> dict[str, Tally]:
        """Return the tally of each metric."""
        spans: dict[str, Callable[..., Tally]] = {
            "span_precision": span_precision_tally,
            "span_recall": span_recall_tally,
            "span_f1": span_f1_tally,
        }
        return {
            name: accuracy_tally(predictions, references)
            if name == "accuracy"
            else spans[name](predictions, references, scheme)
            for name in self.of(scheme)
        }


def _matches(
    predictions: Sequence[Tags], references: Sequence[Tags], scheme: Scheme
) -> list[tuple[int, int, int]]:
    """Return the numbers of correct, predicted and reference spans of each sentence."""
    _require_tags(predictions, references)
    counts = []
    for tags, truth in zip(predictions, references, strict=True):
        predicted, gold = set(spans_of(tags, scheme)), set(spans_of(truth, scheme))
        counts.append((len(predicted & gold), len(predicted), len(gold)))
    return counts


def _require_tags(predictions: Sequence[Tags], references: Sequence[Tags]) -> None:
    require_same_length(predictions=len(predictions), references=len(references))
    for i, (tags, truth) in enumerate(zip(predictions, references, strict=True)):
        if len(tags) != len(truth):
            raise MetricError(
                f"sentence {i} has {len(tags)} predicted tags and {len(truth)} right ones; every "
                "word needs one of each"
            )


def _tally(name: str, counts: Sequence[tuple[int, int]], options: str) -> Tally:
    return Tally(
        name=name, counts=np.array(counts, dtype=np.float64), signature=signature_of(options)
    )
