"""EfficientNet-Lite0: a small network of image features, with weights trained on ImageNet.

Tan and Le (2019), in the form for phones: no squeeze-and-excitation, ReLU6 for swish. The weights
came from TensorFlow, and with them three habits: padding SAME, which is not symmetric at stride 2,
an epsilon of 1e-3 in batch norm, and pixels as (x - 127) / 128.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import safetensors
import safetensors.torch
from torch import nn
from torch.nn import functional as F

from saccade.cancellation import raise_if_cancelled
from saccade.encoders.convolutional import FeatureMap, GridEncoder, GridReaderConfig
from saccade.errors import ShapeError, WeightsError
from saccade.shapes import Float, Tensor

# kernel, stride of the first block, expansion, width, number of blocks
_STAGES = (
    (3, 1, 1, 16, 1),
    (3, 2, 6, 24, 2),
    (5, 2, 6, 40, 2),
    (3, 2, 6, 80, 3),
    (5, 1, 6, 112, 3),
    (5, 2, 6, 192, 4),
    (3, 1, 6, 320, 1),
)


def same_padding(size: int, kernel: int, stride: int) -> tuple[int, int]:
    """Zeros before and after an axis for ceil(size / stride) places; an odd one goes after."""
    outputs = -(-size // stride)
    total = max((outputs - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


class SameConvolution(nn.Conv2d):
    """A convolution with TensorFlow's padding SAME, right for any size of image."""

    def forward(
        self, x: Float[Tensor, "b channels height width"]
    ) -> Float[Tensor, "b d rows columns"]:
        """The grid after the convolution: size / stride, rounded up."""
        kernel, stride = self.kernel_size, self.stride
        top, bottom = same_padding(x.shape[2], kernel[0], stride[0])
        left, right = same_padding(x.shape[3], kernel[1], stride[1])
        if (top, left) != (bottom, right):
            x = F.pad(x, (0, right - left, 0, bottom - top))
        return F.conv2d(x, self.weight, self.bias, stride, (top, left), self.dilation, self.groups)


