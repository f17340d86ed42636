"""N-gram models of token ids, with interpolated Kneser-Ney smoothing (Chen & Goodman 1999).

    p_k(w | h) = max(c(hw) - D, 0) / Σ_v c(hv) + D · N(h) / Σ_v c(hv) · p_{k-1}(w | h')

c are counts of the training text for the highest order, and for lower orders the numbers of
different tokens that precede an n-gram; N(h) is the number of different tokens that follow h; h' is
h without its first token; p_0 is uniform over the vocabulary. So the probabilities of all tokens of
the vocabulary sum to 1 after any context.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _Order:
    """The n-grams of one length.

    keys       number of the context · size of the vocabulary + last token, sorted
    counts     c of each n-gram
    totals     Σ_v c(hv) of each context h
    kinds      N(h) of each context h
    discount   D
    """

    keys: Integers
    counts: Floats
    totals: Floats
    kinds: Floats
    discount: float

    def find(self, keys: Integers) -> Integers:
        """Return the numbers of n-grams by their keys; -1 where there is none."""
        places = np.searchsorted(self.keys, keys).clip(max=len(self.keys) - 1)
        return np.where(self.keys[places] == keys, places, -1)


class NgramModel:
    """The probability of each token after the tokens before it.

    Args:
        tokens: The training text, as at least one token id.
        vocabulary: The size of the vocabulary.
        order: The length of the longest n-grams.
    """

    def __init__(self, tokens: Sequence[int] | Integers, vocabulary: int, order: int) -> None:
        text = np.asarray(tokens, dtype=np.int64)
        self.vocabulary = vocabulary
        # numbers[k][i]: the number of the k-gram that ends at the token i (from its k-th token on)
        numbers = [np.zeros(len(text), dtype=np.int64)]
        tables = []
        for length in range(1, min(order, len(text)) + 1):
            contexts = numbers[-1][length - 1 :] if length == 1 else numbers[-1][:-1]
            keys = contexts * vocabulary + text[length - 1 :]
            unique, first, inverse, times = np.unique(
                keys, return_index=True, return_inverse=True, return_counts=True
            )
            numbers.append(inverse.astype(np.int64))
            tables.append((unique, first, times))
        self.orders: list[_Order] = []
        for length, (unique, _, times) in enumerate(tables, 1):
            counts = times
            if length < len(tables):  # of how many longer n-grams it is the end
                longer = tables[length][1]
                counts = np.bincount(numbers[length][longer + 1], minlength=len(unique))
            contexts, size = unique // vocabulary, 1 if length == 1 else len(tables[length - 2][0])
            self.orders.append(
                _Order(
                    keys=unique,
                    counts=counts.astype(np.float64),
                    totals=np.bincount(contexts, counts, size).astype(np.float64),
                    kinds=np.bincount(contexts[counts > 0], minlength=size).astype(np.float64),
                    discount=_discount(counts),
                )
            )

    def probabilities(self, tokens: Sequence[int] | Integers) -> Floats:
        """Return the probability of each token of a text, given those before it."""
        text = np.asarray(tokens, dtype=np.int64)
        p = np.full(len(text), 1 / self.vocabulary)
        contexts = np.zeros(len(text), dtype=np.int64)
        for table in self.orders:
            known = (contexts >= 0) & (table.totals[contexts] > 0)
            numbers = np.where(known, table.find(contexts * self.vocabulary + text), -1)
            counts = np.where(numbers >= 0, table.counts[numbers], 0.0)
            of, discount = contexts[known], table.discount
            own = np.maximum(counts[known] - discount, 0.0)
            p[known] = (own + discount * table.kinds[of] * p[known]) / table.totals[of]
            contexts = np.concatenate(([-1], numbers[:-1]))[: len(text)]
        return p

    def following(self, token: int | None) -> Floats:
        """Return the probability of every token after a token, or without any before it."""
        p = np.full(self.vocabulary, 1 / self.vocabulary)
        context = 0
        for table in self.orders[: 1 if token is None else 2]:
            if context < 0 or not table.totals[context]:
                break
            low, high = np.searchsorted(
                table.keys, (context * self.vocabulary, (context + 1) * self.vocabulary)
            )
            p *= table.discount * table.kinds[context] / table.totals[context]
            own = np.maximum(table.counts[low:high] - table.discount, 0.0)
            p[table.keys[low:high] - context * self.vocabulary] += own / table.totals[context]
            if token is not None:
                context = int(table.find(np.array([token]))[0])
        return p


def _discount(counts: npt.NDArray[np.integer]) -> float:
    """Return D = n1 / (n1 + 2 n2), where n1 and n2 n-grams have the count 1 and 2."""
    once, twice = int((counts == 1).sum()), int((counts == 2).sum())
    return float(np.clip(once / (once + 2 * twice), 0.1, 0.9)) if once else 0.5
