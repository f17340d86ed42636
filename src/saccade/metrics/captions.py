"""Metrics of captions, each over several references.

    bleu_1 … bleu_4   corpus BLEU of n-grams up to this order, from 0 to 100  (Papineni et al. 2002)
    rouge_l           F-score of the longest common subsequence, a fraction             (Lin 2004)
    cider             CIDEr-D: agreement in rare n-grams, from 0 to 10       (Vedantam et al. 2015)
    pointing          fraction of object words that look at their object        (Zhang et al. 2016)

The first three compare lower-case words without punctuation, as is usual for captions; see
`caption_words`. BLEU is computed by sacreBLEU, but without smoothing and with the closest reference
length: it is 0 if no n-gram of some order matches. Resamples of CIDEr take the scores of the items,
which keep the document frequencies of all items.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from typing import NamedTuple
from unicodedata import category

import numpy as np
from jaxtyping import Float
from rapidfuzz.distance import LCSseq

from saccade.errors import MetricError
from saccade.metrics.score import Tally, require_items, scored, signature_of
from saccade.metrics.text import bleu_tally

ORDERS = (1, 2, 3, 4)
BETA = 1.2  # of ROUGE-L: above 1, recall counts more than precision
SIGMA = 6.0  # of CIDEr-D: tolerance of the length in words
_WORDS = "case:lc|tok:captions"
_JOINING = "-'.,:"
_ALIKE = {"’": "'", "‐": "-", "‑": "-"}
_LETTER = rf"[^\s{re.escape(_JOINING)}]"
_CLITIC = r"'(?:s|m|d|re|ve|ll)"
_WORD = re.compile(rf"(?<!\S){_CLITIC}(?!\S)|{_LETTER}+(?:(?:[-']|(?<=\d)[.,:](?=\d)){_LETTER}+)*")
_WITH_CLITIC = re.compile(rf"(.+)(n't|{_CLITIC})")
_Gram = tuple[str, ...]


def caption_words(text: str) -> list[str]:
    """Return the words of a text in lower case; punctuation and symbols only separate words.

    Hyphens and apostrophes inside a word stay in it, and so do . , : between digits (t-shirt,
    o'clock, 10:30). The English clitics n't 's 'm 'd 're 've 'll are words of their own. This
    follows the Penn Treebank tokenizer that captioning uses, except that symbols such as $ and &
    are dropped and abbreviations are not known (U.S. is two words).

    >>> caption_words("A man's T-shirt (red) isn't clean.")
    ['a', 'man', "'s", 't-shirt', 'red', 'is', "n't", 'clean']
    """
    words: list[str] = []
    for word in _WORD.findall(text.lower().translate(_PLAIN)):
        parts = _WITH_CLITIC.fullmatch(word)
        words += parts.groups() if parts else (word,)
    return words


class _Plain(dict[int, str]):
    """The replacement of each character before words are split, by its code point."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        separates = category(character)[0] in "PSZ" or category(character) == "Cc"
        kept = not separates or character in _JOINING
        self[code] = _ALIKE.get(character, character if kept else " ")
        return self[code]


_PLAIN = _Plain()


def _bleu_up_to(order: int) -> Callable[[Sequence[str], Sequence[Sequence[str]]], Tally]:
    def tally(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> Tally:
        """BLEU of n-grams up to one order, from 0 to 100, without smoothing.

        Args:
            predictions: One caption per item.
            references: One list of captions per item.
        """
        require_items(predictions, references)
        import sacrebleu

        def in_words(text: str) -> str:
            return " ".join(caption_words(text))

        counts = bleu_tally(
            [in_words(prediction) for prediction in predictions],
            [[in_words(reference) for reference in of_item] for of_item in references],
            tokenize="none",
        ).counts  # two lengths, then matches and n-grams of the prediction, of each order

        def value(sums: Float[np.ndarray, " numbers"]) -> float:
            length, reference_length, *numbers = sums.tolist()
            return sacrebleu.BLEU.compute_bleu(
                correct=numbers[:order],
                total=numbers[len(ORDERS) :][:order],
                sys_len=int(length),
                ref_len=int(reference_length),
                smooth_method="none",
                max_ngram_order=order,
            ).score

        options = f"{_WORDS}|ngram:{order}|eff:no|smooth:none|sacrebleu:{sacrebleu.__version__}"
        signature = signature_of(options, references)
        return Tally(name=f"bleu_{order}", counts=counts, value=value, signature=signature)

    tally.__name__ = f"bleu_{order}_tally"
    return tally


bleu_1_tally, bleu_2_tally, bleu_3_tally, bleu_4_tally = map(_bleu_up_to, ORDERS)


def rouge_l_tally(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> Tally:
    """ROUGE-L (Lin 2004): the F-score of each item with its best reference, a fraction.

        F = (1 + β²) P R / (R + β² P)        β = 1.2

    P and R are the length of the longest common subsequence over the number of words of the
    prediction and of the reference. The usual captioning program takes the best P and the best R
    of different references, which may give a slightly higher value.

    Args:
        predictions: One caption per item.
        references: One list of captions per item.
    """
    require_items(predictions, references)
    counts = []
    for prediction, of_item in zip(predictions, references, strict=True):
        words = caption_words(prediction)
        best = max(_f_of_common(words, caption_words(reference)) for reference in of_item)
        counts.append((best, 1.0))
    signature = signature_of(f"{_WORDS}|beta:{BETA}", references)
    return Tally(name="rouge_l", counts=np.array(counts), signature=signature)


def cider_tally(predictions: Sequence[str], references: Sequence[Sequence[str]]) -> Tally:
    """CIDEr-D (Vedantam et al. 2015), from 0 to 10.

    For n-grams ω of order n, their counts h, and |I| items,

        g_ω(s) = h_ω(s) · log(|I| / items with ω in a reference)
        CIDEr-D_n(c, S) = 10 · mean over s of exp(-(l(c) - l(s))² / 2σ²)
                             · min(g(c), g(s)) · g(s) / (‖g(c)‖ ‖g(s)‖)

    and CIDEr-D is the mean over n = 1 … 4, with σ = 6. As in the authors' program, counts are not
    divided by the length. N-grams in the references of every item have no weight: a single item
    scores 0, and so does an order of which a text has no n-grams.

    Args:
        predictions: One caption per item.
        references: One list of captions per item.
    """
    require_items(predictions, references)
    grams = [[_grams(caption_words(text)) for text in of_item] for of_item in references]
    items_with = Counter(gram for of_item in grams for gram in set(chain.from_iterable(of_item)))

    def rarity(gram: _Gram) -> float:
        return math.log(len(predictions) / max(1, items_with[gram]))

    counts = []
    for prediction, of_item in zip(predictions, grams, strict=True):
        weighted = _weighted(_grams(caption_words(prediction)), rarity)
        agreement = sum(_agreement(weighted, _weighted(one, rarity)) for one in of_item)
        counts.append((10 * agreement / len(of_item), 1.0))
    options = f"{_WORDS}|ngram:{len(ORDERS)}|sigma:{SIGMA:g}|df:corpus"
    signature = signature_of(options, references)
    return Tally(name="cider", counts=np.array(counts), signature=signature)


def pointing_tally(counts: Float[np.ndarray, "captions 2"]) -> Tally:
    """The pointing game (Zhang et al. 2016): the fraction of object words that hit their object.

    Args:
        counts: The hits and the object words of each caption, as `pointing_game` counts them.
    """
    if len(counts) == 0:
        raise MetricError("got 0 captions; a metric needs at least one item")
    return Tally(name="pointing", counts=counts, signature=signature_of("strongest cell"))


bleu_1 = scored(bleu_1_tally)
bleu_2 = scored(bleu_2_tally)
bleu_3 = scored(bleu_3_tally)
bleu_4 = scored(bleu_4_tally)
rouge_l = scored(rouge_l_tally)
cider = scored(cider_tally)
pointing = scored(pointing_tally)


def _f_of_common(prediction: list[str], reference: list[str]) -> float:
    common = LCSseq.similarity(prediction, reference)
    if common == 0:
        return 0.0
    precision, recall = common / len(prediction), common / len(reference)
    return (1 + BETA**2) * precision * recall / (recall + BETA**2 * precision)


class _Weighted(NamedTuple):
    """The weights of a text's n-grams and their norm, by order, and its number of words."""

    weights: list[dict[_Gram, float]]
    norms: list[float]
    length: int


def _grams(words: list[str]) -> Counter[_Gram]:
    return Counter(
        tuple(words[i : i + order]) for order in ORDERS for i in range(len(words) - order + 1)
    )


def _weighted(grams: Counter[_Gram], rarity: Callable[[_Gram], float]) -> _Weighted:
    weights: list[dict[_Gram, float]] = [{} for _ in ORDERS]
    length = 0
    for gram, count in grams.items():
        weights[len(gram) - 1][gram] = count * rarity(gram)
        length += count * (len(gram) == 1)
    norms = [math.sqrt(sum(weight**2 for weight in of_order.values())) for of_order in weights]
    return _Weighted(weights, norms, length)


def _agreement(prediction: _Weighted, reference: _Weighted) -> float:
    """Return the mean similarity over the orders, from 0 to 1."""
    total = 0.0
    for order in range(len(ORDERS)):
        norm = prediction.norms[order] * reference.norms[order]
        theirs = reference.weights[order]
        if norm:
            shared = (
                min(weight, theirs[gram]) * theirs[gram]
                for gram, weight in prediction.weights[order].items()
                if gram in theirs
            )
            total += sum(shared) / norm
    return (
        total
        / len(ORDERS)
        * math.exp(-((prediction.length - reference.length) ** 2) / 2 / SIGMA**2)
    )
