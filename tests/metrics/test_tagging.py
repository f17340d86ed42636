"""Metrics of tags: equal to seqeval, and spans that survive a round trip. Checklist B8."""

import random
import warnings
from itertools import pairwise

import pytest
import seqeval.metrics
from hypothesis import given
from hypothesis import strategies as st

from saccade.errors import MetricError
from saccade.metrics import TaggingMetricsConfig, span_f1, span_precision, span_recall
from saccade.metrics.tagging import (
    WordSpan,
    may_follow,
    scheme_of,
    span_scores,
    spans_of,
    tag_accuracy,
    tags_of,
)

# the example of seqeval's own README, and those of its tests
README = (
    [["O", "O", "O", "B-MISC", "I-MISC", "I-MISC", "O"], ["B-PER", "I-PER", "O"]],
    [["O", "O", "B-MISC", "I-MISC", "I-MISC", "I-MISC", "O"], ["B-PER", "I-PER", "O"]],
)
EXAMPLES = [
    README,
    ([["O", "O", "O", "B-MISC", "I-MISC", "O", "B-PER", "I-PER"]],) * 2,
    ([["B-PER", "I-PER", "O", "B-LOC"]], [["B-PER", "O", "O", "B-LOC"]]),
    ([["I-PER", "I-PER", "O", "I-LOC"]], [["B-PER", "I-PER", "O", "B-MISC"]]),
    ([["S-PER", "O", "B-LOC", "E-LOC"]], [["S-PER", "O", "B-LOC", "I-LOC"]]),
]
TAGS = ["O", *(f"{mark}-{label}" for mark in "BIES" for label in ("PER", "LOC", "two-parts"))]
SENTENCE = st.lists(st.sampled_from(TAGS), min_size=1, max_size=12)


def assert_equal_to_seqeval(references, predictions):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is no span at all
        expected = [
            function(references, predictions)
            for function in (
                seqeval.metrics.precision_score,
                seqeval.metrics.recall_score,
                seqeval.metrics.f1_score,
                seqeval.metrics.accuracy_score,
            )
        ]
    ours = [
        metric(predictions, references, samples=0).value
        for metric in (span_precision, span_recall, span_f1, tag_accuracy)
    ]
    assert ours == pytest.approx(expected)


@pytest.mark.parametrize(("references", "predictions"), EXAMPLES)
def test_scores_equal_seqeval_on_its_examples(references, predictions):
    assert_equal_to_seqeval(references, predictions)


def test_scores_of_the_readme_of_seqeval_are_half():
    references, predictions = README
    assert span_f1(predictions, references, samples=0).value == 0.5


@pytest.mark.parametrize("seed", range(20))
def test_scores_equal_seqeval_on_random_tags_valid_or_not(seed):
    chance = random.Random(seed)
    lengths = [chance.randint(1, 9) for _ in range(chance.randint(1, 30))]
    pair = [[chance.choices(TAGS, k=n) for n in lengths] for _ in range(2)]
    assert_equal_to_seqeval(*pair)


def test_scores_by_type_equal_the_report_of_seqeval():
    chance = random.Random(7)
    references, predictions = ([chance.choices(TAGS, k=8) for _ in range(40)] for _ in range(2))
    report = seqeval.metrics.classification_report(references, predictions, output_dict=True)
    for score in span_scores(predictions, references):
        theirs = report[score.label]
        assert score.precision == pytest.approx(theirs["precision"])
        assert score.recall == pytest.approx(theirs["recall"])
        assert score.f1 == pytest.approx(theirs["f1-score"])
        assert score.support == theirs["support"]


@given(SENTENCE, st.sampled_from(["BIO", "BIOES"]))
def test_written_spans_follow_the_scheme_and_are_read_again(tags, scheme):
    spans = spans_of(tags, scheme)
    written = tags_of(spans, len(tags), scheme)
    assert spans_of(written, scheme) == spans
    ends = ["", *written, ""]
    assert all(may_follow(a, b, scheme) for a, b in pairwise(ends))


@pytest.mark.parametrize(
    ("before", "tag", "scheme"),
    [
        ("O", "I-PER", "BIO"),
        ("", "I-PER", "BIO"),
        ("B-LOC", "I-PER", "BIO"),
        ("B-PER", "", "BIOES"),
        ("B-PER", "O", "BIOES"),
        ("S-PER", "E-PER", "BIOES"),
        ("I-PER", "B-PER", "BIOES"),
    ],
)
def test_a_tag_may_not_follow(before, tag, scheme):
    assert not may_follow(before, tag, scheme)
    assert may_follow(before, tag, "none")


def test_without_a_scheme_each_word_is_a_span():
    assert scheme_of(["NOUN", "X"]) == "none"
    assert spans_of(["NOUN", "VERB"], "none") == [WordSpan(0, 1, "NOUN"), WordSpan(1, 2, "VERB")]
    assert TaggingMetricsConfig().of("none") == ("accuracy",)
    assert TaggingMetricsConfig(names=("span_f1",)).of("none") == ("accuracy",)
    assert list(TaggingMetricsConfig().tally([["NOUN"]], [["NOUN"]], "none")) == ["accuracy"]


def test_sentences_of_different_lengths_raise():
    with pytest.raises(MetricError, match="sentence 1 has 1 predicted tags and 2 right ones"):
        span_f1([["O"], ["O"]], [["O"], ["O", "O"]])
