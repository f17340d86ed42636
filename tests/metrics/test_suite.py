"""Metrics of generated text: chosen by name, each with its own options."""

import dataclasses
import math
from typing import get_args

import pytest

from saccade import metrics
from saccade.errors import MetricError
from saccade.metrics import TextMetricsConfig
from saccade.metrics.score import scores_of
from saccade.metrics.suite import TextMetric
from tests.metrics.corpora import ragged, sentences, worse

TRUTH = sentences(29)
PREDICTIONS = worse(TRUTH, 0.2, seed=1)
REFERENCES = ragged(TRUTH)
NAMES = tuple(name for name in get_args(TextMetric) if name != "bracket_f1")
"""The metrics of any text; for trees see test_brackets."""
EVERY = TextMetricsConfig(names=NAMES, samples=20)


def scores_by(config, predictions, references):
    return scores_of(config.tally(predictions, references), config.samples, config.seed)


def test_the_default_is_bleu_and_chrf_in_this_order():
    scores = scores_by(TextMetricsConfig(), PREDICTIONS, REFERENCES)
    assert list(scores) == ["bleu", "chrf"]
    assert scores["bleu"] == metrics.bleu(PREDICTIONS, REFERENCES)
    assert scores["chrf"] == metrics.chrf(PREDICTIONS, REFERENCES)


@pytest.mark.parametrize("name", NAMES)
def test_each_name_selects_the_function_of_that_name(name):
    config = TextMetricsConfig(names=(name,), samples=20, seed=3)
    [(key, score)] = scores_by(config, PREDICTIONS, REFERENCES).items()
    assert key == score.name == name
    assert score == getattr(metrics, name)(PREDICTIONS, REFERENCES, samples=20, seed=3)


def test_options_reach_their_metrics():
    changed = dataclasses.replace(EVERY, lowercase=True, tokenize="char", stress=False)
    before, after = (scores_by(config, PREDICTIONS, REFERENCES) for config in (EVERY, changed))
    assert "tok:char" in after["bleu"].signature
    for name in ("bleu", "chrf", "exact_match", "character_error_rate", "word_edit_rate"):
        assert "case:mixed" in before[name].signature
        assert "case:lc" in after[name].signature
    for name in ("word_error_rate", "phoneme_error_rate"):
        assert "stress:no" in after[name].signature
    assert before["ter"] == after["ter"]


def test_no_intervals_without_resamples():
    scores = scores_by(dataclasses.replace(EVERY, samples=0), PREDICTIONS, REFERENCES)
    assert all(score.interval is None for score in scores.values())
    assert all("seed" not in score.signature for score in scores.values())


def test_empty_predictions_have_finite_scores():
    for score in scores_by(EVERY, ["", ""], [["a b"], ["", "c"]]).values():
        assert all(math.isfinite(value) for value in (score.value, *score.interval))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"names": ()}, "at least 1; got none"),
        ({"names": ("bleu", "bleu")}, "got 'bleu', 'bleu'"),
        ({"samples": -1}, "got -1"),
        ({"seed": -2}, "and -2"),
    ],
)
def test_raises_on_invalid_options(options, message):
    with pytest.raises(MetricError, match=message):
        TextMetricsConfig(**options)


def test_tokenised_texts_give_a_remark_and_no_warning_of_sacrebleu(caplog):
    tokenised = [[f"a dog barks {i} ."] for i in range(120)]
    plain = [[text[0].replace(" .", ".")] for text in tokenised]
    config = TextMetricsConfig(names=("bleu",))
    config.tally([texts[0] for texts in tokenised], tokenised)
    assert not caplog.records
    [remark] = config.remarks(tokenised)
    assert 'metrics.tokenize="none"' in remark
    assert config.remarks(plain) == []
    assert dataclasses.replace(config, tokenize="none").remarks(tokenised) == []
