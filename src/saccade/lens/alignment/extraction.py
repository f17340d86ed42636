"""Word alignments: taken from attention weights, symmetrised, read and written in Pharaoh format.

An alignment is a set of links: 0-based pairs (source word, target word). In Pharaoh format each
sentence pair is one line such as `0-0 1-2`.
"""

import re
from collections.abc import Callable, Collection
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float

from saccade.errors import MetricError, ShapeError
from saccade.lens.alignment.align_by import Symmetrise

Link = tuple[int, int]

_WORD = re.compile(r"\S+")
_LINK = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")  # \d would match digits of every script
# (target, source) steps in Koehn's order, on which the result can depend
_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def strongest(
    weights: Float[np.ndarray, "target source"], *, threshold: float | None = None
) -> set[Link]:
    """Link each target word to the source word with the largest weight.

    Args:
        weights: attention of target words to source words.
        threshold: leave a target word unaligned if its largest weight is smaller than this.

    Returns:
        Links (source word, target word). The first of equal weights counts; a target word whose
        weights are all 0 stays unaligned.
    """
    if weights.ndim != 2:
        raise ShapeError(
            f"an alignment needs weights (target, source), got {weights.shape}; pass one matrix"
        )
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
    """Return the strongest links of both directions, both as pairs (source word, target word).

    The first set links each target word to its strongest source word, the second each source word
    to the target word that attends to it most.
    """
    backward = strongest(weights.T, threshold=threshold)
    return strongest(weights, threshold=threshold), {(s, t) for t, s in backward}


def symmetrise(
    forward: Collection[Link], backward: Collection[Link], method: Symmetrise = "grow-diag"
) -> set[Link]:
    """Join the alignments of both directions (Koehn, Och and Marcu 2003; Och and Ney 2003).

    Args:
        forward: links (source word, target word) of one direction.
        backward: links of the other direction, also as (source word, target word).
        method: `intersection` is precise, `union` complete. `grow-diag` starts from the
            intersection and adds links of the union that are neighbours, also diagonal ones, of a
            link it has and align a word that has no link yet. `grow-diag-final` then adds the
            remaining links that align such a word (Koehn et al. 2005).

    Raises:
        MetricError: if there is no such method.
    """
    if method not in get_args(Symmetrise):
        allowed = ", ".join(get_args(Symmetrise))
        raise MetricError(f"{method!r} does not symmetrise alignments; choose one of {allowed}")
    join: dict[str, Callable[[set[Link], set[Link]], set[Link]]] = {
        "intersection": set.intersection,
        "union": set.union,
        "grow-diag": _grow_diag,
        "grow-diag-final": _grow_diag_final,
    }
    return join[method](set(forward), set(backward))


def _grow_diag(forward: set[Link], backward: set[Link]) -> set[Link]:
    joined, union = forward & backward, forward | backward
    sources, targets = {s for s, _ in joined}, {t for _, t in joined}
    in_order = sorted(union, key=lambda link: (link[1], link[0]))
    grown = True
    while grown:
        grown = False
        for source, target in in_order:
            if (source, target) not in joined:
                continue
            for down, right in _NEIGHBOURS:
                link = (source + right, target + down)
                helps = link[0] not in sources or link[1] not in targets
                if helps and link in union and link not in joined:
                    joined.add(link)
                    sources.add(link[0])
                    targets.add(link[1])
                    grown = True
    return joined


def _grow_diag_final(forward: set[Link], backward: set[Link]) -> set[Link]:
    joined = _grow_diag(forward, backward)
    for links in (forward, backward):
        for source, target in sorted(links, key=lambda link: (link[1], link[0])):
            if all(s != source for s, _ in joined) or all(t != target for _, t in joined):
                joined.add((source, target))
    return joined


def to_pharaoh(alignment: Collection[Link]) -> str:
    """Return an alignment as one line in Pharaoh format, sorted.

    Example:
        >>> to_pharaoh({(1, 2), (0, 0)})
        '0-0 1-2'
    """
    return " ".join(f"{source}-{target}" for source, target in sorted(set(alignment)))


def from_pharaoh(line: str, *, first: Literal[0, 1] = 0, swapped: bool = False) -> set[Link]:
    """Return the alignment of one line in Pharaoh format, counted from 0.

    Args:
        line: pairs such as `0-0 1-2`, separated by white space.
        first: the number of the first word in this line, 0 or 1.
        swapped: whether the line names the target word first.

    Raises:
        MetricError: if the line holds anything but such pairs.
    """
    links = set()
    for part in line.split():
        match = _LINK.fullmatch(part)
        if match is None:
            raise MetricError(
                f"{part[:40]!r} is not a link such as '0-0', in {line.strip()[:60]!r}; write an "
                "alignment as i-j pairs with spaces between them"
            )
        source, target = int(match[1]) - first, int(match[2]) - first
        if min(source, target) < 0:
            raise MetricError(
                f"{part!r} has a 0, but words are counted from {first} here, in "
                f"{line.strip()[:60]!r}; read the file as one that counts from 0"
            )
        links.add((target, source) if swapped else (source, target))
    return links


def word_spans(text: str) -> list[tuple[int, int]]:
    """Return the (start, end) of each word in characters; words are separated by white space.

    Example:
        >>> word_spans("the red  house")
        [(0, 3), (4, 7), (9, 14)]
    """
    return [word.span() for word in _WORD.finditer(text)]
