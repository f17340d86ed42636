"""Word alignments: out of attention, of two directions joined, as text.

An alignment is a set of 0-based pairs (word of the source, word of the target). Pharaoh's text has
a line for each sentence pair, `0-0 1-2`.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Float

from saccade.errors import MetricError, ShapeError

Link = tuple[int, int]
Symmetrise = Literal["intersection", "union", "grow-diag", "grow-diag-final"]

_WORD = re.compile(r"\S+")
_LINK = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")  # \d would take any script's digits
# (target, source) steps in Koehn's order, on which the outcome can depend
_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


@dataclass(frozen=True, kw_only=True)
class AlignBy:
    """Which weights words are aligned by.

    layer   the dotted name of an attention; None stands for the mean over all
    head    one of its heads; None stands for the mean over all
    shift   whether a word is aligned by where the model looked when that word was its input, one
            step after it was written
    join    how the links of both directions are joined (see `both_ways`); None takes for each
            written word what it looked at most, and no more
    """

    layer: str | None = None
    head: int | None = None
    shift: bool = False
    join: Symmetrise | None = None

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> "AlignBy":
        """From plain values, as `dataclasses.asdict` gives them."""
        known = {"layer": str | None, "head": int | None, "shift": bool, "join": str | None}
        for name, value in table.items():
            if name not in known or not isinstance(value, known[name]):
                raise ValueError(f"words cannot be aligned by {name} = {value!r}")
        if table.get("join") not in (None, *get_args(Symmetrise)):
            raise ValueError(f"links cannot be joined by {table['join']!r}")
        return cls(**table)

    def __str__(self) -> str:
        """For people."""
        layer = "the mean of all layers" if self.layer is None else self.layer
        head = "mean of heads" if self.head is None else f"head {self.head}"
        return f"{layer}, {head}, when a word was {'read' if self.shift else 'written'}"


def strongest(
    weights: Float[np.ndarray, "target source"], *, threshold: float | None = None
) -> set[Link]:
    """For each word of the target the word of the source with the most attention.

    Of equals it is the first. A word all of whose weights are 0 is left unaligned, and one whose
    strongest is below `threshold`. With the weights of the other direction, swap the pairs.
    """
    if weights.ndim != 2:
        raise ShapeError(f"an alignment needs weights (target, source), got {weights.shape}")
    if weights.size == 0:
        return set()
    least = 0.0 if threshold is None else threshold
    best = weights.argmax(1)
    return {
        (int(source), target)
        for target, source in enumerate(best)
        if weights[target, source] > 0 and weights[target, source] >= least
    }


def both_ways(
    weights: Float[np.ndarray, "target source"], *, threshold: float | None = None
) -> tuple[set[Link], set[Link]]:
    """The same weights read from both sides: for each word of the target its strongest source, and
    for each word of the source the target that looks at it most.
    """
    backward = strongest(weights.T, threshold=threshold)
    return strongest(weights, threshold=threshold), {(s, t) for t, s in backward}


def symmetrise(
    forward: Collection[Link], backward: Collection[Link], method: Symmetrise = "grow-diag"
) -> set[Link]:
    """Join the alignments of both directions, both as pairs (source, target).

    `intersection` is sure of few links, `union` has all, `grow-diag` lies between: from the
    intersection it takes in neighbours of the union (diagonal ones too) as long as they align a
    word that has no link yet (Koehn, Och and Marcu 2003; Och and Ney 2003). `grow-diag-final` goes
    on with links that are no neighbours, if they align such a word (Koehn et al. 2005).
    """
    if method not in get_args(Symmetrise):
        allowed = ", ".join(get_args(Symmetrise))
        raise MetricError(f"alignments are joined by one of {allowed}; got {method!r}")
    join: dict[str, Callable[[set[Link], set[Link]], set[Link]]] = {
        "intersection": set.intersection,
        "union": set.union,
        "grow-diag": _grow_diag,
        "grow-diag-final": _grow_diag_final,
    }
    return join[method](set(forward), set(backward))


def _grow_diag(forward: set[Link], backward: set[Link]) -> set[Link]:
    found, possible = forward & backward, forward | backward
    sources, targets = {s for s, _ in found}, {t for _, t in found}
    in_order = sorted(possible, key=lambda link: (link[1], link[0]))
    grown = True
    while grown:
        grown = False
        for source, target in in_order:
            if (source, target) not in found:
                continue
            for later, right in _NEIGHBOURS:
                link = (source + right, target + later)
                helps = link[0] not in sources or link[1] not in targets
                if helps and link in possible and link not in found:
                    found.add(link)
                    sources.add(link[0])
                    targets.add(link[1])
                    grown = True
    return found


def _grow_diag_final(forward: set[Link], backward: set[Link]) -> set[Link]:
    found = _grow_diag(forward, backward)
    for links in (forward, backward):
        for source, target in sorted(links, key=lambda link: (link[1], link[0])):
            alone = all(s != source for s, _ in found) or all(t != target for _, t in found)
            if alone:
                found.add((source, target))
    return found


def to_pharaoh(alignment: Collection[Link]) -> str:
    """One line of Pharaoh's text, sorted.

    >>> to_pharaoh({(1, 2), (0, 0)})
    '0-0 1-2'
    """
    return " ".join(f"{source}-{target}" for source, target in sorted(set(alignment)))


def from_pharaoh(line: str, *, first: Literal[0, 1] = 0, swapped: bool = False) -> set[Link]:
    """The alignment of one line, whose numbers count from `first`; ours count from 0.

    `swapped` says that the line names the word of the target first.
    """
    links = set()
    for part in line.split():
        match = _LINK.fullmatch(part)
        if match is None:
            raise MetricError(
                f"an alignment is written as i-j pairs such as '0-0 1-2'; got {part[:40]!r} "
                f"in {line.strip()[:60]!r}"
            )
        source, target = int(match[1]) - first, int(match[2]) - first
        if min(source, target) < 0:
            raise MetricError(
                f"{part!r} has a 0, but the numbers were said to count from {first}; "
                f"in {line.strip()[:60]!r}"
            )
        links.add((target, source) if swapped else (source, target))
    return links


def word_spans(text: str) -> list[tuple[int, int]]:
    """Where each word stands, (start, end) in characters; words are what white space parts.

    >>> word_spans("the red  house")
    [(0, 3), (4, 7), (9, 14)]
    """
    return [word.span() for word in _WORD.finditer(text)]
