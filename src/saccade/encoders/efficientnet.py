"""EfficientNet-Lite0: a small network of image features, with weights trained on ImageNet.

The network is that of Tan and Le (2019) in its variant for phones: no squeeze-and-excitation, and
ReLU6 in place of swish. The weights come from TensorFlow, and with them three conventions: padding
SAME, which is not symmetric at stride 2, an epsilon of 1e-3 in batch norm, and pixels as
(x - 127) / 128.
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
    """Return the zeros before and after an axis that give ceil(size / stride) outputs.

    If their number is odd, the additional zero goes after.
    """
    outputs = -(-size // stride)
    total = max((outputs - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


class SameConvolution(nn.Conv2d):
    """A convolution with the padding SAME of TensorFlow, correct for any size of image."""

    def forward(
        self, x: Float[Tensor, "b channels height width"]
    ) -> Float[Tensor, "b d rows columns"]:
        """Return the grid after the convolution, of size / stride, rounded up."""
        kernel, stride = self.kernel_size, self.stride
        top, bottom = same_padding(x.shape[2], kernel[0], stride[0])
        left, right = same_padding(x.shape[3], kernel[1], stride[1])
        if (top, left) != (bottom, right):
            x = F.pad(x, (0, right - left, 0, bottom - top))
        return F.conv2d(x, self.weight, self.bias, stride, (top, left), self.dilation, self.groups)


class ConvolutionNorm(nn.Module):
    """A convolution, batch norm, and ReLU6 unless `linear`."""

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
        """Return the normalised features."""
        return self.activation(self.norm(self.conv(x)))


class InvertedResidual(nn.Module):
    """Inverted residual block: expand, depthwise convolution, project (Sandler et al. 2018).

    If the shape stays the same, the input is added to the output.
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
        """Apply the block."""
        raise_if_cancelled()
        out = self.project(self.depthwise(self.expand(x)))
        return x + out if self.has_shortcut else out


class EfficientNetLite0(nn.Module):
    """EfficientNet-Lite0: images (b, 3, h, w) → features (b, 1280, h / 32, w / 32), rounded up.

    224 x 224 pixels give 7 x 7 cells. Images must be preprocessed as (x - 127) / 128.

    Args:
        num_classes: Number of classes of the classifier that `classify` needs; None for none.
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
        """Load the network with the weights of a safetensors file.

        Args:
            path: The file.
            num_classes: Number of classes of the classifier in the file (1000 for ImageNet); None
                leaves the classifier out.
            trainable: Train the weights; else they are frozen.

        Raises:
            WeightsError: If the file is missing, damaged or of another network.
        """
        network = cls(num_classes)
        network.load_state_dict(_read(Path(path), network))
        return network if trainable else network.freeze()

    def freeze(self) -> "EfficientNetLite0":
        """Freeze the weights and the statistics of batch norm, also in training mode."""
        self.frozen = True
        self.requires_grad_(requires_grad=False)
        return self.eval()

    def train(self, mode: bool = True) -> "EfficientNetLite0":  # noqa: FBT001, FBT002  (torch's)
        """Set the training mode as in torch, but keep a frozen network in evaluation mode."""
        return super().train(mode and not self.frozen)

    def forward(
        self, image: Float[Tensor, "b channels height width"]
    ) -> Float[Tensor, "b d rows columns"]:
        """Return the grid of features."""
        if image.shape[1] != 3:
            raise ShapeError(
                f"this network takes images of 3 channels, got {image.shape[1]}; "
                "convert them to RGB"
            )
        return self.head(self.blocks(self.stem(image)))

    def classify(self, image: Float[Tensor, "b channels height width"]) -> Float[Tensor, "b c"]:
        """Return the logits of the classes, from the mean over the grid."""
        if self.classifier is None:
            raise WeightsError(
                "this EfficientNet has no classifier; build or load it with num_classes"
            )
        return self.classifier(self(image).mean((2, 3)))


@dataclass(frozen=True, kw_only=True)
class EfficientNetConfig(GridReaderConfig):
    """Options of EfficientNet-Lite0 as an encoder of images.

    kind        "efficientnet", a network trained on ImageNet
    weights     path of its weights, a safetensors file
    fine_tune   whether to train the weights too; false computes the features of each image once,
                which is much faster. Set it if there are many thousands of images
    """

    channels: ClassVar[int] = 3
    kind: Literal["efficientnet"] = "efficientnet"
    weights: str = ""
    fine_tune: bool = False

    @property
    def network_dim(self) -> int:
        """The width of the last convolution."""
        return EfficientNetLite0.dim

    def grid(self, size: int) -> tuple[int, int]:
        """Return the cells (rows, columns): five strides of 2, each rounded up."""
        return -(-size // 32), -(-size // 32)

    def build(self) -> GridEncoder:
        """Build an encoder of images if `fine_tune`, else of precomputed features.

        If the file of weights does not exist, the weights are new: a run has its own file.
        """
        if not self.fine_tune:
            return self.around(FeatureMap(EfficientNetLite0.dim))
        if Path(self.weights).is_file():
            return self.around(EfficientNetLite0.load(self.weights, trainable=True))
        return self.around(EfficientNetLite0())


# our names, and those of the published file
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
    """Return the name in the file: blocks.3.expand.conv.weight → _blocks.3._expand_conv.weight."""
    module, tensor = name.rsplit(".", 1)
    if not module.startswith("blocks."):
        return f"{_NAMES[module]}.{tensor}"
    _, number, part = module.split(".", 2)
    return f"_blocks.{number}.{_BLOCK_NAMES[part]}.{tensor}"


def _read(path: Path, network: EfficientNetLite0) -> dict[str, Tensor]:
    """Return the tensors of the file under our names; raise unless they are the network's."""
    if not path.is_file():
        raise WeightsError(
            f"the weights {path} do not exist; give the path of the safetensors file of "
            "EfficientNet-Lite0"
        )
    try:
        tensors = safetensors.torch.load_file(path)
    except OSError as error:
        raise WeightsError(
            f"cannot read the weights {path}: {error}; copy the file again"
        ) from error
    except safetensors.SafetensorError as error:
        raise WeightsError(
            f"{path} is not a complete safetensors file: {error}; download or export it again"
        ) from error
    expected = {
        _name_in_file(name): (name, tuple(tensor.shape))
        for name, tensor in network.state_dict().items()
        if not _counts_batches(name)
    }
    left_out = ("_fc.weight", "_fc.bias") if network.classifier is None else ()
    unexpected = (
        name
        for name in tensors
        if name not in expected and name not in left_out and not _counts_batches(name)
    )
    mistakes = [f"{name} is missing" for name in expected if name not in tensors]
    mistakes += [f"{name} is not part of this network" for name in unexpected]
    mistakes += [
        f"{name} is {tensors[name].dtype} {tuple(tensors[name].shape)}, expected floats {shape}"
        for name, (_, shape) in expected.items()
        if name in tensors
        and (tuple(tensors[name].shape) != shape or not tensors[name].is_floating_point())
    ]
    if mistakes:
        more = f"; and {len(mistakes) - 3} more" if len(mistakes) > 3 else ""
        raise WeightsError(
            f"{path} does not hold the weights of EfficientNet-Lite0: "
            f"{'; '.join(mistakes[:3])}{more}"
        )
    return {ours: tensors[name] for name, (ours, _) in expected.items()}


def _counts_batches(name: str) -> bool:
    """Return whether this is the counter of torch's batch norm, which no prediction uses."""
    return name.endswith(".num_batches_tracked")
