"""Metrics: how good answers are, with a signature, an interval and a test of significance.

score          Score (what comes out) and Tally (what was counted for each item)
text           BLEU, chrF and TER, by sacreBLEU
error_rates    exact match, error rates of characters, words and phonemes
edit_distance  what the error rates count
resample       confidence intervals and the paired bootstrap
by_length      the same metrics over buckets of input length
suite          TextMetricsConfig: the metrics of a task, chosen in its recipe

Metrics take one answer and a list of references for each item. bleu, chrf and ter run from 0 to
100, all others are fractions.
"""

from saccade.metrics.by_length import by_length
from saccade.metrics.error_rates import (
    character_error_rate,
    exact_match,
    phoneme_error_rate,
    word_edit_rate,
    word_error_rate,
)
from saccade.metrics.resample import PairedDifference, paired_bootstrap
from saccade.metrics.score import Score, Tally
from saccade.metrics.suite import TextMetricsConfig
from saccade.metrics.text import bleu, chrf, ter

__all__ = [
    "PairedDifference",
    "Score",
    "Tally",
    "TextMetricsConfig",
    "bleu",
    "by_length",
    "character_error_rate",
    "chrf",
    "exact_match",
    "paired_bootstrap",
    "phoneme_error_rate",
    "ter",
    "word_edit_rate",
    "word_error_rate",
]
