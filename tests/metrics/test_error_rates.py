"""Error rates: by hand, against dynamic programming, and at the edges."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.errors import MetricError
from saccade.metrics import (
    character_error_rate,
    exact_match,
    phoneme_error_rate,
    word_edit_rate,
    word_error_rate,
)
from saccade.metrics.error_rates import (
    character_error_rate_tally,
    phoneme_error_rate_tally,
    without_stress,
    word_edit_rate_tally,
)
from tests.metrics.corpora import INVALID_ITEMS

ALL = [exact_match, character_error_rate, word_edit_rate, word_error_rate, phoneme_error_rate]


def edits_by_table(one, other):
    """Return the edit distance from its table, row by row (Levenshtein 1966)."""
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        before, row = row, [i]
        for j, b in enumerate(other, 1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b)))
    return row[-1]


@pytest.mark.parametrize(
    ("one", "other", "distance"),
    [
        ("", "", 0),
        ("", "abc", 3),
        ("kitten", "sitting", 3),
        ("saturday", "sunday", 3),
        ("abc", "abc", 0),
        ("ab", "ba", 2),
        ("e\u0301", "é", 2),
        ("😀a", "a", 1),
    ],
)
def test_known_edit_distances(one, other, distance):
    assert edits_by_table(one, other) == edits_by_table(other, one) == distance
    for prediction, reference in ((one, other), (other, one)):
        counts = character_error_rate_tally([prediction], [[reference]]).counts
        assert counts.tolist() == [[distance, len(reference)]]


symbols = st.lists(st.sampled_from(["a", "b", "ab", "AH0", "\u0301", "😀"]), max_size=70)


@settings(max_examples=150, deadline=None)
@given(symbols, symbols)
def test_edits_equal_dynamic_programming(one, other):
    distance = edits_by_table(one, other)
    for tally in (word_edit_rate_tally, phoneme_error_rate_tally):
        counts = tally([" ".join(one)], [[" ".join(other)]]).counts
        assert counts.tolist() == [[distance, len(other)]]
    one, other = "".join(one), "".join(other)
    counts = character_error_rate_tally([one], [[other]]).counts
    assert counts.tolist() == [[edits_by_table(one, other), len(other)]]


def test_edits_of_long_texts_equal_dynamic_programming():
    generator = random.Random(1)
    one = "".join(generator.choices("abcdef", k=3000))
    assert character_error_rate_tally([one], [[one[7:] + "x"]]).counts[0, 0] <= 8
    counts = character_error_rate_tally([one[:300]], [[one[300:650]]]).counts
    assert counts[0, 0] == edits_by_table(one[:300], one[300:650])


# one of 3 phonemes wrong, K AE T right, one extra phoneme: 2 edits of 8 phonemes
PREDICTIONS = ["B AE T", "K AE T", "AH N D"]
REFERENCES = [["B AH T"], ["K AA T", "K AE T"], ["AH N"]]


def test_phoneme_and_word_error_rate_by_hand():
    assert phoneme_error_rate(PREDICTIONS, REFERENCES).value == pytest.approx(2 / 8)
    assert word_error_rate(PREDICTIONS, REFERENCES).value == pytest.approx(2 / 3)
    assert exact_match(PREDICTIONS, REFERENCES).value == pytest.approx(1 / 3)


def test_the_two_meanings_of_word_error_rate():
    """Pronunciation: the fraction of wrong items. Speech recognition: edits per word."""
    predictions, references = ["a b c d", "x"], [["a b c e"], ["x"]]
    assert word_error_rate(predictions, references).value == 1 / 2
    assert word_edit_rate(predictions, references).value == 1 / 5


def test_character_error_rate_by_hand():
    assert character_error_rate(["sitting", " ab "], [["kitten"], ["ab"]]).value == 3 / 8
    assert character_error_rate(["aaaa"], [["b"]]).value == 4  # a rate may exceed 1


def test_the_closest_reference_counts_in_any_order():
    """The distance is 1 to both; the longer one is the denominator."""
    for references in (["a b", "a b c d"], ["a b c d", "a b"]):
        assert phoneme_error_rate(["a b c"], [references]).value == 1 / 4
    assert phoneme_error_rate(["a b c"], [["x y z u v w", "a b"]]).value == 1 / 2


def test_stress_can_be_ignored():
    predictions, references = ["AH0 B AW2 T", "K AE1 T"], [["AH1 B AW1 T"], ["K AE1 T"]]
    assert word_error_rate(predictions, references).value == 1 / 2
    assert phoneme_error_rate(predictions, references).value == 2 / 7
    assert word_error_rate(predictions, references, stress=False).value == 0
    assert phoneme_error_rate(predictions, references, stress=False).value == 0
    assert phoneme_error_rate(predictions, [["AH B AW T"], ["K AE T"]], stress=False).value == 0
    assert "stress:no" in word_error_rate(predictions, references, stress=False).signature
    assert "stress:yes" in word_error_rate(predictions, references).signature


@pytest.mark.parametrize(
    ("stressed", "plain"),
    [
        ("AH0 B AW1 T", "AH B AW T"),
        ("k ˈæ t ˌ ə", "k æ t ə"),
        ("ma3 0 12 AH9", "ma3 0 12 AH9"),  # tones and numbers are not stress
        ("", ""),
    ],
)
def test_without_stress(stressed, plain):
    assert without_stress(stressed) == plain


def test_case_and_white_space():
    assert exact_match([" Ab "], [["Ab"]]).value == 1
    assert exact_match(["AB"], [["ab"]]).value == 0
    assert exact_match(["AB"], [["ab"]], lowercase=True).value == 1
    assert character_error_rate(["AB"], [["ab"]]).value == 1
    assert character_error_rate(["AB"], [["ab"]], lowercase=True).value == 0
    assert word_edit_rate(["A b"], [["a b"]], lowercase=True).value == 0
    assert word_error_rate(["AH  B "], [["AH B"]]).value == 0
    assert word_error_rate(["ah b"], [["AH B"]]).value == 1  # phonemes are case-sensitive


@pytest.mark.parametrize("metric", ALL)
def test_scores_of_empty_texts(metric):
    right, wrong = (1.0, 0.0) if metric is exact_match else (0.0, 1.0)
    assert metric([""], [[""]]).value == right
    assert metric(["a"], [[""]]).value == wrong
    assert metric([""], [["a"]]).value == wrong
    assert metric(["", "a"], [["a", ""], ["a"]]).value == right


@pytest.mark.parametrize("metric", ALL)
def test_scores_have_name_direction_signature_and_interval(metric):
    score = metric(PREDICTIONS, REFERENCES, samples=40)
    assert score.name == metric.__name__
    assert score.higher_is_better == (metric is exact_match)
    assert score.signature.startswith("nrefs:var|bs:40|seed:12345|")
    low, high = score.interval
    assert low <= score.value <= high
    assert metric(PREDICTIONS, REFERENCES, samples=0).interval is None
    assert metric(["a"], [["a"]], samples=0).signature.startswith("nrefs:1|")


@pytest.mark.parametrize("metric", ALL)
@pytest.mark.parametrize(("predictions", "references", "message"), INVALID_ITEMS)
def test_raises_on_invalid_items(metric, predictions, references, message):
    with pytest.raises(MetricError, match=message):
        metric(predictions, references)
