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
from typing import Literal

from saccade.errors import MetricError
from saccade.lens.alignment.extraction import Link, from_pharaoh

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
            f"expected {count}, got {len(stripped)}"
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
                f"pairs are numbered from 1 to {count}"
            )
        if source and target:  # 0 stands for no word
            link = (target - 1, source - 1) if swapped else (source - 1, target - 1)
            (possible if match[4] == "P" else sure)[sentence - 1].add(link)
    return [Gold(frozenset(s), frozenset(p)) for s, p in zip(sure, possible, strict=True)]
