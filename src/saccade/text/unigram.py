"""The pieces of a unigram vocabulary and their log-probabilities, by EM and pruning (Kudo 2018).

A word w is a sequence of pieces x ("Subword Regularization") with

    P(w) = Σ over x of Π p(xᵢ),        p maximised by EM over the words and their counts

Starting from every frequent substring, each round drops a fraction of the pieces, those with the
smallest loss, until few enough are left. The loss of a piece is the log-probability that the corpus
would lose if the piece had to be spelled with others. Single characters are kept to the end, so
every word can always be spelled.

The tokenizers library also has a trainer for this, but its sums and ties follow the order of a hash
map, so that no two runs give the same file. Here every order is fixed: words and pieces are sorted,
and each step runs over all words at once in numpy.
"""

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_LONGEST = 16  # characters of a piece
_CUT = 64  # longer words are learned from in parts of this length
_SEEDS = 20  # candidates per piece of the vocabulary, before pruning
_KEPT = 0.75  # fraction of the pieces that a round keeps
_MORE = 1.1  # pruning ends at this multiple of the size; the rest is dropped by probability
_ROUNDS = 2  # EM steps between two prunings


def unigram_pieces(
    counts: Mapping[str, int], size: int, *, min_count: int = 2
) -> list[tuple[str, float]]:
    """Return the best pieces of words, with log-probabilities, best first.

    Args:
        counts: Words and how often each occurs.
        size: Largest number of pieces.
        min_count: Longer pieces must occur this often.
    """
    words = _parts(counts)
    weights = np.array([words[word] for word in sorted(words)], dtype=np.float64)
    pieces = _seeds(words, _SEEDS * size, min_count)
    single = np.array([len(piece) == 1 for piece in pieces])
    alive = np.ones(len(pieces), dtype=bool)
    corpus = _Lattices(sorted(words), {piece: i for i, piece in enumerate(pieces)})
    scores = np.log(np.maximum(corpus.uses(weights), 1.0) / weights.sum())
    target = max(int(_MORE * size), int(single.sum()))
    while True:
        for _ in range(_ROUNDS):
            expected = corpus.expected(scores, weights)
            rest = np.flatnonzero(alive & ~single)
            unused = min(int((expected[rest] < 0.5).sum()), max(0, int(alive.sum()) - target))
            alive[_least(expected[rest], rest, unused)] = False
            corpus.keep(alive)
            scores = _log_probabilities(expected, alive)
        excess = int(alive.sum()) - max(target, int(_KEPT * alive.sum()))
        if excess <= 0:
            break
        rest = np.flatnonzero(alive & ~single)
        others = {pieces[i]: int(i) for i in np.flatnonzero(alive)}
        spelled = _Lattices([pieces[i] for i in rest], others, allow_itself=False)
        loss = expected[rest] * (scores[rest] - spelled.log_probability(scores))
        alive[_least(loss, rest, excess)] = False
        corpus.keep(alive)
        scores = _log_probabilities(expected, alive)

    best = [(piece, round(float(scores[i]), 6)) for i, piece in enumerate(pieces) if alive[i]]
    best.sort(key=lambda entry: (-entry[1], entry[0]))
    return _cut_to(best, size)


def _cut_to(best: list[tuple[str, float]], size: int) -> list[tuple[str, float]]:
    """Return the first `size`, characters before longer pieces, so that bytes are rarely needed."""
    ranked = sorted(best, key=lambda entry: len(entry[0]) > 1)
    kept = {piece for piece, _ in ranked[:size]}
    return [entry for entry in best if entry[0] in kept]


def _least(values: Floats, of: Ints, count: int) -> Ints:
    """Return the `count` items of `of` with the smallest values, rounded so that ties stay ties."""
    return of[np.argsort(np.round(values, 6), kind="stable")[:count]]


def _parts(counts: Mapping[str, int]) -> Counter[str]:
    parts: Counter[str] = Counter()
    for word, count in counts.items():
        for start in range(0, len(word), _CUT):
            parts[word[start : start + _CUT]] += count
    return parts


def _seeds(words: Mapping[str, int], most: int, min_count: int) -> list[str]:
    """Return all characters and the longer substrings that cover the most text, sorted."""
    characters: set[str] = set().union(*words)
    covered: dict[str, int] = {}
    frequent = characters
    for length in range(2, _LONGEST + 1):
        level: Counter[str] = Counter()
        for word, count in words.items():
            for start in range(len(word) - length + 1):
                # a frequent string begins with a frequent one
                if word[start : start + length - 1] in frequent:
                    level[word[start : start + length]] += count
        frequent = {piece for piece, count in level.items() if count >= min_count}
        if not frequent:
            break
        covered.update((piece, level[piece] * length) for piece in frequent)
    best = sorted(covered, key=lambda piece: (-covered[piece], piece))[:most]
    return sorted({*characters, *best})


