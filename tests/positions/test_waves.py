"""Rotation by complex numbers equals rotation by parts, however the vectors lie in memory."""

import pytest
import torch

from saccade.positions.waves import angles, rotated, rotated_in_parts

N, HEADS, D = 7, 3, 10

VIEWS = {
    "contiguous": torch.Tensor.clone,
    "heads of a packed projection": lambda x: (
        torch.cat((x, x, x), -1)[..., D : 2 * D].unsqueeze(0).transpose(1, 2)
    ),
    "odd offset": lambda x: torch.cat((x[..., :1], x), -1)[..., 1:],
    "odd offset of one vector": lambda x: torch.cat((x.new_zeros(1), x.flatten()))[1:].view_as(x),
    "every second number": lambda x: x.repeat_interleave(2, -1)[..., ::2],
    "expanded": lambda x: x[:1].expand(5, -1, -1),
}


def twin_results(view, layout, dtype):
    torch.manual_seed(0)
    base = torch.randn(N, HEADS, D, dtype=dtype)
    angle = angles(torch.arange(view(base).shape[-2]), D, 100.0)
    for function in (
        lambda x: rotated(x, angle, layout),
        lambda x: rotated_in_parts(x, angle.cos().to(dtype), angle.sin().to(dtype), layout),
    ):
        x = base.clone().requires_grad_()
        result = function(view(x))
        (result * torch.arange(result.numel(), dtype=dtype).view_as(result).sin()).sum().backward()
        yield result, x.grad


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("layout", ["interleaved", "halves"])
@pytest.mark.parametrize("view", VIEWS)
def test_equals_the_rotation_of_the_parts(view, layout, dtype):
    ours, reference = twin_results(VIEWS[view], layout, dtype)
    for a, b in zip(ours, reference, strict=True):
        torch.testing.assert_close(a, b)


def test_learned_angles_have_the_same_gradient():
    torch.manual_seed(0)
    x, angle = torch.randn(N, D, dtype=torch.float64), torch.randn(N, D // 2, dtype=torch.float64)
    angle.requires_grad_()
    assert torch.autograd.gradcheck(lambda angle: rotated(x, angle), angle)
