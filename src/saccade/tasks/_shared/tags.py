"""Tags: one label per word, read from rows, validated, and decoded into spans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from saccade.data.corpus import Row, Split
from saccade.data.sources.columns import counted, quoted, split_elements
from saccade.errors import DataError, RunError, brief
from saccade.files import read_json
from saccade.metrics.tagging import (
    OUTSIDE,
    SPAN_TAG,
    Scheme,
    WordSpan,
    may_follow,
    scheme_of,
    spans_of,
    tags_of,
)
from saccade.tasks._shared.answering import Answer
from saccade.tasks._shared.labels import LABELS_FILE, Classes, LabelCounts, percent
from saccade.text import WordSplitter

MARKS: Mapping[Scheme, str] = {"BIO": "BI", "BIOES": "BIES"}
"""The prefixes of the tags of each scheme."""
MOST = 1000
"""Maximum number of different tags."""


@dataclass(frozen=True, kw_only=True)
class TagsConfig:
    """The tags.

    scheme   how tags mark spans: "BIO" (B-TYPE begins a span, I-TYPE continues it, O is outside);
             "BIOES" (also E-TYPE at its end, and S-TYPE for a span of one word); "none", each tag
             is a label of its own, such as a part of speech; "auto", by the tags of training
    broken   treatment of a tag that breaks the scheme, such as I-TYPE after O: "repair" lets it
             begin a span, as in conlleval, and reports how many there are; "error" rejects the
             data
    """

    scheme: Literal["auto", "BIO", "BIOES", "none"] = "auto"
    broken: Literal["repair", "error"] = "repair"


@dataclass(frozen=True)
class TagSpan:
    """A span of text with a label.

    Attributes:
        start: The index of its first character in the input.
        end: The index of the character after its last one.
        label: Its type; without a scheme, the tag of the word.
        text: Its text.
        probability: The product of the probabilities of its tags.
        words: The index of its first word, and of the word after its last one.
    """

    start: int
    end: int
    label: str
    text: str
    probability: float
    words: tuple[int, int]

    def to_dict(self) -> dict[str, object]:
        """Return plain JSON values."""
        names = ("start", "end", "label", "text", "probability")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Tagging(Answer):
    """A prediction of tags.

    Attributes:
        text: The input with its spans marked, as in `[Ann Lee](person) sings`.
        score: The mean log-probability of the tags.
        confidence: The geometric mean of the probabilities of the tags.
        spans: The spans; without a scheme, one per word.
        words: The words; those beyond the maximum length of the input are missing.
        tags: The tag of each word.
        probabilities: The probability of each tag.
        source: The input as text, to which the characters of spans refer.
    """

    spans: tuple[TagSpan, ...] = ()
    words: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    probabilities: tuple[float, ...] = field(default=(), repr=False)
    source: str = field(default="", repr=False)

    def __str__(self) -> str:
        """Return the input with its spans marked, each with its probability."""
        return inline(self.source, self.spans, probabilities=True)

    def to_dict(self) -> dict[str, object]:
        """Return the answer as plain JSON values, without attention."""
        return {
            "spans": [span.to_dict() for span in self.spans],
            "words": list(self.words),
            "tags": list(self.tags),
            "score": self.score,
            "confidence": self.confidence,
            "truncated": self.truncated,
        }


def inline(text: str, spans: Sequence[TagSpan], *, probabilities: bool = False) -> str:
    """Mark spans in a text.

    >>> inline("Ann sings", [TagSpan(0, 3, "person", "Ann", 0.97, (0, 1))])
    '[Ann](person) sings'
    """
    parts, at = [], 0
    for span in spans:
        likely = f" {percent(span.probability)}" if probabilities else ""
        parts += [text[at : span.start], f"[{text[span.start : span.end]}]({span.label}{likely})"]
        at = span.end
    return "".join([*parts, text[at:]])


class TaggedWords(NamedTuple):
    """The words of a row and their tags."""

    words: list[str]
    tags: list[str]


@dataclass
class BrokenTags:
    """The number of tags that break the scheme, and a description of the first."""

    count: int = 0
    first: str = ""

    def __str__(self) -> str:
        """One sentence about the tags and their treatment."""
        verb = "tag breaks" if self.count == 1 else "tags break"
        return (
            f"{self.count:,} {verb} the scheme and were repaired: a tag that cannot continue the "
            f"span before it begins a new one, as in conlleval; the first: {self.first} "
            "(tags.broken=error rejects such data)"
        )


class Tags(Classes):
    """One tag per word.

    Args:
        names: The tags.
        scheme: How they mark spans.
        splitter: Divides plain text into words.

    Attributes:
        types: The types of spans; without a scheme, the tags.
    """

    kind = "tags"

    def __init__(
        self, names: Sequence[str], scheme: Scheme, splitter: WordSplitter | None = None
    ) -> None:
        super().__init__(names)
        self.scheme, self.splitter = scheme, splitter or WordSplitter()
        parts = [SPAN_TAG.fullmatch(name) for name in names]
        spans = dict.fromkeys(match[2] for match in parts if match)
        self.types = tuple(names) if scheme == "none" else tuple(spans)
        after = ["", *names]
        self._allowed = np.array([[may_follow(a, b, scheme) for b in after] for a in after])

    def decide(self, log_p: Float[np.ndarray, "n c"]) -> list[int]:
        """Return the most likely sequence of tags that the scheme allows."""
        best: list[int] = log_p.argmax(-1).tolist()
        ends = [0, *(tag + 1 for tag in best), 0]
        if self.scheme == "none" or self._allowed[ends[:-1], ends[1:]].all():
            return best
        penalty = np.where(self._allowed, 0.0, -1e9)
        scores, back = log_p[0] + penalty[0, 1:], []
        for row in log_p[1:]:
            paths = scores[:, None] + penalty[1:, 1:]
            back.append(paths.argmax(0))
            scores = paths.max(0) + row
        path = [int((scores + penalty[1:, 0]).argmax())]
        for choices in reversed(back):
            path.append(int(choices[path[-1]]))
        return path[::-1]

    def number(self, tag: str) -> int:
        """Return the number of a tag."""
        return self.encode(tag, "the output")[0]

    def spans(self, tags: Sequence[str]) -> list[WordSpan]:
        """Return the spans of words that tags mark."""
        return spans_of(tags, self.scheme)

    def missing(self) -> str:
        """Return the substitute for the tag of a word that was cut off."""
        return "" if self.scheme == "none" else OUTSIDE

    def bare(self, tag: str) -> str:
        """Return the type that a tag belongs to; tags without a type stay as they are."""
        match = None if self.scheme == "none" else SPAN_TAG.fullmatch(tag)
        return match[2] if match else tag

    def read(
        self, row: Row, broken: BrokenTags, how: Literal["repair", "error"]
    ) -> TaggedWords | None:
        """Return the words and tags of a row; None if it has none.

        Raises:
            DataError: A tag is unknown or missing, or breaks the scheme where that is an error.
        """
        if (pair := words_and_tags(row)) is None:
            return None
        for i, tag in enumerate(pair.tags):
            if tag not in self._number:
                known = f"{', '.join(self.names[:12])}{' …' * (len(self.names) > 12)}"
                raise DataError(
                    f"{_place(row, pair, i)} has the tag {quoted(tag)}, which was not in the "
                    f"training data: {known}. Correct the tag, or train with it"
                )
        return repaired(row, pair, self.scheme, broken, how)

    def facts(self) -> dict[str, object]:
        """Return the tags, their scheme, and how text is divided into words."""
        return {**super().facts(), "scheme": self.scheme, "splitting": self.splitter.facts()}


def words_and_tags(row: Row) -> TaggedWords | None:
    """Return the words and tags of a row as written; None if it has none.

    Raises:
        DataError: The numbers of words and tags differ.
    """
    words, tags = (split_elements(value) for value in row.values)
    if not words or not tags:
        return None
    if len(words) != len(tags):
        raise DataError(
            f"{row.where}: {counted(len(words), 'word')} but {counted(len(tags), 'tag')}, in "
            f"{quoted(' '.join(words))}. Every word needs exactly one tag; add or remove some"
        )
    return TaggedWords(words, tags)


def repaired(
    row: Row,
    pair: TaggedWords,
    scheme: Scheme,
    broken: BrokenTags,
    how: Literal["repair", "error"],
) -> TaggedWords:
    """Repair tags that break the scheme, and count them in `broken`.

    Raises:
        DataError: A tag breaks the scheme, and that is an error.
    """
    tags = tags_of(spans_of(pair.tags, scheme), len(pair.tags), scheme)
    wrong = [i for i, (old, new) in enumerate(zip(pair.tags, tags, strict=True)) if old != new]
    if not wrong:
        return pair
    first = wrong[0]
    before = f"after {pair.tags[first - 1]}" if first else "at the beginning of a sentence"
    problem = f"{_place(row, pair, first)} has the tag {pair.tags[first]} {before}"
    if how == "error":
        raise DataError(
            f"{problem}, where {scheme} needs {tags[first]}. Correct it, or set tags.broken=repair "
            "to read it as conlleval does"
        )
    broken.count += len(wrong)
    broken.first = broken.first or f"{problem}, read as {tags[first]}"
    return TaggedWords(pair.words, tags)


def learn_tags(train: Split, config: TagsConfig) -> tuple[Tags, LabelCounts, BrokenTags]:
    """Return the tags of training data, their counts, and the tags that break the scheme.

    Types that occur only in the validation set are included.

    Raises:
        DataError: There are no tags or too many, or they do not fit the scheme.
    """
    first: dict[str, tuple[Row, TaggedWords, int]] = {}
    for split in (train, *train.companions):
        for row, pair in _pairs(split):
            for i, tag in enumerate(pair.tags):
                if tag not in first:
                    first[tag] = (row, pair, i)
        if len(first) > MOST:
            raise DataError(
                f"{train.name} has more than {MOST:,} different tags; name the column of the tags: "
                "--columns words=NAME,tags=NAME, or numbers for .conll files"
            )
    scheme = _scheme(first, config)
    names = sorted(first)
    if scheme != "none":
        types = sorted({match[2] for tag in first if (match := SPAN_TAG.fullmatch(tag))})
        names = [OUTSIDE, *(f"{mark}-{label}" for label in types for mark in MARKS[scheme])]
    if len(names) < 2:
        only = f"only {names[0]!r}" if names else "none"
        raise DataError(f"a tagger needs at least two different tags; {train.name} has {only}")
    counts, words, broken = Counter[str](), Counter[str](), BrokenTags()
    for row, pair in _pairs(train):
        counts.update(repaired(row, pair, scheme, broken, config.broken).tags)
        words.update(pair.words)
    splitter = WordSplitter.learn(words.elements())
    return Tags(names, scheme, splitter), LabelCounts(counts.total(), counts), broken


def _pairs(split: Split) -> Iterator[tuple[Row, TaggedWords]]:
    for row in split:
        if (pair := words_and_tags(row)) is not None:
            yield row, pair


def _scheme(first: Mapping[str, tuple[Row, TaggedWords, int]], config: TagsConfig) -> Scheme:
    """Return the scheme of tags, given the first place of each."""
    scheme: Scheme = scheme_of(first) if config.scheme == "auto" else config.scheme
    if scheme == "none":
        return scheme
    spans = {tag: match[1] for tag in first if (match := SPAN_TAG.fullmatch(tag))}
    for tag, (row, pair, i) in first.items():
        if tag != OUTSIDE and spans.get(tag, "?") not in MARKS[scheme]:
            expected = ", ".join([OUTSIDE, *(f"{mark}-TYPE" for mark in MARKS[scheme])])
            raise DataError(
                f"{_place(row, pair, i)} has the tag {quoted(tag)}, which is not a tag of the "
                f"scheme {scheme}: {expected}. Correct it, or set tags.scheme=none if each tag is "
                "a label of its own"
            )
    return scheme


def _place(row: Row, pair: TaggedWords, i: int) -> str:
    return f"{row.where}: word {i + 1} of the sentence, {quoted(pair.words[i])},"


def read_tags(folder: Path) -> Tags:
    """Return the tags of a run folder."""
    path = folder / LABELS_FILE
    try:
        facts = read_json(path)
        names, scheme = facts["names"], facts["scheme"]
        if facts["kind"] != Tags.kind or scheme not in (*MARKS, "none"):
            raise ValueError('the kind must be "tags", the scheme BIO, BIOES or none')
        if not names or not all(isinstance(name, str) for name in names):
            raise ValueError("names must be a list of texts")
        if len(set(names)) < len(names):
            raise ValueError("names must be different")
        return Tags(names, scheme, WordSplitter.from_facts(facts.get("splitting", {})))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RunError(
            f"{path} cannot be read: {type(error).__name__}: {brief(error)}. Restore it from a copy"
        ) from None
