"""Gold alignments, as files have them.

0-0 1-2 2p3             a line for each sentence pair; p or ? in place of - marks a link that is
                        possible, but not sure
12 3 4 S                a line for each link: sentence pair, word of the source, word of the
                        target, S (sure) or P (possible), S where nothing is said; all counted
                        from 1, as in the shared task of Mihalcea and Pedersen (2003)
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
    """The right links of a sentence pair: those that are sure, and those that may be."""

    sure: frozenset[Link]
    possible: frozenset[Link] = frozenset()


def read_gold(
    lines: Iterable[str], *, count: int, first: Literal[0, 1] = 0, swapped: bool = False
) -> list[Gold]:
    """The gold of `count` sentence pairs from the lines of a file of either form.

    `first` is what the numbers of `i-j` pairs count from; `swapped` says that the word of the
    target is named first.
    """
    every = [line.strip() for line in lines]
    filled = next((line for line in every if line), "")
    if _NUMBERED.fullmatch(filled):
        return _numbered(every, count, swapped=swapped)
    if len(every) != count:
        raise MetricError(
            f"gold alignments need a line for each sentence pair: got {len(every)} lines for "
            f"{count} pairs"
        )
    return [_line(line, i, first, swapped=swapped) for i, line in enumerate(every, 1)]


def _line(line: str, number: int, first: Literal[0, 1], *, swapped: bool) -> Gold:
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


def _numbered(lines: Sequence[str], count: int, *, swapped: bool) -> list[Gold]:
    sure: list[set[Link]] = [set() for _ in range(count)]
    possible: list[set[Link]] = [set() for _ in range(count)]
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        found = _NUMBERED.fullmatch(line)
        if found is None:
            raise MetricError(
                f"line {number} of the gold alignments should be 'sentence source target S' with "
                f"S or P at its end; got {line[:60]!r}"
            )
        sentence, source, target = int(found[1]), int(found[2]), int(found[3])
        if not 1 <= sentence <= count:
            raise MetricError(
                f"line {number} of the gold alignments is of sentence pair {sentence}, but there "
                f"are {count}, counted from 1"
            )
        if source and target:  # 0 stands for no word
            link = (target - 1, source - 1) if swapped else (source - 1, target - 1)
            (possible if found[4] == "P" else sure)[sentence - 1].add(link)
    return [Gold(frozenset(s), frozenset(p)) for s, p in zip(sure, possible, strict=True)]
