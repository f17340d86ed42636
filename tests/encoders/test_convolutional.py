"""Tests of the compact ResNet and of encoders over a grid of features (C1, D4, H9)."""

import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from saccade.attention import Attend, ScaledDot
from saccade.encoders.convolutional import (
    ConvolutionStem,
    FeatureMap,
    GridEncoder,
    ResidualBlock,
    ResNet,
    ResNetConfig,
    Shortcut,
)
from saccade.encoders.transformer import TransformerEncoder, TransformerEncoderLayer
from saccade.errors import MaskError, ShapeError
from saccade.layers.block import BlockConfig
from saccade.models.image_classifier import ConvolutionalClassifierConfig

B, D, ROWS, COLUMNS, OUT = 3, 7, 5, 2, 11


@pytest.mark.parametrize(
    "network",
    [
        "from saccade.encoders.convolutional import ResNet; network = ResNet(3, (6, 8), 1)",
        "from saccade.encoders.patches import OverlappingPatchStem as Stem; network = Stem(24, 4)",
    ],
)
def test_channels_last_in_memory_do_not_crash_the_backward_pass(network):
    """It runs in its own process, because the crash is a memory error."""
    code = f"""
import torch
{network}
image = torch.randn(4, 3, 16, 16).to(memory_format=torch.channels_last)
result = network(image)
(result if isinstance(result, torch.Tensor) else result[0]).sum().backward()
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("memory", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(("input_dim", "dim"), [(1, 6), (3, 4), (5, 7), (6, 12), (8, 16)])
@pytest.mark.parametrize("stride", [1, 2])
def test_a_shortcut_equals_a_convolution_with_correct_gradients(memory, input_dim, dim, stride):
    shortcut, plain = Shortcut(input_dim, dim, stride), nn.Conv2d(input_dim, dim, 1, stride)
    plain.load_state_dict({"weight": shortcut.weight, "bias": torch.zeros(dim)})
    image = torch.randn(B, input_dim, 7, 4)
    inputs, plain_inputs = (
        image.clone(memory_format=memory).requires_grad_(),
        image.requires_grad_(),
    )
    actual, expected = shortcut(inputs), plain.double()(plain_inputs.double())
    weights = torch.randn(actual.shape)
    (actual * weights).sum().backward()
    (expected * weights).sum().backward()
    for ours, theirs in (
        (actual, expected),
        (shortcut.weight.grad, plain.weight.grad),
        (inputs.grad, plain_inputs.grad),
    ):
        assert torch.allclose(ours.double(), theirs.double(), atol=1e-5)


@pytest.mark.parametrize("widths", [(8, 16), (6, 10)])
def test_with_group_norm_no_image_depends_on_its_batch(widths):
    images = torch.randn(B, 3, 8, 8)
    for norm, alone in (("group", True), ("batch", False)):
        network = ResNet(widths=widths, blocks=1, norm=norm).train()
        together = network(images)
        first = network(images[:1])
        assert torch.allclose(together[:1], first, atol=1e-5) is alone
    assert ResNetConfig().norm == "group", "a reader's batches hold captions of like length"
    assert ConvolutionalClassifierConfig().norm == "batch"


@pytest.mark.parametrize(
    ("size", "stem_stride", "grid"),
    [((32, 32), 1, (8, 8)), ((28, 28), 1, (7, 7)), ((64, 48), 2, (8, 6)), ((29, 31), 1, (8, 8))],
)
def test_shapes_C1(size, stem_stride, grid):
    network = ResNet(channels=1, widths=(4, 6, 10), blocks=1, stem_stride=stem_stride)
    assert network.dim == 10
    assert network(torch.randn(B, 1, *size)).shape == (B, 10, *grid)


@pytest.mark.parametrize("blocks", [1, 2, 3])
def test_a_resnet_equals_the_composition_of_its_blocks_H9(blocks):
    network = ResNet(widths=(4, 6), blocks=blocks).eval()
    assert len(network.blocks) == 2 * blocks
    image = torch.randn(B, 3, 13, 11)
    x = network.stem(image)
    for block in network.blocks:
        x = torch.relu(block.convolutions(x) + block.shortcut(x))
    torch.testing.assert_close(network(image), x, rtol=0, atol=0)


def test_a_block_with_zero_convolutions_returns_its_input_H9():
    block = ResidualBlock(D, D)
    nn.init.zeros_(block.convolutions[-1].weight)
    x = torch.rand(B, D, ROWS, COLUMNS)
    torch.testing.assert_close(block(x), x, rtol=0, atol=0)
    assert not list(block.shortcut.parameters())


@pytest.mark.parametrize(("width", "stride"), [(OUT, 1), (D, 2), (OUT, 2)])
def test_the_shortcut_is_a_convolution_if_the_shape_changes(width, stride):
    block = ResidualBlock(D, width, stride)
    assert block(torch.randn(B, D, 6, 10)).shape == (B, width, 6 // stride, 10 // stride)
    assert block.shortcut[0].weight.shape == (width, D, 1, 1)


def test_every_weight_gets_a_gradient():
    encoder = GridEncoder(ResNet(widths=(4, 6)), OUT)
    memory = encoder(torch.randn(B, 3, 12, 12))
    (memory.states.square().mean() + memory.summary.square().mean()).backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in encoder.parameters())


def squares(count):
    """Noise with a bright square on the left (class 0) or on the right (class 1)."""
    images, labels = 0.3 * torch.randn(count, 1, 16, 16), torch.arange(count) % 2
    for image, label in zip(images, labels, strict=True):
        top, left = torch.randint(0, 12, ()), torch.randint(0, 4, ()) + 8 * label
        image[0, top : top + 4, left : left + 4] += 1
    return images, labels


class Baseline(nn.Module):
    """The classifier reads the complete grid, since the mean has no left and right."""

    def __init__(self):
        super().__init__()
        self.network = ResNet(channels=1, widths=(8, 16), blocks=1, stem_stride=2)
        self.head = nn.Linear(16 * 4 * 4, 2)

    def forward(self, image):
        return self.head(self.network(image).flatten(1))


def test_learns_left_from_right():
    model = Baseline()
    optimiser = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(40):
        images, labels = squares(32)
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimiser.step()
    images, labels = squares(200)
    assert (model.eval()(images).argmax(-1) == labels).all()


def test_the_grid_is_flattened_row_by_row_D4():
    grid = torch.randn(B, D, ROWS, COLUMNS)
    memory = GridEncoder(FeatureMap(D))(grid)
    assert memory.states.shape == (B, ROWS * COLUMNS, D)
    for row in range(ROWS):
        for column in range(COLUMNS):
            assert (memory.states[:, row * COLUMNS + column] == grid[:, :, row, column]).all()


def test_attention_over_the_grid_equals_attention_over_the_flat_set_D4():
    grid, query = torch.randn(B, D, ROWS, COLUMNS), torch.randn(B, 1, D)
    scores = torch.einsum("bd,bdij->bij", query[:, 0], grid) / D**0.5
    weights = scores.exp() / scores.exp().sum((1, 2), keepdim=True)
    expected = torch.einsum("bij,bdij->bd", weights, grid)
    states = GridEncoder(FeatureMap(D))(grid).states
    context = Attend(ScaledDot())(query, states, states)
    torch.testing.assert_close(context[:, 0], expected)


def test_projection_and_summary_equal_their_formulas():
    encoder = GridEncoder(FeatureMap(D), OUT)
    grid = torch.randn(B, D, ROWS, COLUMNS)
    memory = encoder(grid)
    assert (encoder.dim, memory.mask) == (OUT, None)
    by_one_by_one = nn.functional.conv2d(
        grid, encoder.stem.project.weight[:, :, None, None], encoder.stem.project.bias
    )
    torch.testing.assert_close(memory.states, by_one_by_one.flatten(2).transpose(1, 2))
    torch.testing.assert_close(memory.summary, by_one_by_one.mean((2, 3)))
    assert memory.pooled() is memory.summary


def test_masked_cells_are_not_in_the_summary():
    grid = torch.randn(B, D, ROWS, COLUMNS)
    mask = torch.zeros(B, ROWS * COLUMNS, dtype=torch.bool)
    mask[:, :4] = True
    memory = GridEncoder(FeatureMap(D))(grid, mask=mask)
    assert memory.mask is mask
    torch.testing.assert_close(memory.summary, grid[:, :, :2].mean((2, 3)))


def test_cached_features_equal_live_ones_C1(tmp_path):
    live = GridEncoder(ResNet(widths=(4, 6)), OUT).eval()
    cached = GridEncoder(FeatureMap(6), OUT)
    cached.stem.project.load_state_dict(live.stem.project.state_dict())
    images = torch.randn(B, 3, 12, 14)
    with torch.no_grad():
        save_file({"features": live.stem.network(images)}, tmp_path / "features.safetensors")
        memory, expected = cached(**load_features(tmp_path)), live(images)
    assert (memory.states == expected.states).all()
    assert (memory.summary == expected.summary).all()


def load_features(folder):
    return {"image": load_file(folder / "features.safetensors")["features"]}


def test_a_transformer_reads_the_grid():
    stem = ConvolutionStem(ResNet(widths=(4, 6), blocks=1), OUT + 1)
    x, places = stem(torch.randn(B, 3, 10, 4))
    assert x.shape == (B, ROWS * COLUMNS, OUT + 1)
    assert places.rows.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert places.columns.tolist() == [0, 1] * ROWS
    reader = TransformerEncoder(stem, [TransformerEncoderLayer(OUT + 1, BlockConfig(num_heads=3))])
    assert reader(torch.randn(B, 3, 10, 4)).states.shape == (B, ROWS * COLUMNS, OUT + 1)


def test_a_network_without_dim_needs_input_dim():
    network = nn.Conv2d(3, D, 1)
    with pytest.raises(ShapeError, match="width of the features of Conv2d is unknown"):
        GridEncoder(network)
    encoder = GridEncoder(network, input_dim=D)
    assert encoder(torch.randn(B, 3, 4, 4)).states.shape == (B, 16, D)


def test_raises_on_inputs_that_do_not_fit():
    with pytest.raises(ShapeError, match=r"\(batch, 7, rows, columns\) from FeatureMap"):
        GridEncoder(FeatureMap(D))(torch.randn(B, D + 1, ROWS, COLUMNS))
    with pytest.raises(ShapeError, match="images of 3 channels, got 1"):
        ResNet()(torch.randn(B, 1, 8, 8))
    with pytest.raises(ShapeError, match="at least one width and one block"):
        ResNet(widths=())
    with pytest.raises(ShapeError, match="blocks=0"):
        ResNet(blocks=0)
    with pytest.raises(MaskError, match=r"\(3, 9\) does not fit 3 grids of 10 cells"):
        GridEncoder(FeatureMap(D))(
            torch.randn(B, D, ROWS, COLUMNS), mask=torch.ones(B, 9, dtype=torch.bool)
        )
