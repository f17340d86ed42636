"""Tests of beam search against greedy search, a list-based beam search, and all sequences."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.decoding import beam_search, greedy
from saccade.errors import DecodingError
from tests.decoding.steppers import (
    START,
    STOP,
    InPlace,
    Trigram,
    all_hypotheses,
    assert_same,
    limits,
    random_trigram,
    run,
    slow_beam,
)

PENALTIES = [-1.0, 0.0, 0.6, 1.0, 2.0]
each_penalty = pytest.mark.parametrize("penalty", PENALTIES)


@each_penalty
@pytest.mark.parametrize("stop", [-1.0, 1.0])
def test_a_beam_of_one_equals_greedy(penalty, stop):
    model = random_trigram(31, 7, 2, stop=stop)
    by_beam = run(beam_search, model, limits(8), beam=1, length_penalty=penalty)
    for [hypothesis], [expected] in zip(by_beam, run(greedy, model, limits(8)), strict=True):
        assert hypothesis.tokens == expected.tokens
        assert hypothesis.log_probability == expected.log_probability
        length = len(hypothesis.tokens) + hypothesis.finished
        assert hypothesis.score == pytest.approx(hypothesis.log_probability / length**penalty)


@each_penalty
@pytest.mark.parametrize("max_length", [1, 3, 5])
def test_a_wide_beam_finds_the_best_of_all_sequences_in_order(penalty, max_length):
    bounds = limits(max_length, forbidden=())
    for seed in range(3):
        model = random_trigram(3, 3, seed, stop=0.5)
        rows = run(beam_search, model, bounds, beam=64, length_penalty=penalty, num_best=20)
        for context, row in enumerate(rows):
            everything = all_hypotheses(model, context, bounds, penalty)
            assert_same(row, sorted(everything, key=lambda h: -h.score)[:20])


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    vocabulary=st.integers(3, 8),
    beam=st.integers(2, 7),
    max_length=st.integers(1, 8),
    min_share=st.floats(0, 0.5),
    penalty=st.sampled_from(PENALTIES),
    stop=st.floats(-2, 2),
    data=st.data(),
)
def test_ending_early_changes_nothing(
    seed, vocabulary, beam, max_length, min_share, penalty, stop, data
):
    num_best = data.draw(st.integers(1, beam))
    bounds = limits(max_length, int(min_share * max_length))
    model = random_trigram(4, vocabulary, seed, stop=stop, kind=InPlace)
    rows = run(beam_search, model, bounds, beam=beam, length_penalty=penalty, num_best=num_best)
    for context, row in enumerate(rows):
        assert_same(row, slow_beam(model, context, bounds, beam, penalty)[:num_best])


@pytest.mark.parametrize(("penalty", "stop"), [(-1.0, 2.0), (0.0, 2.0), (0.6, 3.0), (1.0, 6.0)])
def test_rows_end_before_the_limit_and_leave_the_batch(penalty, stop):
    model = random_trigram(31, 7, 4, stop=stop)
    run(beam_search, model, limits(40), beam=4, length_penalty=penalty)
    first, *others = model.steps
    assert first == 31
    assert others == sorted(others, reverse=True)
    assert others[-1] < 31 * 4
    assert len(model.steps) < 40


def test_the_first_step_has_one_beam_and_each_step_one_select():
    model = random_trigram(2, 9, stop=-torch.inf)
    run(beam_search, model, limits(12), beam=4)
    assert model.steps == [2, *[8] * 11]
    assert len(model.selects) <= 11
    assert model.selects[0] == [0, 0, 0, 0, 1, 1, 1, 1]


def test_an_unchanged_order_is_not_selected():
    table = torch.full((1, 5, 5, 5), -30.0)
    for token in (2, 3, 4):
        table[0, 0, START, token] = -float(token)  # three beginnings that repeat themselves
        table[0, :, token, token] = 0.0
    model = Trigram(table)
    [row] = run(beam_search, model, limits(6), beam=3, num_best=3)
    assert [hypothesis.tokens for hypothesis in row] == [(2,) * 6, (3,) * 6, (4,) * 6]
    assert model.selects == [[0, 0, 0]]


@pytest.mark.parametrize("vocabulary", [1, 2, 3])
@pytest.mark.parametrize("beam", [2, 5, 50])
def test_a_vocabulary_can_be_smaller_than_the_beam(vocabulary, beam):
    table = torch.randn(3, vocabulary, max(2, vocabulary), vocabulary)
    bounds = limits(4, forbidden=())
    rows = run(beam_search, Trigram(table), bounds, beam=beam, num_best=beam)
    for context, row in enumerate(rows):
        everything = list(all_hypotheses(Trigram(table), context, bounds, 1.0))
        assert len(row) == min(beam, len(everything))
        assert len({hypothesis.tokens for hypothesis in row}) == len(row)
        if beam == 50:
            assert_same(row, sorted(everything, key=lambda h: -h.score)[:50])


def test_tokens_of_probability_0_are_neither_kept_nor_read():
    table = torch.full((2, 6, 6, 6), -torch.inf)
    table[..., 2] = 0.0
    table[..., STOP] = 0.0
    table[1, ..., STOP] = -torch.inf
    table[:, 1:, [STOP, START, 3, 4, 5]] = torch.nan
    rows = run(beam_search, Trigram(table), limits(3), beam=5, num_best=5)
    assert [h.tokens for h in rows[0]] == [(), (2,), (2, 2), (2, 2, 2)]
    assert [h.tokens for h in rows[1]] == [(2, 2, 2)]


def test_of_equal_continuations_the_lowest_token_comes_first():
    table = torch.zeros(1, 50, 50, 50)
    table[..., STOP] = -9
    [row] = run(beam_search, Trigram(table), limits(1), beam=4, num_best=4)
    assert [hypothesis.tokens for hypothesis in row] == [(2,), (3,), (4,), (5,)]


@each_penalty
def test_a_larger_num_best_does_not_change_the_best(penalty):
    model = random_trigram(11, 7, 6, stop=1.0)
    many, one = (
        run(beam_search, model, limits(7), beam=5, num_best=n, length_penalty=penalty)
        for n in (5, 1)
    )
    assert [row[:1] for row in many] == one
    for row in many:
        scores = [hypothesis.score for hypothesis in row]
        assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("penalty", [0.0, 1.0])
@pytest.mark.parametrize("beam", [2, 4])
def test_a_narrow_beam_is_rarely_worse_than_greedy(beam, penalty, record_property):
    model = random_trigram(500, 9, 1, stop=1.0)
    ours = run(beam_search, model, limits(10), beam=beam, length_penalty=penalty)
    theirs = run(beam_search, model, limits(10), beam=1, length_penalty=penalty)
    pairs = list(zip(ours, theirs, strict=True))
    worse = sum(a.score < b.score - 1e-6 for [a], [b] in pairs)
    better = sum(a.score > b.score + 1e-6 for [a], [b] in pairs)
    record_property("worse_than_greedy_of_500", worse)
    record_property("better_than_greedy_of_500", better)
    print(f"beam {beam}, penalty {penalty}: of 500 {worse} worse, {better} better than greedy")
    assert worse <= 15
    assert better > 10 * worse


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam": 0}, "beam must be at least 1, got 0"),
        ({"beam": 2, "num_best": 3}, "beam = 2, got 3"),
        ({"beam": 2, "num_best": 0}, "got 0"),
        ({"beam": 2, "length_penalty": 11.0}, "between -10 and 10, got 11.0"),
        ({"beam": 1, "length_penalty": float("nan")}, "got nan"),
    ],
)
def test_raises_on_invalid_options(options, message):
    with pytest.raises(DecodingError, match=message):
        run(beam_search, random_trigram(1, 4), limits(3), **options)
