"""Tests of relative positions in text and in images, rotary and complex ones (G5 to G8)."""

import pytest
import torch

from saccade.attention import MultiHeadAttention
from saccade.errors import PositionError, ShapeError
from saccade.positions import Buckets, BucketsConfig, Complex, Grid, Relative, Relative2d, Rotary

F64 = torch.float64
B, H, D = 2, 3, 8


def test_relative_equals_the_sum_over_pairs_G5():
    position = Relative(D, 3).double()
    assert position.weight.shape == (7, D)
    query, at = torch.randn(B, H, 6, D, dtype=F64), torch.arange(6)
    got = position.bias(query, at, at)
    for i in range(6):
        for j in range(6):
            vector = position.weight[max(-3, min(3, j - i)) + 3]
            torch.testing.assert_close(got[:, :, i, j], query[:, :, i] @ vector / D**0.5)


def test_shifting_every_place_changes_nothing_G5():
    position = Relative(D, 3).double()
    query, at = torch.randn(B, H, 6, D, dtype=F64), torch.arange(6)
    shifted = position.bias(query, at + 100, at + 100)
    torch.testing.assert_close(shifted, position.bias(query, at, at), atol=1e-10, rtol=0)


def test_relative_accepts_different_places_per_item():
    position = Relative(D, 3)
    query = torch.randn(B, H, 4, D)
    at = torch.tensor([[0, 1, 2, 3], [0, 0, 5, 1]])
    got = position.bias(query, at, at)
    torch.testing.assert_close(got[1:], position.bias(query[1:], at[1], at[1]))


def test_relative_2d_depends_on_offsets_only_G6():
    position = Relative2d(D, 3, 4).double()
    assert position.row_weight.shape == (5, D)
    assert position.column_weight.shape == (7, D)
    grid = Grid.of(3, 4, nowhere=1)
    query = torch.randn(D, dtype=F64).expand(1, 1, 13, D)
    bias = position.bias(query, grid, grid)[0, 0]
    by_offset = {}
    for i in range(1, 13):
        for j in range(1, 13):
            offset = (
                (grid.rows[j] - grid.rows[i]).item(),
                (grid.columns[j] - grid.columns[i]).item(),
            )
            value = by_offset.setdefault(offset, bias[i, j])
            torch.testing.assert_close(bias[i, j], value)
    assert len(by_offset) == 35
    assert len({round(v.item(), 9) for v in by_offset.values()}) == 35
    assert (bias[0] == 0).all()
    assert (bias[:, 0] == 0).all()


def test_relative_2d_raises_on_other_grids_and_on_text():
    query = torch.randn(1, 1, 20, D)
    with pytest.raises(PositionError, match=r"4 columns apart, .* built for 4 columns"):
        Relative2d(D, 4, 4).bias(query, Grid.of(4, 5), Grid.of(4, 5))
    at = torch.arange(20)
    with pytest.raises(PositionError, match="needs a Grid"):
        Relative2d(D, 4, 5).bias(query, at, at)
    with pytest.raises(PositionError, match="use Relative2d there"):
        Relative(D, 4).bias(query, Grid.of(4, 5), Grid.of(4, 5))
    with pytest.raises(ShapeError, match="width 8 do not fit heads of width 6"):
        Relative(D, 4).bias(query[..., :6], at, at)


def test_relative_2d_works_inside_attention_on_a_grid():
    attention, position = MultiHeadAttention(16, 2), Relative2d(8, 3, 4)
    x, grid = torch.randn(2, 13, 16), Grid.of(3, 4, nowhere=1)
    out = attention(x, positions=position.on(grid))
    assert out.shape == (2, 13, 16)
    assert (out - attention(x)).abs().max() > 1e-4


@pytest.mark.parametrize("layout", ["interleaved", "halves"])
def test_rotary_depends_on_distance_only_G7(layout):
    position = Rotary(D, layout=layout)
    q, k = torch.randn(1, D, dtype=F64), torch.randn(1, D, dtype=F64)

    def product(m, n):
        a, b = position.rotate(q, k, torch.tensor([m]), torch.tensor([n]))
        return (a @ b.T).item()

    assert product(5, 2) == pytest.approx(product(105, 102), abs=1e-13)
    assert abs(product(5, 2) - product(5, 3)) > 1e-3
    assert product(0, 0) == pytest.approx((q @ k.T).item(), abs=1e-13)


def test_rotary_on_a_grid_depends_on_offsets_only():
    position, grid = Rotary(D), Grid.of(4, 4)
    q, k = torch.randn(1, D, dtype=F64).expand(16, D), torch.randn(1, D, dtype=F64).expand(16, D)
    a, b = position.rotate(q, k, grid, grid)
    products = (a @ b.T).view(4, 4, 4, 4)
    torch.testing.assert_close(products[0, 0, 1, 2], products[2, 1, 3, 3])
    assert (products[0, 0, 1, 2] - products[0, 0, 2, 1]).abs() > 1e-4


