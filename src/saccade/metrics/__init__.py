"""Metrics: how good answers are, with a signature, an interval and a test of significance.

score           MetricScore (what comes out) and Tally (what was counted for each item)
text            BLEU, chrF and TER, by sacreBLEU
captions        BLEU by order, CIDEr, ROUGE-L and pointing, as captioning has them
error_rates     exact match, error rates of characters, words and phonemes
classification  accuracy, F1 and Matthews correlation of labels; ClassificationMetricsConfig
regression      correlations and squared error of numbers
language        loss, perplexity and bits per character of language models
calibration     whether a model is right as often as it says, and the temperature that makes it so
resample        confidence intervals and the paired bootstrap
by_length       the same metrics over buckets of input length
suite           TextMetricsConfig: the metrics of a task, chosen in its recipe

Metrics of text take one answer and a list of references for each item; bleu, bleu_1 to bleu_4, chrf
and ter run from 0 to 100, cider from 0 to 10, its others are fractions. Metrics of
labels and numbers take one answer and one reference.
"""

from saccade.metrics.by_length import by_length
from saccade.metrics.calibration import (
    expected_calibration_error,
    fit_temperature,
    fit_temperature_of_sigmoids,
)
from saccade.metrics.captions import bleu_1, bleu_2, bleu_3, bleu_4, cider, pointing, rouge_l
from saccade.metrics.classification import (
    ClassificationMetricsConfig,
    accuracy,
    confusion,
    f1,
    macro_f1,
    matthews,
    micro_f1,
)
from saccade.metrics.error_rates import (
    character_error_rate,
    exact_match,
    phoneme_error_rate,
    word_edit_rate,
    word_error_rate,
)
from saccade.metrics.language import bits_per_character, language_scores, perplexity
from saccade.metrics.regression import mean_squared_error, pearson, score_numbers, spearman
from saccade.metrics.resample import PairedDifference, paired_bootstrap
from saccade.metrics.score import MetricScore, Tally
from saccade.metrics.suite import TextMetricsConfig
from saccade.metrics.text import bleu, chrf, ter

__all__ = [
    "ClassificationMetricsConfig",
    "MetricScore",
    "PairedDifference",
    "Tally",
    "TextMetricsConfig",
    "accuracy",
    "bits_per_character",
    "bleu",
    "bleu_1",
    "bleu_2",
    "bleu_3",
    "bleu_4",
    "by_length",
    "character_error_rate",
    "chrf",
    "cider",
    "confusion",
    "exact_match",
    "expected_calibration_error",
    "f1",
    "fit_temperature",
    "fit_temperature_of_sigmoids",
    "language_scores",
    "macro_f1",
    "matthews",
    "mean_squared_error",
    "micro_f1",
    "paired_bootstrap",
    "pearson",
    "perplexity",
    "phoneme_error_rate",
    "pointing",
    "rouge_l",
    "score_numbers",
    "spearman",
    "ter",
    "word_edit_rate",
    "word_error_rate",
]
