"""Metrics of language models: by hand and at the edges."""

import math

import pytest

from saccade.errors import MetricError
from saccade.metrics import bits_per_character, language_scores, perplexity
from saccade.metrics.language import perplexity_tally

# 6 bits over 3 tokens and 12 characters
NATS, TOKENS, CHARACTERS = [2 * math.log(2), 4 * math.log(2)], [1, 2], [5, 7]


def test_language_scores_by_hand():
    scores = language_scores(NATS, TOKENS, CHARACTERS, samples=0)
    assert list(scores) == ["loss", "perplexity", "bits_per_character"]
    assert scores["loss"].value == pytest.approx(2 * math.log(2))
    assert scores["perplexity"].value == pytest.approx(4)
    assert scores["bits_per_character"].value == pytest.approx(6 / 12)
    assert not any(score.higher_is_better for score in scores.values())
    assert all(score.interval is None for score in scores.values())


def test_perplexity_of_equally_likely_tokens_is_their_number():
    assert perplexity([7 * math.log(29)], [7]).value == pytest.approx(29)
    assert bits_per_character([8 * math.log(256)], [8]).value == pytest.approx(8)


def test_scores_have_name_direction_signature_and_interval():
    scores = language_scores(NATS, TOKENS, CHARACTERS, samples=40, seed=3)
    units = ["token", "token", "character"]
    for (name, score), unit in zip(scores.items(), units, strict=True):
        assert score.name == name
        assert score.signature.startswith(f"nrefs:1|bs:40|seed:3|per:{unit}|saccade:")
        low, high = score.interval
        assert low <= score.value <= high


def test_an_item_may_be_empty():
    scores = language_scores([0.0, *NATS], [0, *TOKENS], [0, *CHARACTERS], samples=50)
    assert scores["perplexity"].value == pytest.approx(4)
    assert all(math.isfinite(end) for score in scores.values() for end in score.interval)
    assert perplexity_tally([0.0, 1.0], [0, 1]).of([0]) == 1


def test_perplexity_of_a_huge_loss_is_finite():
    assert perplexity([1e6], [1]).value == pytest.approx(math.exp(700))


@pytest.mark.parametrize(
    ("nats", "tokens", "characters", "message"),
    [
        ([1.0], [1, 2], [1], "got 1 nats and 2 tokens"),
        ([1.0], [1], [1, 2], "got 1 nats and 2 characters"),
        ([], [], [], "got 0 nats"),
        ([math.nan], [1], [1], "the negative log-likelihood of item 0 is nan"),
        ([1.0, math.inf], [1, 1], [1, 1], "the negative log-likelihood of item 1 is inf"),
        ([1.0], [0], [1], "number of tokens.* and a total of 0"),
        ([1.0, 1.0], [1, 1], [-1, 3], "number of characters.* got a minimum of -1"),
    ],
)
def test_raises_on_invalid_items(nats, tokens, characters, message):
    with pytest.raises(MetricError, match=message):
        language_scores(nats, tokens, characters)
