"""Arrays as JSON."""

import json

import numpy as np
import pytest

from saccade.lens import formatting
from saccade.lens.formatting import AT_ONCE, numbers_json


@pytest.mark.parametrize(
    "shape", [(), (0,), (3,), (2, 0), (2, 3), (2, 0, 3), (3, 101, 103), (2, AT_ONCE)]
)
def test_numbers_equal_those_of_the_json_module(shape):
    numbers = np.random.default_rng(0).random(shape, dtype=np.float32)
    rounded = np.round(numbers.astype(np.float64), 5).tolist()
    assert json.loads("".join(numbers_json(numbers, 5))) == rounded


def test_each_call_writes_a_limited_number_of_values(monkeypatch):
    """Each call holds the interpreter lock, so none may serialise all of a large record."""
    sizes, to_json = [], formatting.to_json

    def counted(numbers):
        sizes.append(np.size(numbers))
        return to_json(numbers)

    monkeypatch.setattr(formatting, "to_json", counted)
    pieces = list(numbers_json(np.zeros((4, 8, 173, 181), dtype=np.float32), 5))
    assert len(pieces) > len(sizes) > 4 * 8
    assert sum(sizes) == 4 * 8 * 173 * 181
    assert max(sizes) <= AT_ONCE


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_raises_on_numbers_that_are_not_finite(wrong):
    with pytest.raises(ValueError, match="finite"):
        list(numbers_json(np.array([[0.5, wrong]]), 5))
