"""Bracket F1 of constituency trees written as text.

    (S (NP (D the) (N dog)) (VP (V sleeps)))

A bracket is a label and the words it covers: S 0 to 3, NP 0 to 2 and VP 2 to 3 here. The brackets
of both trees are compared (PARSEVAL, Black et al. 1991) by the rules of EVALB: a bracket around a
single word, such as (N dog), is a part of speech and does not count, and neither does a bracket
without a label or named TOP or ROOT. Punctuation counts as words.

    F1 = 2 · matching brackets / (predicted brackets + reference brackets)
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from saccade.errors import MetricError
from saccade.metrics.score import Tally, require_items, scored, signature_of

_TOKEN = re.compile(r"[()]|[^\s()]+")
_OUTSIDE = frozenset(("", "TOP", "ROOT"))
"""Labels of brackets that do not count, because they enclose a complete tree."""


class Bracket(NamedTuple):
    """A label, and the words it covers: from `start` up to, not including, `end`."""

    label: str
    start: int
    end: int


class Brackets(NamedTuple):
    """The words of a tree, and the counts of its brackets."""

    words: tuple[str, ...]
    brackets: Counter[Bracket]


def bracket_f1_tally(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> Tally:
    """The F1 of labelled brackets, 0 to 1, over the brackets of all items.

    A prediction that is not a tree has no brackets. A tree over words that differ from those of the
    reference has no matching bracket. Where an item has several references, the closest counts.

    Args:
        predictions: One tree per item, as text.
        references: One list of trees per item.

    Raises:
        MetricError: A reference is not a tree.
    """
    require_items(predictions, references)
    counts = []
    for item, (prediction, of_item) in enumerate(zip(predictions, references, strict=True)):
        predicted = parse_tree(prediction)
        trees = [_reference(text, item) for text in of_item]
        pairs = [_compare(predicted, tree) for tree in trees]
        counts.append(max(pairs, key=lambda pair: (pair[0] / max(pair[1], 1), pair)))
    signature = signature_of("brackets:labelled", references)
    return Tally(name="bracket_f1", counts=np.array(counts, dtype=np.float64), signature=signature)


bracket_f1 = scored(bracket_f1_tally)


def parse_tree(text: str) -> Brackets | None:
    """Return the words and the brackets of a tree; None if the text is not one complete tree.

    >>> parse_tree("(S (NP (D the) (N dog)) (VP (V sleeps)))").words
    ('the', 'dog', 'sleeps')
    """
    words: list[str] = []
    count: Counter[Bracket] = Counter()
    ancestors: list[_Open] = []
    tokens = _TOKEN.findall(text)
    for place, token in enumerate(tokens):
        if place and not ancestors:
            return None  # text after the tree
        if token == "(":
            if ancestors:
                ancestors[-1].nodes += 1
            ancestors.append(_Open(len(words)))
        elif not ancestors:
            return None  # the first token is not a bracket
        elif token == ")":
            closed = ancestors.pop()
            if not closed.nodes and not closed.words:
                return None  # a bracket around nothing
            if (closed.nodes or closed.words > 1) and closed.label not in _OUTSIDE:
                count[Bracket(closed.label, closed.start, len(words))] += 1
        elif tokens[place - 1] == "(":
            ancestors[-1].label = token
        else:
            ancestors[-1].words += 1
            words.append(token)
    return Brackets(tuple(words), count) if tokens and not ancestors else None


@dataclass
class _Open:
    """A bracket that is not closed yet: its first word, its label, and its children."""

    start: int
    label: str = ""
    words: int = 0
    nodes: int = 0


def _reference(text: str, item: int) -> Brackets:
    tree = parse_tree(text)
    if tree is None:
        raise MetricError(
            f"the reference of item {item} is not a tree: {text[:60]!r}. bracket_f1 needs one tree "
            "per text, such as (S (NP (D the) (N dog)) (VP (V sleeps))); correct the data, or "
            "choose other metrics.names"
        )
    return tree


def _compare(predicted: Brackets | None, right: Brackets) -> tuple[int, int]:
    """Return twice the number of brackets in both trees, and the number of brackets of each."""
    if predicted is None:
        return 0, right.brackets.total()
    same = (
        predicted.brackets & right.brackets
        if predicted.words == right.words
        else Counter[Bracket]()
    )
    return 2 * same.total(), predicted.brackets.total() + right.brackets.total()
