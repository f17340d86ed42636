"""Tests of sampling: seeds, frequencies, and equality with greedy search (checklist B7)."""

import math

import pytest
import torch

from saccade.decoding import greedy, sample
from saccade.decoding.sampling import _inverse_cdf
from saccade.errors import DecodingError
from tests.decoding.steppers import Trigram, all_hypotheses, limits, random_trigram, run


def test_seeded_sampling_is_reproducible_B7():
    model, bounds = random_trigram(31, 7, stop=1.0), limits(9)
    once, again = (run(sample, model, bounds, seeds=range(31)) for _ in range(2))
    assert once == again
    torch.rand(5)  # the global generator does not matter
    assert run(sample, model, bounds, seeds=range(31)) == once
    assert run(sample, model, bounds, seeds=range(1, 32)) != once


def test_rows_with_equal_seeds_and_contexts_are_equal():
    model = random_trigram(2, 7)
    a, b, c, d = run(sample, model, limits(9), [0, 1, 0, 0], seeds=[5, 5, 5, 6])
    assert a == c
    assert a not in (b, d)


def test_a_higher_limit_only_continues_the_text():
    model = random_trigram(31, 7)
    short, long = (run(sample, model, limits(n), seeds=range(31)) for n in (4, 12))
    assert any(not hypothesis.finished for [hypothesis] in short)
    for [a], [b] in zip(short, long, strict=True):
        assert b.tokens[: len(a.tokens)] == a.tokens


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 0.0},
        {"temperature": 1e-6},
        {"temperature": 1e-300},
        {"top_k": 1},
        {"top_p": 1e-6},
        {"temperature": 3.0, "top_k": 1},
        {"temperature": 3.0, "top_k": 5, "top_p": 1e-6},
    ],
    ids=str,
)
def test_sampling_equals_greedy_at_temperature_0_and_top_k_1_B7(options):
    model = random_trigram(31, 7, stop=1.0)
    assert run(sample, model, limits(9), seeds=range(31), **options) == run(
        greedy, model, limits(9)
    )


def test_of_equal_tokens_top_k_and_top_p_keep_the_lowest():
    model = Trigram(torch.zeros(1, 40, 40, 40))
    for options in ({"top_k": 3}, {"top_p": 2.5 / 40}):
        contexts = [0] * 300
        rows = run(sample, model, limits(1, forbidden=()), contexts, seeds=range(300), **options)
        assert {hypothesis.tokens for [hypothesis] in rows} == {(), (1,), (2,)}


def chi_square(rows, expected):
    """Return Σ (seen - expected)² / expected per degree of freedom: about 1 ± √(2 / n)."""
    counts = dict.fromkeys(expected, 0)
    for [hypothesis] in rows:
        counts[hypothesis.tokens] += 1  # a KeyError is a sequence that should not occur
    terms = [
        (counts[tokens] - len(rows) * p) ** 2 / (len(rows) * p) for tokens, p in expected.items()
    ]
    return sum(terms) / max(1, len(terms) - 1)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("cut", [{}, {"top_k": 3}, {"top_p": 0.7}, {"top_k": 4, "top_p": 0.8}])
def test_tokens_are_as_frequent_as_they_are_likely(temperature, cut):
    model = random_trigram(1, 7, 4)
    p = {token: math.exp(x / temperature) for token, x in first_step(model).items()}
    p = dict(sorted(normalised(p).items(), key=lambda item: -item[1])[: cut.get("top_k", 7)])
    nucleus, total = {}, 0.0
    for token, value in normalised(p).items():
        if total < cut.get("top_p", 1.0):
            nucleus[token] = value
        total += value
    expected = {(token,) if token else (): value for token, value in normalised(nucleus).items()}
    rows = run(
        sample, model, limits(1), [0] * 1500, seeds=range(1500), temperature=temperature, **cut
    )
    assert chi_square(rows, expected) < 1 + 4 * math.sqrt(2 / max(1, len(expected) - 1))


def test_sequences_are_as_frequent_as_they_are_likely():
    model, bounds = random_trigram(1, 4, 2), limits(3)
    rows = run(sample, model, bounds, [0] * 3000, seeds=range(3000))
    weights = {h.tokens: math.exp(h.log_probability) for h in steps_renormalised(model, bounds)}
    assert sum(weights.values()) == pytest.approx(1, abs=1e-5)
    assert chi_square(rows, weights) < 1 + 4 * math.sqrt(2 / (len(weights) - 1))


def first_step(model):
    return model.log_p(0, (), limits(1))


def normalised(p):
    return {token: value / sum(p.values()) for token, value in p.items()}


def steps_renormalised(model, bounds):
    """All sequences; sampling distributes the probability of forbidden tokens to the others."""
    without = model.table.clone()
    without[..., list(bounds.forbidden)] = -torch.inf
    return all_hypotheses(Trigram(without), 0, bounds, 1.0)


def test_the_log_probability_is_that_of_the_untruncated_model():
    model, bounds = random_trigram(31, 7, stop=1.0), limits(9)
    rows = run(sample, model, bounds, seeds=range(31), temperature=0.7, top_k=3, top_p=0.9)
    for context, [hypothesis] in enumerate(rows):
        written = hypothesis.tokens + (0,) * hypothesis.finished
        total = sum(
            model.log_p(context, written[:n], bounds)[token] for n, token in enumerate(written)
        )
        assert hypothesis.log_probability == pytest.approx(total, abs=1e-5)


def test_options_that_exclude_no_token_change_nothing():
    model, bounds = random_trigram(31, 7, stop=1.0), limits(9)
    plain = run(sample, model, bounds, seeds=range(31))
    assert run(sample, model, bounds, seeds=range(31), top_k=7, top_p=1.0) == plain
    assert run(sample, model, bounds, seeds=range(31), top_k=1000) == plain


def test_the_inverse_cdf_by_hand():
    probabilities = torch.tensor([[0.0, 0.25, 0.0, 0.5, 0.25, 0.0]]).repeat(6, 1)
    numbers = torch.tensor([0.0, 0.2499, 0.25, 0.7499, 0.75, 1 - 2**-24])
    assert _inverse_cdf(probabilities, numbers).tolist() == [1, 1, 3, 3, 4, 4]
    assert _inverse_cdf(probabilities[:1], torch.ones(1)).tolist() == [3]  # beyond: the likeliest


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": -0.5}, "temperature must be 0 .* got -0.5"),
        ({"temperature": float("inf")}, "got inf"),
        ({"temperature": float("nan")}, "got nan"),
        ({"top_k": 0}, "top_k must be at least 1, got 0"),
        ({"top_p": 0.0}, "top_p must be above 0 and at most 1, got 0.0"),
        ({"top_p": 1.5}, "got 1.5"),
        ({"seeds": [1, 2]}, "got 2 seeds for 3 rows"),
        ({"seeds": [1, 2, -3]}, "got -3"),
        ({"seeds": [1, 2, 2**64]}, f"got {2**64}"),
    ],
    ids=str,
)
def test_raises_on_invalid_options(options, message):
    with pytest.raises(DecodingError, match=message):
        run(sample, random_trigram(3, 4), limits(3), **{"seeds": [1, 2, 3], **options})
