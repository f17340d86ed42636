"""Tests of the fast choice of the largest values against a stable sort."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.decoding.stepping import largest


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 40),
    count=st.integers(1, 50),
    spread=st.integers(1, 80),
)
def test_largest_equals_a_stable_sort(seed, n, count, spread):
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(0, spread, (3, n), generator=generator).float()  # many are equal
    values[values == 0] = -torch.inf
    top, places = largest(values, count)
    expected, order = values.sort(stable=True, descending=True)
    assert torch.equal(top, expected[:, :count])
    alive = top > -torch.inf
    assert torch.equal(places[alive], order[:, :count][alive])
