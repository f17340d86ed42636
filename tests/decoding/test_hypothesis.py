"""Tests of scores by hand, and of invalid limits."""

import math

import pytest

from saccade.decoding import GenerationLimits, Hypothesis
from saccade.errors import DecodingError, SaccadeError


@pytest.mark.parametrize(
    ("finished", "penalty", "score"),
    [
        (True, 1.0, -6 / 4),
        (False, 1.0, -6 / 3),
        (True, 0.0, -6.0),
        (True, 2.0, -6 / 16),
        (True, -1.0, -24.0),
        (False, 0.5, -6 / math.sqrt(3)),
    ],
)
def test_the_length_in_the_score_includes_the_stop_token(finished, penalty, score):
    hypothesis = Hypothesis.of([4, 5, 6], -6.0, finished=finished, length_penalty=penalty)
    assert hypothesis.score == pytest.approx(score)
    assert hypothesis == Hypothesis((4, 5, 6), -6.0, hypothesis.score, finished)


def test_a_stop_token_alone_has_length_one():
    assert Hypothesis.of([], -3.0, finished=True) == Hypothesis((), -3.0, -3.0, finished=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_length": 0}, "max_length must be at least 1, got 0"),
        ({"max_length": 3, "min_length": 4}, "max_length = 3, got 4"),
        ({"max_length": 3, "min_length": -1}, "got -1"),
        ({"max_length": 3, "stop": -1}, "stop = -1"),
        ({"max_length": 3, "forbidden": (4, -2)}, r"forbidden = \(4, -2\)"),
        ({"max_length": 3, "forbidden": (0,)}, "set min_length to max_length = 3"),
    ],
)
def test_raises_on_invalid_limits(options, message):
    with pytest.raises(DecodingError, match=message) as caught:
        GenerationLimits(**{"stop": 0, **options})
    assert isinstance(caught.value, SaccadeError)
    assert isinstance(caught.value, ValueError)
