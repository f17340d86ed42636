"""BLEU, chrF and TER, by the sacreBLEU library and with its signature (Post 2018).

    bleu   n-gram precision with a brevity penalty                      (Papineni et al. 2002)
    chrf   F-score of character n-grams                                 (Popović 2015)
    ter    edits, shifts of phrases among them, per word of reference   (Snover et al. 2006)

All from 0 to 100 (TER may exceed it, and less is better). Items may have different numbers of
references: sacreBLEU takes references in streams, where None stands for "this item has no more".
An empty text instead would count as one more reference, an empty one.
"""

from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from jaxtyping import Float

from saccade.errors import MetricError
from saccade.metrics.score import Tally, require_items, scored

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

# those of sacreBLEU's tokenizers that need neither a download nor another package
Tokenize = Literal["13a", "intl", "char", "zh", "none"]


def bleu_tally(
    answers: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    tokenize: Tokenize = "13a",
    lowercase: bool = False,
) -> Tally:
    """Lengths and n-gram matches of each item.

    `tokenize="none"` is for texts that are tokenised already.
    """
    if tokenize not in get_args(Tokenize):
        allowed = ", ".join(get_args(Tokenize))
        raise MetricError(f"tokenize must be one of {allowed}; got {tokenize!r}")
    from sacrebleu.metrics.bleu import BLEU

    # force: texts said to be tokenised need no warning that they look so
    metric = BLEU(tokenize=tokenize, lowercase=lowercase, force=tokenize == "none")
    return _tally("bleu", metric, answers, references)


def chrf_tally(
    answers: Sequence[str], references: Sequence[Sequence[str]], *, lowercase: bool = False
) -> Tally:
    """Character n-gram matches of each item with its best reference."""
    from sacrebleu.metrics.chrf import CHRF

    return _tally("chrf", CHRF(lowercase=lowercase), answers, references)


def ter_tally(
    answers: Sequence[str], references: Sequence[Sequence[str]], *, case_sensitive: bool = False
) -> Tally:
    """Edits to the closest reference and the mean reference length of each item."""
    from sacrebleu.metrics.ter import TER

    metric = TER(case_sensitive=case_sensitive)
    return _tally("ter", metric, answers, references, higher_is_better=False)


bleu = scored(bleu_tally)
chrf = scored(chrf_tally)
ter = scored(ter_tally)


def _tally(
    name: str,
    metric: "Metric",
    answers: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    higher_is_better: bool = True,
) -> Tally:
    """The only place that uses sacreBLEU's inner methods; a test holds it to the outer ones."""
    require_items(answers, references)
    streams = list(zip_longest(*references))  # filled up with None
    counts = np.array(
        metric._extract_corpus_statistics(list(answers), streams), dtype=np.float64
    ).reshape(len(answers), -1)

    def value(sums: Float[np.ndarray, " numbers"]) -> float:
        return float(metric._compute_score_from_stats(sums.tolist()).score)

    def signature(samples: int, seed: int) -> str:
        options = dict(metric.__dict__)
        if samples:
            options |= {"n_bootstrap": samples, "seed": seed}
        return metric._SIGNATURE_TYPE(options).format()

    return Tally(
        name=name,
        counts=counts,
        value=value,
        signature=signature,
        higher_is_better=higher_is_better,
    )
