"""Metrics of captions, each over several references.

    bleu_1 … bleu_4   corpus BLEU of n-grams up to this order, from 0 to 100  (Papineni et al. 2002)
    rouge_l           F of the longest common subsequence, a fraction                    (Lin 2004)
    cider             CIDEr-D: agreement in what is rare, from 0 to 10       (Vedantam et al. 2015)
    pointing          object words that look at their object, a fraction     (Zhang et al. 2016)

The first three compare words in small letters without punctuation, as captioning does; see
`caption_words`. BLEU counts with sacreBLEU, but without smoothing and with the closest reference
length: where no n-gram of an order matches, the score is 0. A resample of CIDEr draws among the
scores of the items, which keep the document frequencies of the whole set.
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
from saccade.metrics.score import Tally, ratio, require_items, scored, signature_of
from saccade.metrics.text import bleu_tally

ORDERS = (1, 2, 3, 4)
BETA = 1.2  # of ROUGE-L: above 1, recall counts for more
SIGMA = 6.0  # of CIDEr-D: the words by which an answer may be too long or too short
_WORDS = "case:lc|tok:captions"
_JOINING = "-'.,:"
_ALIKE = {"’": "'", "‐": "-", "‑": "-"}
_LETTER = rf"[^\s{re.escape(_JOINING)}]"
_CLITIC = r"'(?:s|m|d|re|ve|ll)"
_WORD = re.compile(rf"(?<!\S){_CLITIC}(?!\S)|{_LETTER}+(?:(?:[-']|(?<=\d)[.,:](?=\d)){_LETTER}+)*")
_WITH_CLITIC = re.compile(rf"(.+)(n't|{_CLITIC})")
_Gram = tuple[str, ...]


def caption_words(text: str) -> list[str]:
    """The words of a text in small letters; whatever is punctuation or a symbol only parts them.

    Hyphens and apostrophes inside a word stay in it, and . , : between digits (t-shirt, o'clock,
    10:30). The English endings n't 's 'm 'd 're 've 'll are words of their own. So does the Penn
    Treebank's tokenizer that captioning uses; unlike it, this drops symbols such as $ and &, and
    knows no abbreviations (U.S. is two words).

    >>> caption_words("A man's T-shirt (red) isn't clean.")
    ['a', 'man', "'s", 't-shirt', 'red', 'is', "n't", 'clean']
    """
    found: list[str] = []
    for word in _WORD.findall(text.lower().translate(_PLAIN)):
        parts = _WITH_CLITIC.fullmatch(word)
        found += parts.groups() if parts else (word,)
    return found


class _Plain(dict[int, str]):
    """What a character becomes before words are looked for, by its code point."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        parts = category(character)[0] in "PSZ" or category(character) == "Cc"
        kept = not parts or character in _JOINING
        self[code] = _ALIKE.get(character, character if kept else " ")
        return self[code]


_PLAIN = _Plain()


def _bleu_up_to(order: int) -> Callable[[Sequence[str], Sequence[Sequence[str]]], Tally]:
    def tally(answers: Sequence[str], references: Sequence[Sequence[str]]) -> Tally:
        """Lengths and n-gram matches of each item, up to one order."""
        require_items(answers, references)
        import sacrebleu

        def in_words(text: str) -> str:
            return " ".join(caption_words(text))

        counted = bleu_tally(
            [in_words(answer) for answer in answers],
            [[in_words(reference) for reference in of_item] for of_item in references],
            tokenize="none",
        ).counts  # two lengths, then matches and n-grams of the answer, of each order

        def value(sums: Float[np.ndarray, " numbers"]) -> float:
            answered, wanted, *numbers = sums.tolist()
            return sacrebleu.BLEU.compute_bleu(
                correct=numbers[:order],
                total=numbers[len(ORDERS) :][:order],
                sys_len=int(answered),
                ref_len=int(wanted),
                smooth_method="none",
                max_ngram_order=order,
            ).score

        options = f"{_WORDS}|ngram:{order}|eff:no|smooth:none|sacrebleu:{sacrebleu.__version__}"
        return _tally(f"bleu_{order}", counted, value, options, references)

    tally.__name__ = f"bleu_{order}_tally"
    return tally


bleu_1_tally, bleu_2_tally, bleu_3_tally, bleu_4_tally = map(_bleu_up_to, ORDERS)


def rouge_l_tally(answers: Sequence[str], references: Sequence[Sequence[str]]) -> Tally:
    """F of each item with its best reference: (1 + β²) P R / (R + β² P), β = 1.2.

    P and R are the length of the longest common subsequence over the words of the answer and of
    the reference. The usual captioning program takes the best P and the best R of different
    references, which may give a little more than any one reference does.
    """
    require_items(answers, references)
    counts = []
    for answer, of_item in zip(answers, references, strict=True):
        given = caption_words(answer)
        best = max(_f_of_common(given, caption_words(reference)) for reference in of_item)
        counts.append((best, 1.0))
    return _tally("rouge_l", np.array(counts), ratio, f"{_WORDS}|beta:{BETA}", references)


