"""Tests of EfficientNet-Lite0 against an independent computation from the tensors (C1)."""

import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F

from saccade.encoders.convolutional import GridEncoder
from saccade.encoders.efficientnet import (
    EfficientNetLite0,
    SameConvolution,
    same_padding,
)
from saccade.errors import ShapeError, WeightsError

DATA = os.environ.get("SACCADE_DATA")

# width, kernel and stride of the 16 blocks; all but the first expand six times
WIDTHS = [16, 24, 24, 40, 40, 80, 80, 80, 112, 112, 112, 192, 192, 192, 192, 320]
KERNELS = [3, 3, 3, 5, 5, 3, 3, 3, 5, 5, 5, 5, 5, 5, 5, 3]
STRIDES = [1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1, 1, 1, 1]


def shapes_in_file():
    """Every tensor of the published file and its shape."""
    shapes = {"_conv_stem.weight": (32, 3, 3, 3), **norm_shapes("_bn0", 32)}
    before = 32
    for i, (width, kernel) in enumerate(zip(WIDTHS, KERNELS, strict=True)):
        block, hidden = f"_blocks.{i}.", before * (6 if i else 1)
        if i:
            shapes[block + "_expand_conv.weight"] = (hidden, before, 1, 1)
            shapes |= norm_shapes(block + "_bn0", hidden)
        shapes[block + "_depthwise_conv.weight"] = (hidden, 1, kernel, kernel)
        shapes |= norm_shapes(block + "_bn1", hidden)
        shapes[block + "_project_conv.weight"] = (width, hidden, 1, 1)
        shapes |= norm_shapes(block + "_bn2", width)
        before = width
    shapes["_conv_head.weight"] = (1280, 320, 1, 1)
    shapes |= norm_shapes("_bn1", 1280)
    return shapes | {"_fc.weight": (1000, 1280), "_fc.bias": (1000,)}


def norm_shapes(name, width):
    return {f"{name}.{part}": (width,) for part in ("weight", "bias", *RUNNING)}


RUNNING = ("running_mean", "running_var")


def random_weights():
    """Random tensors under the names of the file, with which no features vanish."""
    weights = {}
    for name, shape in shapes_in_file().items():
        if len(shape) > 1:
            fan_in = shape[1] * shape[2] * shape[3] if len(shape) == 4 else shape[1]
            weights[name] = torch.randn(shape) * (2 / fan_in) ** 0.5
        elif name.endswith(("running_var", "weight")):
            weights[name] = 0.5 + torch.rand(shape)
        else:
            weights[name] = 0.2 * torch.randn(shape)
    return weights


@pytest.fixture(scope="module")
def weights():
    torch.manual_seed(5)
    return random_weights()


@pytest.fixture(scope="module")
def path(weights, tmp_path_factory):
    path = tmp_path_factory.mktemp("weights") / "random.safetensors"
    save_file(weights, path)
    return path


def naive_padding(size, kernel, stride):
    """Return by how much the windows of ceil(size / stride) outputs exceed the axis, per side."""
    starts = range(0, size, stride)
    beyond = max(starts[-1] + kernel - size, 0)
    return beyond // 2, (beyond + 1) // 2


def second_computation(weights, image):
    """Return (features, logits) by F.pad, F.conv2d and the formula of batch norm alone."""

    def convolve(x, name, stride=1, groups=1):
        kernel = weights[name + ".weight"]
        vertical = naive_padding(x.shape[2], kernel.shape[2], stride)
        horizontal = naive_padding(x.shape[3], kernel.shape[3], stride)
        return F.conv2d(F.pad(x, (*horizontal, *vertical)), kernel, stride=stride, groups=groups)

    def normalise(x, name):
        gamma, beta, mean, variance = (
            weights[f"{name}.{part}"].view(1, -1, 1, 1) for part in ("weight", "bias", *RUNNING)
        )
        return gamma * (x - mean) / torch.sqrt(variance + 0.001) + beta

    x = normalise(convolve(image, "_conv_stem", 2), "_bn0").clamp(0, 6)
    for i, stride in enumerate(STRIDES):
        block, before = f"_blocks.{i}.", x
        if block + "_expand_conv.weight" in weights:
            x = normalise(convolve(x, block + "_expand_conv"), block + "_bn0").clamp(0, 6)
        x = convolve(x, block + "_depthwise_conv", stride, groups=x.shape[1])
        x = normalise(x, block + "_bn1").clamp(0, 6)
        x = normalise(convolve(x, block + "_project_conv"), block + "_bn2")
        if x.shape == before.shape:
            x = x + before
    features = normalise(convolve(x, "_conv_head"), "_bn1").clamp(0, 6)
    return features, features.mean((2, 3)) @ weights["_fc.weight"].T + weights["_fc.bias"]


