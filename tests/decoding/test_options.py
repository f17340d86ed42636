"""Tests of the options of generation: limits of length, and the length penalty."""

from itertools import pairwise

import pytest
import torch

from saccade.decoding import GenerationConfig, generate, length_bucket
from tests.decoding.steppers import START, limits, random_trigram


@pytest.mark.parametrize("ratio", [0.5, 2.0, 3.7])
def test_limits_change_at_steps_of_eight(ratio):
    options = GenerationConfig(max_length=10_000, max_ratio=ratio)
    limits = [options.longest(length) for length in range(200)]
    assert all(limit >= int(ratio * length) + 10 for length, limit in enumerate(limits))
    assert all(limit <= int(ratio * (length + 7)) + 10 for length, limit in enumerate(limits))
    changes = [length for length, (a, b) in enumerate(pairwise(limits), 1) if a != b]
    assert changes == list(range(7, 200, 8))  # 8, 16, … with the stop token
    assert [length_bucket(length) for length in (6, 7, 14, 15)] == [0, 1, 1, 2]


def test_limits_never_exceed_max_length():
    assert GenerationConfig(max_length=30).longest(1000) == 30
    assert GenerationConfig(max_length=30).longest(0) == 22


@pytest.mark.parametrize("penalty", [0.0, 0.6, 2.0])
@pytest.mark.parametrize(
    "search", [{"beam": 1}, {"beam": 3}, {"sample": True}], ids=["greedy", "beam", "sampling"]
)
def test_the_length_penalty_changes_the_score_of_every_search(search, penalty):
    model = random_trigram(5, 7, 2, stop=-1.0)
    [[best, *_], _] = generate(
        model,
        model.start(torch.arange(2)),
        start=START,
        limits=limits(8),
        options=GenerationConfig(**search, length_penalty=penalty),
        rows=[0, 1],
    )
    length = len(best.tokens) + best.finished
    assert length > 1
    assert best.score == pytest.approx(best.log_probability / length**penalty)