def cider_tally(answers: Sequence[str], references: Sequence[Sequence[str]]) -> Tally:
    """CIDEr-D of each item: 10 for an answer that is all of its references.

    For n-grams ω of order n, h their counts and |I| items,

        g_ω(s) = h_ω(s) · log(|I| / items with ω in a reference)
        CIDEr-D_n(c, S) = 10 · mean over s of exp(-(l(c) - l(s))² / 2σ²)
                             · min(g(c), g(s)) · g(s) / (‖g(c)‖ ‖g(s)‖)

    and CIDEr-D is the mean over n = 1 … 4, σ = 6. As in the authors' program, counts are not
    divided by the length. What stands in the references of every item weighs nothing: a single
    item has 0, and so has an order of which a text has no n-grams.
    """
    require_items(answers, references)
    wanted = [[_grams(caption_words(one)) for one in of_item] for of_item in references]
    items_with = Counter(gram for of_item in wanted for gram in set(chain.from_iterable(of_item)))

    def rarity(gram: _Gram) -> float:
        return math.log(len(answers) / max(1, items_with[gram]))

    counts = []
    for answer, of_item in zip(answers, wanted, strict=True):
        given = _weighed(_grams(caption_words(answer)), rarity)
        agreed = sum(_agreement(given, _weighed(one, rarity)) for one in of_item)
        counts.append((10 * agreed / len(of_item), 1.0))
    options = f"{_WORDS}|ngram:{len(ORDERS)}|sigma:{SIGMA:g}|df:corpus"
    return _tally("cider", np.array(counts), ratio, options, references)


def pointing_tally(counts: Float[np.ndarray, "captions 2"]) -> Tally:
    """Tally the (hits, object words) of each caption that `pointing_game` counts."""
    if len(counts) == 0:
        raise MetricError("no metric can be computed from no items; got 0 captions")
    return Tally(
        name="pointing",
        counts=counts,
        value=ratio,
        signature=signature_of("strongest cell"),
        higher_is_better=True,
    )


bleu_1 = scored(bleu_1_tally)
bleu_2 = scored(bleu_2_tally)
bleu_3 = scored(bleu_3_tally)
bleu_4 = scored(bleu_4_tally)
rouge_l = scored(rouge_l_tally)
cider = scored(cider_tally)
pointing = scored(pointing_tally)


def _f_of_common(answer: list[str], reference: list[str]) -> float:
    common = LCSseq.similarity(answer, reference)
    if common == 0:
        return 0.0
    precision, recall = common / len(answer), common / len(reference)
    return (1 + BETA**2) * precision * recall / (recall + BETA**2 * precision)


class _Weighed(NamedTuple):
    """The n-grams of a text with their weights, the norm of each order, and how many words."""

    weights: list[dict[_Gram, float]]
    norms: list[float]
    length: int


def _grams(words: list[str]) -> Counter[_Gram]:
    return Counter(
        tuple(words[i : i + order]) for order in ORDERS for i in range(len(words) - order + 1)
    )


def _weighed(grams: Counter[_Gram], rarity: Callable[[_Gram], float]) -> _Weighed:
    weights: list[dict[_Gram, float]] = [{} for _ in ORDERS]
    length = 0
    for gram, count in grams.items():
        weights[len(gram) - 1][gram] = count * rarity(gram)
        length += count * (len(gram) == 1)
    norms = [math.sqrt(sum(weight**2 for weight in each.values())) for each in weights]
    return _Weighed(weights, norms, length)


def _agreement(answer: _Weighed, reference: _Weighed) -> float:
    """From 0 to 1, the mean over the orders."""
    total = 0.0
    for order in range(len(ORDERS)):
        norm = answer.norms[order] * reference.norms[order]
        theirs = reference.weights[order]
        if norm:
            shared = (
                min(weight, theirs[gram]) * theirs[gram]
                for gram, weight in answer.weights[order].items()
                if gram in theirs
            )
            total += sum(shared) / norm
    return total / len(ORDERS) * math.exp(-((answer.length - reference.length) ** 2) / 2 / SIGMA**2)


def _tally(
    name: str,
    counts: Float[np.ndarray, "items numbers"],
    value: Callable[[Float[np.ndarray, " numbers"]], float],
    options: str,
    references: Sequence[Sequence[str]],
) -> Tally:
    numbers = {len(of_item) for of_item in references}
    return Tally(
        name=name,
        counts=counts,
        value=value,
        signature=signature_of(options, numbers.pop() if len(numbers) == 1 else "var"),
        higher_is_better=True,
    )