def _log_probabilities(expected: Floats, alive: NDArray[np.bool_]) -> Floats:
    """Return log p of each piece as the mean under a Dirichlet prior (digamma instead of log)."""
    counts = np.maximum(expected, 0.5)  # characters stay, however rarely they are used alone
    log_p: Floats = _digamma(counts) - _digamma(np.array([counts[alive].sum()]))
    return log_p


def _digamma(x: Floats) -> Floats:
    shift: Floats = np.zeros_like(x)
    for _ in range(6):  # ψ(x) = ψ(x + 1) - 1/x, then the series for large x
        shift -= 1 / x
        x = x + 1
    return shift + np.log(x) - 1 / (2 * x) - 1 / (12 * x**2) + 1 / (120 * x**4)


class _Lattices:
    """Every way to spell many words with the pieces, as a graph whose edges are pieces.

    The nodes are the places between characters, word after word. Edges that end at the same place
    of their words are processed together, from left to right or from right to left.
    """

    def __init__(
        self, words: Sequence[str], number: Mapping[str, int], *, allow_itself: bool = True
    ) -> None:
        """Build the graph; `number` maps pieces to numbers.

        Unless `allow_itself`, a word is not spelled with a piece equal to the word itself.
        """
        edges = array("q")
        node = 0
        for word in words:
            length = len(word)
            for start in range(length):
                for end in range(start + 1, min(start + _LONGEST, length) + 1):
                    piece = number.get(word[start:end])
                    if piece is not None and (allow_itself or end - start < length):
                        edges.extend((node + start, node + end, piece, start, end))
            node += length + 1
        table = np.frombuffer(edges, dtype=np.int64).reshape(-1, 5)
        self.pieces = max(number.values()) + 1
        self.last: Ints = np.cumsum([len(word) + 1 for word in words]) - 1
        self.first: Ints = self.last - np.array([len(word) for word in words])
        self.nodes = node
        self._arrange(table)

    def _arrange(self, table: Ints) -> None:
        self.table = table
        begin, finish, _, start, end = table.T
        self.forward = _Sweep(np.lexsort((finish, end)), finish, end)
        self.backward = _Sweep(np.lexsort((begin, start)), begin, start)

    def keep(self, alive: NDArray[np.bool_]) -> None:
        """Drop the edges of pieces that are no longer alive."""
        kept = alive[self.table[:, 2]]
        if not kept.all():
            self._arrange(self.table[kept])

    def uses(self, weights: Floats) -> Floats:
        """Return how often each piece occurs in the words."""
        word = np.searchsorted(self.last, self.table[:, 0])
        counts: Floats = np.bincount(self.table[:, 2], weights[word], self.pieces).astype(float)
        return counts

    def log_probability(self, scores: Floats) -> Floats:
        """Return log P of each word, summed over all ways to spell it."""
        total: Floats = self._alpha(scores)[self.last]
        return total

    def expected(self, scores: Floats, weights: Floats) -> Floats:
        """Return the expected number of uses of each piece, by the posterior of the spellings."""
        begin, finish, piece = self.table[:, 0], self.table[:, 1], self.table[:, 2]
        alpha = self._alpha(scores)
        beta = np.full(self.nodes, -np.inf)
        beta[self.last] = 0.0
        self.backward.run(beta, finish, scores[piece], reverse=True)
        word = np.searchsorted(self.last, begin)
        posterior = np.exp(alpha[begin] + scores[piece] + beta[finish] - alpha[self.last][word])
        used: Floats = np.bincount(piece, posterior * weights[word], self.pieces).astype(float)
        return used

    def _alpha(self, scores: Floats) -> Floats:
        alpha = np.full(self.nodes, -np.inf)
        alpha[self.first] = 0.0
        self.forward.run(alpha, self.table[:, 0], scores[self.table[:, 2]], reverse=False)
        return alpha


class _Sweep:
    """The edges in the order of one direction: by place, then by the node they reach."""

    def __init__(self, order: Ints, node: Ints, place: Ints) -> None:
        self.order = order
        nodes, places = node[order], place[order]
        self.groups = np.flatnonzero(np.diff(nodes, prepend=-1))  # edges that share a node
        self.node = nodes[self.groups]
        self.levels = np.flatnonzero(np.diff(places[self.groups], prepend=-1))

    def run(self, total: Floats, other: Ints, scores: Floats, *, reverse: bool) -> None:
        """Set total[node] = log Σ exp(total[other end] + score) over the edges of each node."""
        bounds = [*self.levels.tolist(), len(self.groups)]
        edges = [*self.groups.tolist(), len(self.order)]
        levels = list(pairwise(bounds))
        for low, high in reversed(levels) if reverse else levels:
            start, stop = edges[low], edges[high]
            order = self.order[start:stop]
            values = total[other[order]] + scores[order]
            groups = self.groups[low:high] - start
            top = np.maximum.reduceat(values, groups)
            sizes = np.diff(groups, append=stop - start)
            total[self.node[low:high]] = top + np.log(
                np.add.reduceat(np.exp(values - np.repeat(top, sizes)), groups)
            )
