"""Tests of streams: tokens of greedy search and sampling one by one, and sliding windows."""

import itertools

import pytest
import torch

from saccade.decoders.transformer import TransformerDecoderConfig
from saccade.decoding import (
    GenerationConfig,
    GenerationLimits,
    Windowed,
    beam_search,
    greedy,
    sample,
    stream,
)
from saccade.errors import DecodingError
from saccade.models.language_models import LanguageModelConfig
from saccade.positions import LearnedConfig, RotaryConfig
from tests.decoding.steppers import START, STOP, InPlace, limits, random_trigram, run

FIRST = torch.tensor([START])


def streamed(model, context, bounds, **options):
    state = model.start(torch.tensor([context]))
    return stream(model, state, FIRST, bounds, options=GenerationConfig(**options))


@pytest.mark.parametrize(
    "options",
    [{}, {"temperature": 0.4}, {"top_k": 3}, {"top_p": 0.6}, {"temperature": 2.0, "top_k": 4}],
    ids=str,
)
def test_a_sampled_stream_equals_sample(options):
    model, bounds = random_trigram(31, 7, kind=InPlace), limits(9, min_length=2)
    sampled = run(sample, model, bounds, seeds=range(5, 36), **options)
    assert {hypothesis.finished for [hypothesis] in sampled} == {True, False}
    for context, [hypothesis] in enumerate(sampled):
        tokens = streamed(model, context, bounds, sample=True, seed=5 + context, **options)
        assert tuple(tokens) == hypothesis.tokens


@pytest.mark.parametrize("options", [{}, {"sample": True, "temperature": 0.0}], ids=str)
def test_any_other_stream_equals_greedy(options):
    model, bounds = random_trigram(31, 7, stop=1.0, kind=InPlace), limits(9)
    for context, [hypothesis] in enumerate(run(greedy, model, bounds)):
        assert tuple(streamed(model, context, bounds, **options)) == hypothesis.tokens


def test_the_row_is_added_to_the_seed():
    model = random_trigram(1, 7)
    [[hypothesis]] = run(sample, model, limits(9), seeds=[12])
    state, options = model.start(torch.tensor([0])), GenerationConfig(sample=True, seed=5)
    assert (
        tuple(stream(model, state, FIRST, limits(9), options=options, row=7)) == hypothesis.tokens
    )


def test_a_token_is_yielded_before_the_next_is_generated():
    model = random_trigram(1, 7, stop=-9.0)
    tokens = streamed(model, 0, limits(6))
    for number in range(1, 4):
        assert next(tokens) != STOP
        assert len(model.steps) == number
        assert torch.is_grad_enabled()  # disabled only while the model steps


def test_raises_at_once_on_what_cannot_be_streamed():
    model = random_trigram(1, 7)
    with pytest.raises(DecodingError, match="the text of a beam of 3 is not known before it ends"):
        streamed(model, 0, limits(6), beam=3)
    with pytest.raises(DecodingError, match="top_p must be above 0"):
        streamed(model, 0, limits(6), sample=True, top_p=1.5)
    with pytest.raises(DecodingError, match="a seed must be between"):
        streamed(model, 0, limits(6), sample=True, seed=2**64)


def test_beams_and_sampling_exclude_each_other():
    sampled = GenerationConfig(sample=True, temperature=0.5)
    assert sampled.changed({"beam": 4}) == GenerationConfig(beam=4, temperature=0.5)
    assert not sampled.changed({"beam": 1}).sample
    assert sampled.changed({"temperature": 2.0}).sample
    beams = GenerationConfig(beam=5, num_best=2)
    assert beams.changed({"sample": True}) == GenerationConfig(sample=True)
    assert beams.changed({"beam": 3}) == GenerationConfig(beam=3, num_best=2)
    with pytest.raises(DecodingError, match="sampling has no beams"):
        sampled.changed({"beam": 4, "sample": True})
    with pytest.raises(DecodingError, match=r"'heat' is not an option .* use one of: beam, length"):
        sampled.changed({"heat": 1.0})


SIZE = 6


@pytest.fixture(params=["learned", "rotary"])
def model(request):
    """A language model with as many positions as the window."""
    position = {"learned": LearnedConfig(length=SIZE), "rotary": RotaryConfig()}[request.param]
    block = TransformerDecoderConfig(num_layers=2, num_heads=2, hidden_dim=16, position=position)
    model = LanguageModelConfig(decoder=block, dim=8, tie_output=False).build(11).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(3.0)
    return model


def slow(model, prompt, count, size=SIZE):
    """Continue greedily, reading the complete window again for each token."""
    window, written = list(prompt[-size:]), []
    for _ in range(count):
        with torch.no_grad():
            written.append(int(model(torch.tensor([window]))[0, -1, 1:].argmax()) + 1)
        if len(window) == size:
            window = window[size - size // 2 :]
        window.append(written[-1])
    return tuple(written)


NO_STOP = GenerationLimits(stop=0, max_length=20, min_length=20)


def windowed(search, model, prompts, size=SIZE, bounds=NO_STOP, **options):
    read, window = torch.tensor(prompts), Windowed(model, size)
    with torch.no_grad():
        state = window.start(read)
    return search(window, state, read[:, -1], bounds, **options)


@pytest.mark.parametrize("length", [1, 2, SIZE - 1, SIZE, SIZE + 1, 15])
def test_a_full_window_keeps_its_last_half(model, length):
    prompts = [[(i * (j + 2) + 3) % 10 + 1 for j in range(length)] for i in range(1, 5)]
    rows = windowed(greedy, model, prompts)
    assert [h.tokens for [h] in rows] == [slow(model, prompt, 20) for prompt in prompts]
    assert len({token for [h] in rows for token in h.tokens}) > 3


@pytest.mark.parametrize("size", [1, 2, 3])
def test_small_windows_equal_the_naive_loop(model, size):
    [[hypothesis]] = windowed(greedy, model, [[1, 2, 3]], size)
    assert hypothesis.tokens == slow(model, [1, 2, 3], 20, size)


def test_a_window_that_is_not_full_changes_nothing(model):
    bounds, read = GenerationLimits(stop=0, max_length=3), torch.tensor([[1, 2, 3]])
    for search, options in ((greedy, {}), (sample, {"seeds": [3]}), (beam_search, {"beam": 3})):
        with torch.no_grad():
            state = model.start(read)
        plain = search(model, state, read[:, -1], bounds, **options)
        assert windowed(search, model, [[1, 2, 3]], bounds=bounds, **options) == plain


def test_beams_and_finished_rows_work_in_a_window(model):
    bounds = GenerationLimits(stop=0, max_length=14)
    prompts = [list(pair) for pair in itertools.permutations(range(1, 5), 2)]
    together = windowed(sample, model, prompts, bounds=bounds, seeds=range(12))
    assert {hypothesis.finished for [hypothesis] in together} == {True, False}
    for seed, (prompt, [hypothesis]) in enumerate(zip(prompts, together, strict=True)):
        [[alone]] = windowed(sample, model, [prompt], bounds=bounds, seeds=[seed])
        assert alone.tokens == hypothesis.tokens
    beams = windowed(beam_search, model, prompts[:2], beam=3, num_best=3)
    for prompt, hypotheses in zip(prompts, beams, strict=False):
        [alone] = windowed(beam_search, model, [prompt], beam=3, num_best=3)
        assert [h.tokens for h in alone] == [h.tokens for h in hypotheses]
        assert all(len(h.tokens) == 20 for h in hypotheses)


def test_raises_on_an_empty_window(model):
    with pytest.raises(DecodingError, match="at least 1 token, got 0"):
        Windowed(model, 0)
