"""Cancelled decoding takes no further step, by any search."""

import pytest
import torch

from saccade.cancellation import Cancelled, cancellable
from saccade.decoding import GenerationConfig, GenerationLimits, generate, stream
from tests.decoding.steppers import START, STOP, random_trigram

ENDLESS = GenerationLimits(stop=STOP, max_length=40, min_length=40)
OPTIONS = {
    "greedy": GenerationConfig(),
    "beam": GenerationConfig(beam=3, num_best=2),
    "sample": GenerationConfig(sample=True, top_k=3),
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_no_step_is_taken_after_cancellation(options):
    rows = 4
    model = random_trigram(rows, 7)

    def written():
        state = model.start(torch.arange(rows))
        return generate(
            model, state, start=START, limits=ENDLESS, options=options, rows=range(rows)
        )

    with cancellable(lambda: len(model.steps) == 5), pytest.raises(Cancelled):
        written()
    assert len(model.steps) == 5
    written()
    assert len(model.steps) == 5 + 40


@pytest.mark.parametrize("way", ["greedy", "sample"])
def test_a_stream_ends_on_cancellation(way):
    model = random_trigram(1, 7)
    first = torch.tensor([START])
    tokens = stream(model, model.start(torch.tensor([0])), first, ENDLESS, options=OPTIONS[way])
    with cancellable(lambda: len(model.steps) == 5), pytest.raises(Cancelled):
        list(tokens)
    assert len(model.steps) == 5
