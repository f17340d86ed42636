"""BLEU, chrF and TER, computed by the sacreBLEU library and with its signature (Post 2018).

    bleu   n-gram precision with a brevity penalty                         (Papineni et al. 2002)
    chrf   F-score of character n-grams                                    (Popović 2015)
    ter    edits, including shifts of phrases, per word of the reference   (Snover et al. 2006)

All are from 0 to 100, except that TER may exceed 100; for TER less is better. Items may have
different numbers of references.
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

# the tokenizers of sacreBLEU that need neither a download nor another package
Tokenize = Literal["13a", "intl", "char", "zh", "none"]


def bleu_tally(
    predictions: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    tokenize: Tokenize = "13a",
    lowercase: bool = False,
) -> Tally:
    """BLEU (Papineni et al. 2002), from 0 to 100.

        BLEU = 100 · min(1, exp(1 - r/c)) · (p_1 p_2 p_3 p_4)^(1/4)

    with p_n the fraction of the predictions' n-grams that are in a reference, c the length of the
    predictions and r that of the closest references.

    Args:
        predictions: One text per item.
        references: One list of texts per item.
        tokenize: The tokenizer of sacreBLEU; `none` for texts that are tokenised already.
        lowercase: Whether to ignore case.
    """
    if tokenize not in get_args(Tokenize):
        allowed = ", ".join(get_args(Tokenize))
        raise MetricError(f"tokenize must be one of {allowed}; got {tokenize!r}")
    from sacrebleu.metrics.bleu import BLEU

    # force: sacreBLEU prints no warning about tokenised texts; `TextMetricsConfig.remarks` has one
    metric = BLEU(tokenize=tokenize, lowercase=lowercase, force=True)
    return _tally("bleu", metric, predictions, references)


def chrf_tally(
    predictions: Sequence[str], references: Sequence[Sequence[str]], *, lowercase: bool = False
) -> Tally:
    """The chrF score (Popović 2015), from 0 to 100.

        chrF = 100 · (1 + β²) P R / (β² P + R)        β = 2

    with P and R the mean precision and recall of character n-grams of 1 to 6 characters. Each item
    counts with its best reference.

    Args:
        predictions: One text per item.
        references: One list of texts per item.
        lowercase: Whether to ignore case.
    """
    from sacrebleu.metrics.chrf import CHRF

    return _tally("chrf", CHRF(lowercase=lowercase), predictions, references)


def ter_tally(
    predictions: Sequence[str], references: Sequence[Sequence[str]], *, case_sensitive: bool = False
) -> Tally:
    """Translation edit rate (Snover et al. 2006): 100 · edits / mean length of the references.

    Edits are insertions, deletions, replacements and shifts of words to the closest reference.

    Args:
        predictions: One text per item.
        references: One list of texts per item.
        case_sensitive: Whether case matters.
    """
    from sacrebleu.metrics.ter import TER

    metric = TER(case_sensitive=case_sensitive)
    return _tally("ter", metric, predictions, references, higher_is_better=False)


bleu = scored(bleu_tally)
chrf = scored(chrf_tally)
ter = scored(ter_tally)


def _tally(
    name: str,
    metric: "Metric",
    predictions: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    higher_is_better: bool = True,
) -> Tally:
    """Count with sacreBLEU's internal methods; a test compares them with the public ones."""
    require_items(predictions, references)
    # sacreBLEU takes references in streams, where None means that an item has no more: an empty
    # text would count as one more reference
    streams = list(zip_longest(*references))
    counts = np.array(
        metric._extract_corpus_statistics(list(predictions), streams), dtype=np.float64
    ).reshape(len(predictions), -1)

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
