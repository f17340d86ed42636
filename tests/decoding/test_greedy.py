"""Tests of greedy search against the naive loop (B6, H8), and of what all searches share."""

import sys
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.decoding import beam_search, greedy, sample
from saccade.decoding.greedy_search import most_likely
from saccade.errors import DecodingError
from tests.decoding.steppers import (
    START,
    STOP,
    InPlace,
    Trigram,
    assert_same,
    limits,
    random_trigram,
    run,
    slow_greedy,
)


def sample_seeded(stepper, state, first, limits, **options):
    return sample(stepper, state, first, limits, seeds=range(7, 7 + len(first)), **options)


SEARCHES = {
    "greedy": greedy,
    "sample": sample_seeded,
    "beam": partial(beam_search, beam=3, num_best=2),
    "beam of one": partial(beam_search, beam=1),
}
each_search = pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    vocabulary=st.integers(2, 9),
    max_length=st.integers(1, 12),
    min_share=st.floats(0, 1),
    stop=st.floats(-2, 2),
)
def test_greedy_equals_the_naive_loop(seed, vocabulary, max_length, min_share, stop):
    forbidden = (START,) if vocabulary > 2 else ()
    model = random_trigram(5, vocabulary, seed, stop=stop)
    bounds = limits(max_length, int(min_share * max_length), forbidden)
    for context, [hypothesis] in enumerate(run(greedy, model, bounds)):
        assert_same([hypothesis], [slow_greedy(model, context, bounds)])


def test_of_equal_tokens_the_lowest_is_chosen():
    table = torch.zeros(1, 5, 5, 5)
    table[..., STOP] = -1
    [[hypothesis]] = run(greedy, Trigram(table), limits(3))
    assert hypothesis.tokens == (2, 2, 2)


@each_search
def test_a_state_is_used_once_and_selected_only_to_change_it(search):
    bounds = limits(9)
    plain, in_place = (random_trigram(11, 7, 3, stop=1.0, kind=kind) for kind in (Trigram, InPlace))
    assert run(search, in_place, bounds) == run(search, plain, bounds)
    assert len(in_place.selects) > 2
    assert len(in_place.selects) <= len(in_place.steps)


def test_rows_that_have_stopped_leave_the_batch():
    model = random_trigram(11, 7, 3, stop=1.0)
    rows = run(greedy, model, limits(9))
    lengths = [len(h.tokens) + h.finished for [h] in rows]
    assert model.steps == [sum(length > step for length in lengths) for step in range(max(lengths))]
    assert len(model.selects) == len({length for length in lengths if length < max(lengths)})


@each_search
def test_a_row_is_equal_alone_and_in_any_batch(search):
    model, bounds = random_trigram(11, 7, 5, stop=1.0), limits(9)
    first = torch.tensor([START])
    whole = run(search, model, bounds)
    assert len(whole) == 11
    for context in range(11):
        state = model.start(torch.tensor([context]))
        if search is sample_seeded:
            alone = sample(model, state, first, bounds, seeds=[7 + context])
        else:
            alone = search(model, state, first, bounds)
        assert alone == [whole[context]]
    if search is not sample_seeded:
        order = [4, 4, 10, 0, 7]
        assert run(search, model, bounds, order) == [whole[context] for context in order]


@each_search
def test_no_rows_give_no_hypotheses(search):
    assert run(search, random_trigram(1, 4), limits(3), []) == []


@each_search
@pytest.mark.parametrize("max_length", [1, 2, 30])
def test_a_model_that_never_stops_is_cut_B6(search, max_length):
    model = random_trigram(3, 6, stop=-torch.inf)
    for row in run(search, model, limits(max_length)):
        for hypothesis in row:
            assert not hypothesis.finished
            assert len(hypothesis.tokens) == max_length
    assert len(model.steps) == max_length


@each_search
def test_forbidden_tokens_and_early_stops_are_never_generated_B6(search):
    model = random_trigram(13, 6, stop=2.0)
    model.table[..., 3] += 4  # the forbidden token is the most likely
    bounds = limits(8, min_length=3, forbidden=(START, 3))
    rows = run(search, model, bounds)
    assert any(hypothesis.finished for row in rows for hypothesis in row)
    for hypothesis in [hypothesis for row in rows for hypothesis in row]:
        assert not {STOP, START, 3} & set(hypothesis.tokens)
        assert 3 <= len(hypothesis.tokens) <= (7 if hypothesis.finished else 8)