def test_a_token_without_a_place_is_not_rotated():
    q = torch.randn(5, D)
    rotated, _ = Rotary(D).rotate(q, q, Grid.of(2, 2, nowhere=1), Grid.of(2, 2, nowhere=1))
    assert torch.equal(rotated[0], q[0])
    assert not torch.equal(rotated[4], q[4])


def test_rotary_equals_the_complex_product_G8():
    x, at = torch.randn(6, D, dtype=F64), torch.arange(6)
    rotated, _ = Rotary(D).rotate(x, x, at, at)
    complex_embedding = Complex(D).double()
    with torch.no_grad():
        complex_embedding.frequency.copy_(10_000.0 ** -(torch.arange(0, D, 2, dtype=F64) / D))
    torch.testing.assert_close(complex_embedding(x), rotated, atol=1e-14, rtol=0)


def test_complex_shifts_by_multiplication_G8():
    position = Complex(D).double()
    torch.nn.init.normal_(position.frequency)
    word = torch.randn(1, D, dtype=F64)
    at = lambda p: torch.view_as_complex(  # noqa: E731
        position.embed(word, torch.tensor([p])).view(D // 2, 2)
    )
    step = torch.exp(1j * position.frequency.detach() * 4)
    torch.testing.assert_close(at(7), at(3) * step)
    torch.testing.assert_close(at(0), torch.view_as_complex(word.view(D // 2, 2)))


def test_raises_on_wrong_widths():
    x, at = torch.randn(3, 6), torch.arange(3)
    with pytest.raises(ShapeError, match="width 8, got 6"):
        Rotary(8).rotate(x, x, at, at)
    with pytest.raises(ShapeError, match="width 8, got 6"):
        Complex(8)(x)
    with pytest.raises(ShapeError, match="divisible by 2, got 7"):
        Rotary(7)
    with pytest.raises(ShapeError, match="divisible by 4, got 6"):
        Rotary(6).rotate(x[:2], x[:2], Grid.of(1, 2), Grid.of(1, 2))
    with pytest.raises(PositionError, match="Complex works on text"):
        Complex(6).embed(x[:2], Grid.of(1, 2))


def test_relative_never_builds_a_tensor_of_pairs_and_widths():
    """(q, k, d) at 1 024 x 1 024 x 64 would be 64 Mi numbers; the largest tensor is (q, k)."""
    from torch.utils._python_dispatch import TorchDispatchMode

    sizes = []

    class Sizes(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            tensors = out if isinstance(out, tuple | list) else (out,)
            sizes.extend(t.numel() for t in tensors if isinstance(t, torch.Tensor))
            return out

    query, at = torch.randn(1, 1, 1024, 64, requires_grad=True), torch.arange(1024)
    with Sizes():
        Relative(64, 16).bias(query, at, at).sum().backward()
    assert 1024 * 1024 <= max(sizes) < 2 * 1024 * 1024


def test_buckets_are_those_of_the_distances() -> None:
    """With 8 buckets and 16 as the largest distance, 0 to 3 have their own in a causal stack."""
    buckets = BucketsConfig(num_buckets=8, max_distance=16).build(12, 3, 4, causal=True)
    assert isinstance(buckets, Buckets)
    assert buckets.weight.shape == (8, 4)
    distances = torch.tensor([[5, 0, -1, -3, -4, -8, -15, -16, -99]])
    # 4 + floor(4 · log(n / 4) / log(16 / 4))
    assert buckets.bucket(distances).tolist() == [[0, 0, 1, 3, 4, 6, 7, 7, 7]]
    both = BucketsConfig(num_buckets=8, max_distance=16).build(12, 3, 4)
    assert both.bucket(distances[:, :4]).tolist() == [[6, 0, 1, 2]]
    query, at = torch.randn(2, 4, 5, 3), torch.arange(5)
    one = both.bias(query, at, at)
    assert one.shape == (2, 4, 5, 5)
    assert torch.equal(both.bias(query, at.expand(2, 5), 7 + at.expand(2, 5) - 7), one)


@pytest.mark.parametrize(
    ("options", "key"),
    [({"num_buckets": 3}, "num_buckets"), ({"num_buckets": 8, "max_distance": 4}, "max_distance")],
)
def test_buckets_that_cannot_be_told_apart_are_a_conflict(options, key) -> None:
    (conflict,) = BucketsConfig(**options).conflicts()
    assert conflict.key == key
    assert list(BucketsConfig(num_buckets=8, max_distance=5).conflicts()) == []
