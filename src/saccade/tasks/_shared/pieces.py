"""Split long texts into lines, sentences or windows, answer each piece, and join the answers.

Each piece is a separate example. Line breaks are kept as they were; between
the sentences of a line there is a space unless the script of the answer has none.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from heapq import nlargest
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from saccade.errors import DecodingError
from saccade.tasks._shared.answering import Answer, AnswerPiece
from saccade.text.sentences import Span, half_spans, has_no_spaces, line_spans, sentence_spans

if TYPE_CHECKING:
    from saccade.lens.alignment.extraction import Link
    from saccade.lens.record import AttentionRecord, Side
    from saccade.lens.record.sides import AnySide

MOST_WEIGHTS = 2**26
"""The largest number of attention weights of a joined record: 256 MiB."""


class TextPiece(NamedTuple):
    """A part of a text, from character `start` up to `end`, and its token ids."""

    start: int
    end: int
    ids: list[int]


def split_text(
    text: str, encode: Callable[[list[str]], list[list[int]]], most: int
) -> list[TextPiece]:
    """Return a text in pieces of at most `most` tokens.

    Each line that is not blank is a piece. A line with more tokens is split into its sentences, and
    a sentence with more tokens in halves, until all fit.

    Args:
        text: The text.
        encode: Returns the token ids of texts.
        most: The maximum number of tokens of a piece; a single character may have more.
    """
    pieces: list[TextPiece] = []
    waiting = line_spans(text)
    while waiting:
        too_long: list[Span] = []
        encoded = encode([text[start:end] for start, end in waiting])
        for (start, end), ids in zip(waiting, encoded, strict=True):
            if len(ids) <= most or end - start == 1:
                pieces.append(TextPiece(start, end, ids))
                continue
            part = text[start:end]
            spans = sentence_spans(part)
            spans = half_spans(part) if len(spans) == 1 else spans
            too_long += [(start + first, start + last) for first, last in spans]
        waiting = too_long
    return sorted(pieces)


def join_answers(text: str, spans: Sequence[Span], answers: Sequence[Answer]) -> Answer:
    """Return the answer to a text from the answers to its pieces.

    The score is the mean log-probability over all tokens. Alternatives differ from the best answer
    in the pieces where that costs the least probability.

    Args:
        text: The text.
        spans: The (start, end) characters of each piece.
        answers: The answers to the pieces.

    Raises:
        DecodingError: The joined attention record would be too large.
    """
    count = 1 + max(len(answer.alternatives) for answer in answers)
    combinations = _best_combinations(answers, count)
    best, *others = (_joined(text, spans, chosen) for chosen in combinations)
    return replace(
        best,
        attention=_joined_record(text, best, [answer.attention for answer in answers]),
        alternatives=tuple(others),
    )


def links_in_text(
    text: str, translation: str, pieces: Sequence[AnswerPiece], links: Sequence[set[Link]]
) -> set[Link]:
    """Return the links between the words of two texts from the links within each piece."""
    sources = _word_numbers(text, [piece.input for piece in pieces])
    targets = _word_numbers(translation, [piece.text for piece in pieces])
    return {
        (source[s], target[t])
        for source, target, own in zip(sources, targets, links, strict=True)
        for s, t in own
    }


def _best_combinations(answers: Sequence[Answer], count: int) -> list[tuple[Answer, ...]]:
    """Return the combinations of one answer per piece with the best scores, best first."""
    if count == 1:
        return [tuple(answers)]
    kept: list[tuple[float, tuple[Answer, ...]]] = [(0.0, ())]
    for answer in answers:
        longer = (
            (total + _weight(answer) * (other.score - answer.score), (*chosen, other))
            for total, chosen in kept
            for other in (answer, *answer.alternatives)
        )
        kept = nlargest(count, longer, key=lambda one: one[0])
    return [chosen for _, chosen in kept]


def _joined(text: str, spans: Sequence[Span], answers: Sequence[Answer]) -> Answer:
    """Join the answers to pieces into one, without attention or alternatives."""
    parts, at, pieces = [text[: spans[0][0]]], spans[0][0], []
    gaps = [_gap(text, *pair) for pair in zip(pairwise(spans), pairwise(answers), strict=True)]
    for span, answer, gap in zip(spans, answers, [*gaps, text[spans[-1][1] :]], strict=True):
        pieces.append(AnswerPiece(span, (at, at + len(answer.text))))
        parts += [answer.text, gap]
        at += len(answer.text) + len(gap)
    total = sum(map(_weight, answers))
    return Answer(
        "".join(parts),
        sum(_weight(answer) * answer.score for answer in answers) / total,
        finished=all(answer.finished for answer in answers),
        truncated=any(answer.truncated for answer in answers),
        pieces=tuple(pieces),
        confidence=_mean_confidence(answers),
    )


def _mean_confidence(answers: Sequence[Answer]) -> float | None:
    """Return the geometric mean of the confidences over all tokens; None if there is none."""
    logs = [(_weight(x), math.log(x.confidence)) for x in answers if x.confidence]
    weight = sum(weight for weight, _ in logs)
    return math.exp(sum(weight * log for weight, log in logs) / weight) if logs else None


def _weight(answer: Answer) -> int:
    return len(answer.tokens or ()) + 1  # with the stop token


def _gap(text: str, spans: tuple[Span, Span], answers: tuple[Answer, Answer]) -> str:
    """Return what stands between two answers: what stood between the two pieces.

    If only one of the two languages writes spaces between sentences, it is that of the answers
    which decides.
    """
    (_, end), (start, _) = spans
    gap, before = text[end:start], answers[0].text[-1:]
    if not before or not answers[1].text or len(line_spans(f".{gap}.")) > 1:
        return gap
    spaced, spaced_before = (not has_no_spaces(letter) for letter in (before, text[end - 1]))
    if spaced == spaced_before:
        return gap
    return " " if spaced else ""


def _joined_record(
    text: str, answer: Answer, records: Sequence[AttentionRecord | None]
) -> AttentionRecord | None:
    """Return one record with the weights of each piece in a block of its own."""
    pairs = [
        (piece, record)
        for piece, record in zip(answer.pieces, records, strict=True)
        if record is not None  # as that of a piece without tokens
    ]
    if not pairs:
        return None
    blocks = [record for _, record in pairs]
    read = _joined_side(text, [(piece.input, record.read) for piece, record in pairs])
    wrote = _joined_side(answer.text, [(piece.text, record.wrote) for piece, record in pairs])
    heads = sum(len(weights) for weights in blocks[0].weights.values())
    size = heads * len(read.tokens) * len(wrote.tokens)
    if size > MOST_WEIGHTS:
        raise DecodingError(
            f"the attention of a text in {len(pairs)} pieces has {size:,} weights, more than the "
            f"{MOST_WEIGHTS:,} allowed; send its paragraphs as inputs of their own, or ask without "
            "attention"
        )
    import numpy as np

    layers = {}
    for name, first in blocks[0].weights.items():
        layers[name] = np.zeros((len(first), len(wrote.tokens), len(read.tokens)), np.float32)
        row = column = 0
        for record in blocks:
            rows, columns = record.weights[name].shape[1:]
            layers[name][:, row : row + rows, column : column + columns] = record.weights[name]
            row, column = row + rows, column + columns
    return replace(blocks[0], read=read, wrote=wrote, weights=layers)


def _joined_side(text: str, sides: Sequence[tuple[Span, AnySide]]) -> Side:
    """Return the side of a complete text; a word that was cut is one word again."""
    from saccade.lens.record import Side

    texts = [(span, side) for span, side in sides if isinstance(side, Side)]
    numbers = _word_numbers(text, [span for span, _ in texts])
    return Side(
        tuple(token for _, side in texts for token in side.tokens),
        tuple(text.split()),
        tuple(
            None if word is None else own[word]
            for (_, side), own in zip(texts, numbers, strict=True)
            for word in side.word_of
        ),
    )


def _word_numbers(text: str, spans: Sequence[Span]) -> list[list[int]]:
    """Return for each word of each piece its number in the complete text."""
    from saccade.lens.alignment.extraction import word_spans

    starts = [start for start, _ in word_spans(text)]
    return [
        [bisect_right(starts, first + start) - 1 for start, _ in word_spans(text[first:last])]
        for first, last in spans
    ]
