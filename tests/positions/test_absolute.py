"""Tests of encodings with one vector per place: sinusoidal and learned (G1 to G4, G10)."""

import pytest
import torch
from torch import nn

from saccade.attention import MultiHeadAttention
from saccade.errors import PositionError, ShapeError
from saccade.positions import Grid, Learned, Sinusoidal
from saccade.positions.waves import frequencies

F64 = torch.float64


def test_the_waves_of_place_one_G1():
    row = Sinusoidal(4).table(torch.tensor([1]), F64)[0]
    expected = torch.tensor([0.841471, 0.540302, 0.010000, 0.999950], dtype=F64)
    torch.testing.assert_close(row, expected, atol=1e-6, rtol=0)


def test_vectors_are_bounded_unique_and_of_equal_length_G1_K11():
    table = Sinusoidal(128).table(torch.arange(50), F64)
    assert table.abs().max() <= 1
    torch.testing.assert_close(table.square().sum(-1), torch.full((50,), 64.0, dtype=F64))
    distance = torch.cdist(table, table) + torch.eye(50) * 100
    assert distance.min().item() == pytest.approx(1.9526, abs=1e-4)


def test_a_shift_is_a_rotation_G2():
    n, dim = 7, 128
    table = Sinusoidal(dim).table(torch.arange(60), F64)
    rotation = torch.zeros(dim, dim, dtype=F64)
    for j, w in enumerate(frequencies(dim, 10_000.0, torch.device("cpu"))):
        c, s = (w * n).cos(), (w * n).sin()
        rotation[2 * j : 2 * j + 2, 2 * j : 2 * j + 2] = torch.tensor([[c, s], [-s, c]])
    torch.testing.assert_close(table[:50] @ rotation.T, table[7:57], atol=1e-12, rtol=0)
    torch.testing.assert_close(rotation @ rotation.T, torch.eye(dim, dtype=F64), atol=1e-14, rtol=0)
    products = table @ table.T
    for k in range(20):
        diagonal = products.diagonal(k)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), atol=1e-12, rtol=0)


def test_one_frequency_per_dimension_has_no_rotation_M2():
    """With the exponent 2j/d in place of 2⌊j/2⌋/d, no matrix maps every place to the next one."""
    at, dims = torch.arange(61, dtype=F64)[:, None], torch.arange(16)
    angles = at * 10_000.0 ** -(2 * dims.to(F64) / 16)
    wrong = torch.where(dims % 2 == 0, angles.sin(), angles.cos())
    right = Sinusoidal(16).table(torch.arange(61), F64)
    errors = []
    for table in (right, wrong):
        shift = torch.linalg.lstsq(table[:-1], table[1:], driver="gelsd").solution
        errors.append((table[:-1] @ shift - table[1:]).abs().max().item())
    assert errors[0] < 1e-9
    assert errors[1] > 0.1


def test_frequencies_decrease_from_one_G3():
    w = frequencies(128, 10_000.0, torch.device("cpu"))
    assert w[0] == 1
    assert (w.diff() < 0).all()
    assert w[-1].item() == pytest.approx(10_000 ** -(126 / 128))


def test_halves_contain_the_same_waves():
    at = torch.arange(9)
    whole, halves = Sinusoidal(8).table(at, F64), Sinusoidal(8, layout="halves").table(at, F64)
    torch.testing.assert_close(halves, torch.cat((whole[:, 0::2], whole[:, 1::2]), -1))


def test_far_places_keep_their_precision():
    row = Sinusoidal(8).table(torch.tensor([10**6]), torch.float32)[0, 0]
    assert row.item() == pytest.approx(-0.349994, abs=1e-6)


def test_a_grid_has_rows_and_columns():
    table = Sinusoidal(16).table(Grid.of(3, 5, nowhere=1), F64)
    assert table.shape == (16, 16)
    assert (table[0] == 0).all()
    cells = table[1:].view(3, 5, 16)
    assert (cells[:, 0, :8] == cells[:, 4, :8]).all()
    assert (cells[0, :, 8:] == cells[2, :, 8:]).all()
    torch.testing.assert_close(cells[:, 0, :8], Sinusoidal(8).table(torch.arange(3), F64))
    assert torch.cdist(table, table).fill_diagonal_(9).min() > 0.1