@each_search
def test_with_min_length_at_max_length_there_is_no_stop(search):
    for row in run(search, random_trigram(5, 6, stop=5.0), limits(4, min_length=4)):
        assert all(len(hypothesis.tokens) == 4 and not hypothesis.finished for hypothesis in row)


@each_search
def test_a_model_that_stops_at_once_gives_empty_text(search):
    for row in run(search, random_trigram(3, 6, stop=200.0), limits(4)):
        assert row[0].tokens == ()
        assert row[0].finished
        assert row[0].log_probability == pytest.approx(0, abs=1e-6)


@each_search
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_log_probability_is_that_of_the_tokens_in_float32(search, dtype):
    model, bounds = random_trigram(11, 7, 8, stop=1.0), limits(9)
    model.table = model.table.to(dtype)
    for context, row in enumerate(run(search, model, bounds)):
        for hypothesis in row:
            total, written = 0.0, ()
            for token in hypothesis.tokens + (STOP,) * hypothesis.finished:
                total += model.log_p(context, written, bounds)[token]
                written += (token,)
            assert hypothesis.log_probability == pytest.approx(total, abs=1e-5)
            assert hypothesis.score == pytest.approx(total / len(written), abs=1e-5)


@each_search
@pytest.mark.parametrize("broken", [torch.nan, torch.inf])
def test_raises_on_logits_that_are_not_finite_with_the_step(search, broken):
    model = random_trigram(3, 6, stop=-torch.inf)
    model.table[2, START, 2:, 4] = broken  # the step after the first generated token
    with pytest.raises(DecodingError, match="at step 2 in row 2 of the batch"):
        run(search, model, limits(10))


@each_search
def test_raises_if_no_token_is_left(search):
    model = random_trigram(3, 4)
    with pytest.raises(DecodingError, match="no token is left for step 1 in row 0"):
        run(search, model, limits(5, min_length=1, forbidden=(1, 2, 3)))
    model.table[1, START, 2:, :] = -torch.inf  # after one token only a forbidden one is possible
    model.table[1, START, 2:, START] = 0
    with pytest.raises(DecodingError, match="no token is left for step 2 in row 1"):
        run(search, model, limits(5, min_length=1))


@each_search
def test_raises_on_tokens_outside_the_vocabulary(search):
    with pytest.raises(DecodingError, match="below the vocabulary size 4, got 9"):
        run(search, random_trigram(3, 4), limits(5, forbidden=(START, 9)))


@each_search
def test_gradients_are_off_but_the_state_stays_an_ordinary_tensor(search):
    model = random_trigram(3, 6, stop=-torch.inf)
    model.table.requires_grad_()
    seen = []
    step = model.step

    def spy(tokens, state):
        logits, state = step(tokens, state)
        seen.append(logits)
        return logits, state

    model.step = spy
    run(search, model, limits(3))
    assert not any(logits.requires_grad or logits.is_inference() for logits in seen)


@pytest.mark.parametrize("vocabulary", [1, 100, 128, 129, 255, 256, 257, 1000])
def test_searching_in_parts_also_returns_the_lowest_of_equals(vocabulary, monkeypatch):
    monkeypatch.setattr(sys.modules[most_likely.__module__], "SMALL", 0)
    rows, levels = torch.arange(40), torch.Generator().manual_seed(vocabulary)
    log_p = -torch.randint(2, 6, (40, vocabulary), generator=levels).float()
    best = torch.randint(vocabulary, (40,), generator=levels)
    log_p[rows, best] = -1.0
    log_p[20:, -1] = -1.0
    assert most_likely(log_p[:20], rows[:20], 0).tolist() == best[:20].tolist()
    assert most_likely(log_p, rows, 0).tolist() == log_p.numpy().argmax(1).tolist()
    equals = log_p.clamp(max=-2.0)
    assert most_likely(equals, rows, 0).tolist() == equals.numpy().argmax(1).tolist()
