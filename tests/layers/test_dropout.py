"""Tests of dropout with cheap random numbers: the same distribution as torch's."""

import pytest
import torch

from saccade.errors import ShapeError
from saccade.layers.dropout import Dropout


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
def test_fraction_of_zeros_and_mean(p):
    torch.manual_seed(0)
    y = Dropout(p)(torch.ones(997, 1009))
    assert (y == 0).float().mean().item() == pytest.approx(p, abs=0.002)
    assert y.mean().item() == pytest.approx(1.0, abs=0.01)
    assert y[y != 0].unique().item() == pytest.approx(1 / (1 - p), rel=1e-3)


def test_neighbours_are_independent():
    torch.manual_seed(0)
    kept = (Dropout(0.5)(torch.ones(400_000)) != 0).float().view(-1, 4) - 0.5
    together = (kept.T @ kept) / len(kept) * 4
    torch.testing.assert_close(together, torch.eye(4), atol=0.02, rtol=0)


def test_same_seed_same_zeros_and_rows_differ():
    dropout, x = Dropout(0.5), torch.ones(7, 13)
    torch.manual_seed(3)
    first = dropout(x)
    torch.manual_seed(3)
    assert torch.equal(first, dropout(x))
    assert not torch.equal(first, dropout(x))


def test_the_gradient_is_zero_exactly_where_the_value_is():
    x = torch.randn(5, 3, 7, requires_grad=True)
    y = Dropout(0.4)(x)
    y.sum().backward()
    torch.testing.assert_close(x.grad, y.detach() / x.detach())


@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (3, 5)])
def test_works_for_any_shape(shape):
    assert Dropout(0.5)(torch.ones(shape)).shape == shape


@pytest.mark.parametrize("p", [-0.1, 1.0, float("nan")])
def test_raises_on_other_fractions(p):
    with pytest.raises(ShapeError, match="a fraction from 0"):
        Dropout(p)


def test_returns_the_input_in_evaluation_or_at_zero():
    x = torch.randn(3, 5)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x
