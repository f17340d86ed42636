"""Metrics of predictions, with a signature, a confidence interval and a test of significance.

score            MetricScore, the result, and Tally, the counts of each item
text             BLEU, chrF and TER, by sacreBLEU
captions         BLEU by order, CIDEr, ROUGE-L and the pointing game
brackets         bracket F1 of constituency trees, written as text
error_rates      exact match, and error rates of characters, words and phonemes
classification   accuracy, F1 and Matthews correlation of labels, and scores of each label;
                 ClassificationMetricsConfig
tagging          accuracy of tags per word, precision, recall and F1 of spans; TaggingMetricsConfig
regression       correlations and squared error of numbers
language         loss, perplexity and bits per character of language models
calibration      expected calibration error, and the temperature that minimises the loss
resample         confidence intervals and the paired bootstrap
by_length        metrics over buckets of input length
suite            TextMetricsConfig: the metrics of generated text, chosen in a recipe

Every metric has two functions with the same arguments: `bleu_tally(…)` returns a `Tally`, the
counts of each item; `bleu(…)` returns a `MetricScore` over all items, and also takes `samples`, the
number of resamples for the confidence interval (0: none), and `seed`.

Metrics of text take one prediction and a list of references per item; bleu, bleu_1 to bleu_4, chrf
and ter are from 0 to 100, cider from 0 to 10, the others are fractions. Metrics of labels and
numbers take one prediction and one reference per item.

>>> print(exact_match(["a b", "c"], [["a b"], ["d", "e"]], samples=0).value)
0.5
"""

from saccade.metrics.brackets import bracket_f1
from saccade.metrics.by_length import by_length
from saccade.metrics.calibration import (
    cross_fit,
    expected_calibration_error,
    fit_temperature,
    fit_temperature_of_sigmoids,
)
from saccade.metrics.captions import bleu_1, bleu_2, bleu_3, bleu_4, cider, pointing, rouge_l
from saccade.metrics.classification import (
    ClassificationMetricsConfig,
    accuracy,
    balanced_accuracy,
    best_threshold,
    class_scores,
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
from saccade.metrics.regression import mean_squared_error, pearson, spearman
from saccade.metrics.resample import PairedDifference, paired_bootstrap
from saccade.metrics.score import MetricScore, Tally
from saccade.metrics.suite import TextMetricsConfig
from saccade.metrics.tagging import (
    TaggingMetricsConfig,
    span_f1,
    span_precision,
    span_recall,
    span_scores,
    spans_of,
    tag_accuracy,
    tags_of,
)
from saccade.metrics.text import bleu, chrf, ter

Score = MetricScore
"""Deprecated: the former name of `MetricScore`."""

__all__ = [
    "ClassificationMetricsConfig",
    "MetricScore",
    "PairedDifference",
    "Score",
    "TaggingMetricsConfig",
    "Tally",
    "TextMetricsConfig",
    "accuracy",
    "balanced_accuracy",
    "best_threshold",
    "bits_per_character",
    "bleu",
    "bleu_1",
    "bleu_2",
    "bleu_3",
    "bleu_4",
    "bracket_f1",
    "by_length",
    "character_error_rate",
    "chrf",
    "cider",
    "class_scores",
    "confusion",
    "cross_fit",
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
    "span_f1",
    "span_precision",
    "span_recall",
    "span_scores",
    "spans_of",
    "spearman",
    "tag_accuracy",
    "tags_of",
    "ter",
    "word_edit_rate",
    "word_error_rate",
]