def test_learned_is_a_table_G4():
    encoding = Learned(6, 10)
    assert sum(p.numel() for p in encoding.parameters()) == 60
    x = torch.randn(2, 3, 6)
    torch.testing.assert_close(
        encoding.embed(x, torch.tensor([4, 0, 9])), x + encoding.weight[[4, 0, 9]]
    )
    with pytest.raises(PositionError, match=r"place 10 .* beyond the 10 places"):
        encoding(torch.randn(2, 11, 6))


def test_a_learned_grid_starts_with_the_class_token():
    encoding = Learned(6, (2, 3))
    assert encoding.weight.shape == (7, 6)
    grid = Grid.of(2, 3, nowhere=1)
    torch.testing.assert_close(encoding.embed(torch.zeros(7, 6), grid), encoding.weight)
    torch.testing.assert_close(
        encoding.embed(torch.zeros(2, 6), grid[torch.tensor([0, 5])]), encoding.weight[[0, 5]]
    )
    with pytest.raises(PositionError, match=r"column 3 .* beyond the 3 places"):
        encoding.embed(torch.zeros(8, 6), Grid.of(2, 4))
    with pytest.raises(PositionError, match="needs a Grid"):
        encoding(torch.zeros(7, 6))
    with pytest.raises(PositionError, match="for text"):
        Learned(6, 10).embed(torch.zeros(7, 6), grid)


@pytest.mark.parametrize("encoding", [Sinusoidal(6, fuse="concat"), Learned(6, 20, fuse="concat")])
def test_concatenated_is_wider_G10(encoding):
    x = torch.randn(2, 5, 7)
    out = encoding(x)
    assert encoding.widening == 6
    assert out.shape == (2, 5, 13)
    assert torch.equal(out[..., :7], x)
    torch.testing.assert_close(out[1, :, 7:], encoding.table(torch.arange(5), torch.float32))


@pytest.mark.parametrize("fuse", ["none", "add", "concat"])
def test_added_and_concatenated_positions_learn_order_G10(fuse):
    """Which of two words comes first: impossible without positions, learned with them."""
    words = nn.Embedding(6, 8)
    where = {"none": nn.Identity, "add": lambda: Sinusoidal(8)}
    where = where.get(fuse, lambda: Sinusoidal(4, fuse="concat"))()
    dim = 12 if fuse == "concat" else 8
    attention, head = MultiHeadAttention(dim, 2), nn.Linear(dim, 2)
    modules = nn.ModuleList((words, attention, head))
    assert head.in_features == 8 + (4 if fuse == "concat" else 0)
    tokens = torch.tensor([[i, j] for i in range(6) for j in range(6) if i != j])
    label = (tokens[:, 0] < tokens[:, 1]).long()
    optimiser = torch.optim.Adam(modules.parameters(), 0.02)
    for _ in range(120):
        logits = head(attention(where(words(tokens))).mean(1))
        loss = nn.functional.cross_entropy(logits, label)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    right = (logits.argmax(-1) == label).float().mean().item()
    assert right == pytest.approx(0.5) if fuse == "none" else right > 0.95


def test_added_needs_equal_widths():
    with pytest.raises(ShapeError, match=r"width 6 .* width 7"):
        Sinusoidal(6)(torch.randn(2, 5, 7))
    with pytest.raises(ShapeError, match="divisible by 2, got 5"):
        Sinusoidal(5)


def test_places_may_differ_within_a_batch():
    at = torch.tensor([[0, 1, 0, 1, 2], [0, 1, 2, 3, 4]])
    x = torch.randn(2, 5, 6)
    for encoding in (Sinusoidal(6), Learned(6, 5)):
        out = encoding.embed(x, at)
        torch.testing.assert_close(out[0, 2:], encoding(x[:1, 2:])[0])
        torch.testing.assert_close(out[1], encoding(x[1:])[0])
