"""Tests of conditional positions: computed from neighbours, at any resolution (G9)."""

import pytest
import torch

from saccade.errors import PositionError
from saccade.positions import Conditional, Grid

D = 6


def test_equals_a_depthwise_convolution_on_the_grid():
    position = Conditional(D)
    image = torch.randn(2, D, 4, 5)
    tokens = image.flatten(2).transpose(1, 2)
    out = position.embed(tokens, Grid.of(4, 5))
    expected = image + position.convolution(image)
    torch.testing.assert_close(out, expected.flatten(2).transpose(1, 2))


def test_works_at_another_resolution_and_keeps_the_class_token():
    """Any resolution, without a table to resize (G9)."""
    position = Conditional(D)
    for height, width in ((4, 5), (7, 3)):
        x = torch.randn(2, 1 + height * width, D)
        out = position.embed(x, Grid.of(height, width, nowhere=1))
        assert out.shape == x.shape
        assert torch.equal(out[:, 0], x[:, 0])
        assert (out[:, 1:] != x[:, 1:]).any()


def test_shifts_with_the_image_away_from_the_borders():
    """Equivariant to translation (G9)."""
    position = Conditional(D)
    grid = Grid.of(8, 8)
    image = torch.zeros(1, 8, 8, D)
    image[:, 2:5, 2:5] = torch.randn(1, 3, 3, D)
    moved = image.roll((1, 2), (1, 2))
    out = position.embed(image.view(1, 64, D), grid).view(1, 8, 8, D)
    of_moved = position.embed(moved.view(1, 64, D), grid).view(1, 8, 8, D)
    torch.testing.assert_close(of_moved[:, 2:7, 3:8], out[:, 1:6, 1:6])


def test_text_is_a_grid_of_one_row():
    position, x = Conditional(D), torch.randn(2, 7, D)
    row = position.convolution(x.transpose(1, 2)[:, :, None])[:, :, 0].transpose(1, 2)
    torch.testing.assert_close(position(x), x + row)


def test_gradients_reach_tokens_and_weights():
    position, x = Conditional(D), torch.randn(2, 7, D, requires_grad=True)
    position(x).pow(2).sum().backward()
    assert x.grad.isfinite().all()
    assert position.convolution.weight.grad.abs().sum() > 0


def test_raises_on_even_kernels_and_places_per_item():
    with pytest.raises(PositionError, match="odd kernel_size, got 4"):
        Conditional(D, 4)
    with pytest.raises(PositionError, match=r"all rows of the batch share, got shape \(2, 3\)"):
        Conditional(D).embed(torch.randn(2, 3, D), torch.zeros(2, 3, dtype=torch.long))