def difference(got, expected):
    """Return the largest difference as a fraction of the largest number."""
    assert got.shape == expected.shape
    return ((got - expected).abs().max() / expected.abs().max()).item()


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("kernel", [3, 5])
@pytest.mark.parametrize("size", range(7, 15))
def test_padding_same_equals_loops(size, kernel, stride):
    height, width = size, 21 - size
    convolution = SameConvolution(1, 1, kernel, stride, bias=False)
    image = torch.randn(1, 1, height, width)
    with torch.no_grad():
        got = convolution(image)[0, 0].tolist()
    pixels, filter_ = image[0, 0].tolist(), convolution.weight[0, 0].tolist()
    rows, columns = -(-height // stride), -(-width // stride)
    assert (len(got), len(got[0])) == (rows, columns)
    above = naive_padding(height, kernel, stride)[0]
    before = naive_padding(width, kernel, stride)[0]
    for row in range(rows):
        for column in range(columns):
            total = 0.0
            for i in range(kernel):
                for j in range(kernel):
                    y, x = row * stride - above + i, column * stride - before + j
                    if 0 <= y < height and 0 <= x < width:
                        total += filter_[i][j] * pixels[y][x]
            assert got[row][column] == pytest.approx(total, abs=1e-5)


def test_padding_same_by_hand():
    assert same_padding(224, 3, 2) == (0, 1)
    assert same_padding(225, 3, 2) == (1, 1)
    assert same_padding(14, 5, 2) == (1, 2)
    assert same_padding(7, 5, 1) == (2, 2)
    assert same_padding(9, 1, 1) == (0, 0)
    assert same_padding(9, 1, 2) == (0, 0)


def test_number_of_parameters():
    assert sum(p.numel() for p in EfficientNetLite0(1000).parameters()) == 4_652_008
    assert sum(p.numel() for p in EfficientNetLite0().parameters()) == 4_652_008 - 1_281_000


@pytest.mark.parametrize("size", [(64, 64), (75, 97), (33, 50)])
def test_equals_an_independent_computation(path, weights, size):
    network = EfficientNetLite0.load(path, num_classes=1000)
    image = torch.randn(2, 3, *size)
    features, logits = second_computation(weights, image)
    assert features.shape == (2, EfficientNetLite0.dim, -(-size[0] // 32), -(-size[1] // 32))
    assert features.std() > 0.1
    assert difference(network(image), features) < 1e-4
    assert difference(network.classify(image), logits) < 1e-4
    assert difference(EfficientNetLite0.load(path)(image), features) < 1e-4


@pytest.mark.skipif(DATA is None, reason="SACCADE_DATA does not say where the real weights are")
@pytest.mark.parametrize("size", [(224, 224), (160, 160), (131, 189)])
def test_the_real_weights_equal_an_independent_computation(size):
    path = Path(DATA) / "efficientnet_lite0" / "efficientnet_lite0.safetensors"
    weights = load_file(path)
    assert {name: tuple(tensor.shape) for name, tensor in weights.items()} == shapes_in_file()
    network = EfficientNetLite0.load(path, num_classes=1000)
    image = (torch.randint(0, 256, (2, 3, *size)) - 127) / 128
    features, logits = second_computation(weights, image)
    assert difference(network(image), features) < 1e-4
    assert difference(network.classify(image), logits) < 1e-4


def test_loaded_weights_stay_frozen_in_training(path):
    network = EfficientNetLite0.load(path)
    model = nn.Sequential(network, nn.BatchNorm2d(network.dim))
    image = torch.randn(2, 3, 64, 64)
    expected = network(image)
    model.train()
    assert model[1].training
    assert not any(module.training for module in network.modules())
    assert not any(p.requires_grad for p in network.parameters())
    assert not expected.requires_grad
    model(image)
    assert (network(image) == expected).all()


def test_trainable_weights_are_trained(path):
    network = EfficientNetLite0.load(path, trainable=True, num_classes=1000)
    assert network.training
    network.classify(torch.randn(2, 3, 64, 64)).square().mean().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in network.parameters())


def test_an_encoder_reads_the_features(path):
    encoder = GridEncoder(EfficientNetLite0.load(path), 11)
    memory = encoder(torch.randn(2, 3, 64, 96))
    assert memory.states.shape == (2, 6, 11)
    memory.summary.sum().backward()
    assert {n for n, p in encoder.named_parameters() if p.grad is not None} == {
        "stem.project.weight",
        "stem.project.bias",
    }


def test_batch_norm_counters_and_other_precisions_are_accepted(weights, tmp_path):
    halves = {name: tensor.half() for name, tensor in weights.items()}
    halves["_bn0.num_batches_tracked"] = torch.tensor(3)
    save_file(halves, tmp_path / "half.safetensors")
    network = EfficientNetLite0.load(tmp_path / "half.safetensors")
    assert network.stem.conv.weight.dtype == torch.float32


def change(weights, tmp_path, **changes):
    """Write a file with some tensors changed, None to remove; `__` stands for a dot in a name."""
    changed = dict(weights)
    for name, tensor in changes.items():
        changed[name.replace("__", ".")] = tensor
    path = tmp_path / "changed.safetensors"
    save_file({name: tensor for name, tensor in changed.items() if tensor is not None}, path)
    return path


def test_raises_on_files_of_another_network(weights, path, tmp_path):
    def assert_raises(match, num_classes=None, **changes):
        with pytest.raises(WeightsError, match=match):
            EfficientNetLite0.load(change(weights, tmp_path, **changes), num_classes=num_classes)

    assert_raises(r"Lite0: _bn0\.bias is missing$", _bn0__bias=None)
    assert_raises(r"more\.weight is not part of this network$", more__weight=torch.zeros(2))
    assert_raises(
        r"_bn0\.bias is torch\.float32 \(31,\), exp.* \(32,\)$", _bn0__bias=torch.zeros(31)
    )
    assert_raises(
        r"_bn0\.bias is torch\.int8 \(32,\), expected floats",
        _bn0__bias=torch.zeros(32).to(torch.int8),
    )
    assert_raises(r"_fc\.weight is missing", num_classes=1000, _fc__weight=None)
    assert_raises(r"_fc\.weight is .*\(1000, 1280\), expected floats \(10, 1280\)", num_classes=10)
    many = {f"_blocks__{i}___bn1__bias": None for i in range(5)}
    assert_raises(r"_blocks\.0\._bn1\.bias is missing; .*; and 2 more$", **many)
    EfficientNetLite0.load(change(weights, tmp_path, _fc__weight=None, _fc__bias=None))


def test_raises_on_files_that_are_not_weights(path, tmp_path):
    with pytest.raises(WeightsError, match=r"the weights .*absent\.safetensors do not exist"):
        EfficientNetLite0.load(tmp_path / "absent.safetensors")
    with pytest.raises(WeightsError, match="do not exist"):
        EfficientNetLite0.load(tmp_path)
    contents = {"text": b"not weights", "empty": b"", "cut": path.read_bytes()[:100_000]}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(WeightsError, match=f"{name} is not a complete safetensors file"):
            EfficientNetLite0.load(str(tmp_path / name))


def test_raises_on_inputs_that_do_not_fit():
    with pytest.raises(ShapeError, match="3 channels, got 1"):
        EfficientNetLite0()(torch.randn(2, 1, 32, 32))
    with pytest.raises(WeightsError, match="num_classes"):
        EfficientNetLite0().classify(torch.randn(2, 3, 32, 32))