class ConvolutionNorm(nn.Module):
    """A convolution, batch norm, and ReLU6 unless the layer is `linear`."""

    def __init__(
        self,
        input_dim: int,
        dim: int,
        kernel: int = 1,
        stride: int = 1,
        *,
        groups: int = 1,
        linear: bool = False,
    ) -> None:
        super().__init__()
        self.conv = SameConvolution(input_dim, dim, kernel, stride, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(dim, eps=1e-3, momentum=0.01)
        self.activation = nn.Identity() if linear else nn.ReLU6(inplace=True)

    def forward(
        self, x: Float[Tensor, "b channels height width"]
    ) -> Float[Tensor, "b d rows columns"]:
        """The normalised features."""
        return self.activation(self.norm(self.conv(x)))


class InvertedResidual(nn.Module):
    """Widen by `expansion`, convolve each channel on its own, narrow (Sandler et al. 2018).

    Where the shape stays the same, the input is added to the output.
    """

    def __init__(self, input_dim: int, dim: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = input_dim * expansion
        self.expand = nn.Identity() if expansion == 1 else ConvolutionNorm(input_dim, hidden)
        self.depthwise = ConvolutionNorm(hidden, hidden, kernel, stride, groups=hidden)
        self.project = ConvolutionNorm(hidden, dim, linear=True)
        self.has_shortcut = stride == 1 and input_dim == dim

    def forward(
        self, x: Float[Tensor, "b channels height width"]
    ) -> Float[Tensor, "b d rows columns"]:
        """The features after the block."""
        raise_if_cancelled()
        out = self.project(self.depthwise(self.expand(x)))
        return x + out if self.has_shortcut else out


class EfficientNetLite0(nn.Module):
    """Images (b, 3, height, width), preprocessed, to features (b, 1280, height / 32, width / 32).

    The size of the grid is rounded up: 224 x 224 pixels give 7 x 7 cells. With `num_classes` the
    network also has the classifier that `classify` needs.
    """

    dim = 1280

    def __init__(self, num_classes: int | None = None) -> None:
        super().__init__()
        self.stem = ConvolutionNorm(3, 32, kernel=3, stride=2)
        self.blocks = nn.Sequential()
        before = 32
        for kernel, first_stride, expansion, width, repeats in _STAGES:
            for stride in (first_stride, *(1,) * (repeats - 1)):
                self.blocks.append(InvertedResidual(before, width, kernel, stride, expansion))
                before = width
        self.head = ConvolutionNorm(before, self.dim)
        self.classifier = None if num_classes is None else nn.Linear(self.dim, num_classes)
        self.frozen = False

    @classmethod
    def load(
        cls, path: str | Path, *, num_classes: int | None = None, trainable: bool = False
    ) -> "EfficientNetLite0":
        """The network with the weights of a safetensors file.

        Unless `trainable`, it is frozen. Without `num_classes` a classifier in the file is left
        out; with it the file must hold one of that many classes (1000 for ImageNet).
        """
        network = cls(num_classes)
        network.load_state_dict(_read(Path(path), network))
        return network if trainable else network.freeze()

    def freeze(self) -> "EfficientNetLite0":
        """Keep the weights and the statistics of batch norm as they are, whatever trains around."""
        self.frozen = True
        self.requires_grad_(requires_grad=False)
        return self.eval()

    def train(self, mode: bool = True) -> "EfficientNetLite0":  # noqa: FBT001, FBT002  (torch's)
        """As in torch, but a frozen network stays in evaluation mode."""
        return super().train(mode and not self.frozen)

    def forward(
        self, image: Float[Tensor, "b channels height width"]
    ) -> Float[Tensor, "b d rows columns"]:
        """The grid of features."""
        if image.shape[1] != 3:
            raise ShapeError(f"this network takes images of 3 channels, got {image.shape[1]}")
        return self.head(self.blocks(self.stem(image)))

    def classify(self, image: Float[Tensor, "b channels height width"]) -> Float[Tensor, "b c"]:
        """The logits of the classes, from the mean over the grid."""
        if self.classifier is None:
            raise WeightsError(
                "this EfficientNet has no classifier; make or load it with num_classes"
            )
        return self.classifier(self(image).mean((2, 3)))


@dataclass(frozen=True, kw_only=True)
class EfficientNetConfig(GridReaderConfig):
    """The options of EfficientNet-Lite0 as a reader.

    weights     the path of its weights, a safetensors file
    fine_tune   whether they are trained on; else they stay as they are, and features are computed
                once for each image
    """

    channels: ClassVar[int] = 3
    kind: Literal["efficientnet"] = "efficientnet"
    weights: str = ""
    fine_tune: bool = False

    @property
    def network_dim(self) -> int:
        """That of its last convolution."""
        return EfficientNetLite0.dim

    def grid(self, size: int) -> tuple[int, int]:
        """Five strides of 2, each rounded up."""
        return -(-size // 32), -(-size // 32)

    def build(self) -> GridEncoder:
        """The reader of images where they are trained on, else of features.

        Weights that are not there are new: those of a run stand in its own file.
        """
        if not self.fine_tune:
            return self.around(FeatureMap(EfficientNetLite0.dim))
        if Path(self.weights).is_file():
            return self.around(EfficientNetLite0.load(self.weights, trainable=True))
        return self.around(EfficientNetLite0())


# The names that the published file uses, and ours.
_NAMES = {
    "stem.conv": "_conv_stem",
    "stem.norm": "_bn0",
    "head.conv": "_conv_head",
    "head.norm": "_bn1",
    "classifier": "_fc",
}
_BLOCK_NAMES = {
    "expand.conv": "_expand_conv",
    "expand.norm": "_bn0",
    "depthwise.conv": "_depthwise_conv",
    "depthwise.norm": "_bn1",
    "project.conv": "_project_conv",
    "project.norm": "_bn2",
}


def _name_in_file(name: str) -> str:
    """`blocks.3.expand.conv.weight` -> `_blocks.3._expand_conv.weight`."""
    module, tensor = name.rsplit(".", 1)
    if not module.startswith("blocks."):
        return f"{_NAMES[module]}.{tensor}"
    _, number, part = module.split(".", 2)
    return f"_blocks.{number}.{_BLOCK_NAMES[part]}.{tensor}"


def _read(path: Path, network: EfficientNetLite0) -> dict[str, Tensor]:
    """The tensors of the file under our names, once they are known to be the network's."""
    if not path.is_file():
        raise WeightsError(f"there is no file of weights at {path}")
    try:
        found = safetensors.torch.load_file(path)
    except OSError as error:
        raise WeightsError(f"cannot read the weights {path}: {error}") from error
    except safetensors.SafetensorError as error:
        raise WeightsError(f"{path} is not a whole safetensors file: {error}") from error
    wanted = {
        _name_in_file(name): (name, tuple(tensor.shape))
        for name, tensor in network.state_dict().items()
        if not _counts_batches(name)
    }
    left_out = ("_fc.weight", "_fc.bias") if network.classifier is None else ()
    unexpected = (
        name
        for name in found
        if name not in wanted and name not in left_out and not _counts_batches(name)
    )
    mistakes = [f"{name} is missing" for name in wanted if name not in found]
    mistakes += [f"{name} is not part of this network" for name in unexpected]
    mistakes += [
        f"{name} is {found[name].dtype} {tuple(found[name].shape)}, expected floats {shape}"
        for name, (_, shape) in wanted.items()
        if name in found
        and (tuple(found[name].shape) != shape or not found[name].is_floating_point())
    ]
    if mistakes:
        more = f"; and {len(mistakes) - 3} more" if len(mistakes) > 3 else ""
        raise WeightsError(
            f"{path} does not hold the weights of EfficientNet-Lite0: "
            f"{'; '.join(mistakes[:3])}{more}"
        )
    return {ours: found[name] for name, (ours, _) in wanted.items()}


def _counts_batches(name: str) -> bool:
    """Is it the counter that torch's batch norm keeps, which no prediction depends on?"""
    return name.endswith(".num_batches_tracked")
