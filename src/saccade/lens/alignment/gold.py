"""Gold alignment files, of two formats.

0-0 1-2 2p3    one line per sentence pair; p or ? in place of - marks a link that is possible, but
               not sure
12 3 4 S       one line per link: sentence pair, source word, target word, S (sure, the default) or
               P (possible), all counted from 1, as in the shared task of Mihalcea and Pedersen
               (2003)
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from saccade.errors import DataError, MetricError
from saccade.lens.alignment.extraction import Link, from_pharaoh, word_spans

_NUMBERED = re.compile(r"([0-9]{1,9})\s+([0-9]{1,9})\s+([0-9]{1,9})(?:\s+([SP]))?(?:\s+[0-9.]+)?")
_POSSIBLE = re.compile(r"(?<=[0-9])[p?](?=[0-9])")


@dataclass(frozen=True)
class Gold:
    """The gold alignment of a sentence pair.

    Args:
        sure: the links that must be there.
        possible: the links that may be there.
    """

    sure: frozenset[Link]
    possible: frozenset[Link] = frozenset()


def read_gold(
    lines: Iterable[str], *, count: int, first: Literal[0, 1] = 0, swapped: bool = False
) -> list[Gold]:
    """Return the gold alignments in the lines of a file of either format.

    Args:
        lines: the lines of the file.
        count: the number of sentence pairs.
        first: the number of the first word in `i-j` pairs; the other format counts from 1.
        swapped: whether the file names the target word first.

    Raises:
        MetricError: naming the line that is not valid, or if there are not `count` lines.
    """
    stripped = [line.strip() for line in lines]
    first_filled = next((line for line in stripped if line), "")
    if _NUMBERED.fullmatch(first_filled):
        return _from_links(stripped, count, swapped=swapped)
    if len(stripped) != count:
        raise MetricError(
            "gold alignments need one line per sentence pair, empty if no words are aligned: "
            f"expected {count}, got {len(stripped)}; "
            "check that the file belongs to this data"
        )
    return [_from_line(line, i, first, swapped=swapped) for i, line in enumerate(stripped, 1)]


def _from_line(line: str, number: int, first: Literal[0, 1], *, swapped: bool) -> Gold:
    parts = line.split()
    maybe = [part for part in parts if _POSSIBLE.search(part)]
    sure = [part for part in parts if part not in maybe]
    try:
        return Gold(
            frozenset(from_pharaoh(" ".join(sure), first=first, swapped=swapped)),
            frozenset(
                from_pharaoh(_POSSIBLE.sub("-", " ".join(maybe)), first=first, swapped=swapped)
            ),
        )
    except MetricError as error:
        raise MetricError(f"line {number} of the gold alignments: {error}") from None


def _from_links(lines: Sequence[str], count: int, *, swapped: bool) -> list[Gold]:
    sure: list[set[Link]] = [set() for _ in range(count)]
    possible: list[set[Link]] = [set() for _ in range(count)]
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        match = _NUMBERED.fullmatch(line)
        if match is None:
            raise MetricError(
                f"line {number} of the gold alignments must be 'sentence source target', followed "
                f"by S or P if you like; got {line[:60]!r}"
            )
        sentence, source, target = int(match[1]), int(match[2]), int(match[3])
        if not 1 <= sentence <= count:
            raise MetricError(
                f"line {number} of the gold alignments is about sentence pair {sentence}, but the "
                f"pairs are numbered from 1 to {count}; "
                "check that the file belongs to this data"
            )
        if source and target:  # 0 stands for no word
            link = (target - 1, source - 1) if swapped else (source - 1, target - 1)
            (possible if match[4] == "P" else sure)[sentence - 1].add(link)
    return [Gold(frozenset(s), frozenset(p)) for s, p in zip(sure, possible, strict=True)]


class SentencePair(NamedTuple):
    """A source with its target, and where they stand (file and line), for errors."""

    source: str
    target: str
    where: str


@dataclass(frozen=True, kw_only=True)
class GoldFile:
    """A file of gold alignments, in the order of the rows of the data.

    Args:
        path: the file.
        first: what its word numbers count from.
        swapped: whether it names the target word before the source word.
    """

    path: Path
    first: Literal[0, 1] = 0
    swapped: bool = False

    def parse(self, lines: Iterable[str], pairs: Sequence[SentencePair]) -> list[Gold]:
        """Return the gold alignments in the lines of the file.

        Args:
            lines: its lines.
            pairs: the sentence pairs that they align, in the same order.

        Raises:
            DataError: if a line is malformed or links a word that its sentence pair lacks.
        """
        try:
            golds = read_gold(lines, count=len(pairs), first=self.first, swapped=self.swapped)
        except MetricError as error:
            raise DataError(f"{self.path}: {error}") from None
        for gold, pair in zip(golds, pairs, strict=True):
            _require_words(gold, pair, f"{self.path} for {pair.where}")
        return golds


def parse_gold(line: str, pair: SentencePair) -> Gold:
    """Return the gold alignment of a sentence pair, from a line such as "0-0 1p2".

    Raises:
        DataError: if the line is malformed or links a word that the sentence pair lacks.
    """
    try:
        [gold] = read_gold([line], count=1)
    except MetricError as error:
        raise DataError(f"{pair.where}: {error}") from None
    _require_words(gold, pair, pair.where)
    return gold


def _require_words(gold: Gold, pair: SentencePair, where: str) -> None:
    counts = [len(word_spans(text)) for text in (pair.source, pair.target)]
    for source, target in sorted(gold.sure | gold.possible):
        if source >= counts[0] or target >= counts[1]:
            raise DataError(
                f"{where}: the gold alignment links source word {source} with target word "
                f"{target}, counted from 0, but there are {counts[0]} source and {counts[1]} "
                "target words. Check that it belongs to this data; if it counts from 1 use "
                "--gold-from-1, if it names the target word first --gold-swapped"
            )
