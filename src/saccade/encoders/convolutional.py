"""Encoders of images as grids of features: a compact ResNet, and the grid of any network.

A feature network is a module `network(image) → (b, d, rows, columns)` with its width d as `.dim`.
Attention reads a set of vectors, so the cells of a grid are read row by row.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from torch import nn

from saccade.cancellation import raise_if_cancelled
from saccade.config import Conflict, Count, Fraction
from saccade.encoders.stems import Stemmed
from saccade.errors import MaskError, RecipeError, ShapeError
from saccade.interfaces import Memory
from saccade.layers.dropout import Dropout
from saccade.positions import NoPositionConfig, Position, PositionConfig
from saccade.positions.base import Grid
from saccade.positions.config import grid_conflicts, require_added, require_grid_width, sized
from saccade.shapes import Bool, Float, Tensor

GridNorm = Literal["batch", "group"]
GROUP = 8
"""Number of features that group norm normalises together, if the width is divisible by it."""


def grid_norm(kind: GridNorm, dim: int) -> nn.Module:
    """Build a norm over the batch (Ioffe and Szegedy 2015) or over each image (Wu and He 2018).

    Captions are batched by length. From the statistics of such a batch an encoder could learn the
    length of the caption, which is unknown at prediction, so captioners need "group".
    """
    if kind == "batch":
        return nn.BatchNorm2d(dim)
    return nn.GroupNorm(1 if dim % GROUP else dim // GROUP, dim)


class Shortcut(nn.Conv2d):
    """A 1 x 1 convolution, computed as a matrix product.

    With channels last in memory, a stride and widths such as 6, the convolution of torch 2.13 gives
    wrong gradients on a CPU, or does not terminate.
    """

    def __init__(self, input_dim: int, dim: int, stride: int) -> None:
        super().__init__(input_dim, dim, 1, stride, bias=False)

    def forward(
        self, x: Float[Tensor, "b channels height width"]
    ) -> Float[Tensor, "b d rows columns"]:
        """Project every stride-th cell."""
        down, across = self.stride
        cells = x[:, :, ::down, ::across]
        return (self.weight.flatten(1) @ cells.flatten(2)).unflatten(2, cells.shape[2:])


class ResidualBlock(nn.Module):
    """Residual block: two 3 x 3 convolutions F and a shortcut s (He et al. 2016).

        y = relu(F(x) + s(x))

    The shortcut is x itself or, if the width or the size of the grid changes, a 1 x 1 convolution
    (option B of the paper).

    Args:
        input_dim: Width of the input.
        dim: Width of the output.
        stride: 2 halves the grid.
        norm: "batch" or "group".
    """

    def __init__(self, input_dim: int, dim: int, stride: int = 1, norm: GridNorm = "batch") -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv2d(input_dim, dim, 3, stride, padding=1, bias=False),
            grid_norm(norm, dim),
            nn.ReLU(),
            nn.Conv2d(dim, dim, 3, padding=1, bias=False),
            grid_norm(norm, dim),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or input_dim != dim:
            self.shortcut = nn.Sequential(Shortcut(input_dim, dim, stride), grid_norm(norm, dim))
        self.activation = nn.ReLU()

    def forward(
        self, x: Float[Tensor, "b channels height width"]
    ) -> Float[Tensor, "b d rows columns"]:
        """Apply the block."""
        raise_if_cancelled()
        return self.activation(self.convolutions(x) + self.shortcut(x))


class ResNet(nn.Module):
    """A compact ResNet for images of about 28 to 64 pixels (He et al. 2016).

    It has a 3 x 3 stem and one stage per width; each stage but the first halves the grid. With the
    default widths, 32 x 32 pixels give 8 x 8 cells.

    Args:
        channels: Number of colour channels.
        widths: Width of each stage.
        blocks: Number of residual blocks per stage.
        stem_stride: 2 halves the grid once more, for larger images.
        norm: "batch" or "group", see `grid_norm`.
    """

    def __init__(
        self,
        channels: int = 3,
        widths: Sequence[int] = (32, 64, 128),
        blocks: int = 2,
        stem_stride: int = 1,
        norm: GridNorm = "batch",
    ) -> None:
        super().__init__()
        if not widths or blocks < 1:
            raise ShapeError(
                f"a ResNet needs at least one width and one block per stage, got "
                f"widths={tuple(widths)} and blocks={blocks}; "
                "give one width per stage"
            )
        self.channels = channels
        self.dim = widths[-1]
        self.stem = nn.Sequential(
            nn.Conv2d(channels, widths[0], 3, stem_stride, padding=1, bias=False),
            grid_norm(norm, widths[0]),
            nn.ReLU(),
        )
        self.blocks = nn.Sequential()
        before = widths[0]
        for stage, width in enumerate(widths):
            for block in range(blocks):
                stride = 2 if stage > 0 and block == 0 else 1
                self.blocks.append(ResidualBlock(before, width, stride, norm))
                before = width
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(
        self, image: Float[Tensor, "b channels height width"]
    ) -> Float[Tensor, "b d rows columns"]:
        """Return the grid of features."""
        if image.shape[1] != self.channels:
            raise ShapeError(
                f"this network takes images of {self.channels} "
                f"channel{'s' * (self.channels > 1)}, got {image.shape[1]}; convert the images, or "
                "build it for their channels"
            )
        # with channels last in memory and narrow widths, the backward pass of the convolutions of
        # torch 2.13 may write out of bounds on a CPU
        return self.blocks(self.stem(image.contiguous()))


class FeatureMap(nn.Module):
    """The identity, in place of a network whose features were computed before.

    Args:
        dim: Width of the features.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(
        self, features: Float[Tensor, "b d rows columns"]
    ) -> Float[Tensor, "b d rows columns"]:
        """Return the features themselves."""
        return features


class ConvolutionStem(nn.Module):
    """The cells of a feature network, row by row.

    Args:
        network: A module `network(image) → (b, input_dim, rows, columns)`.
        dim: Width to project the cells to; no projection if None.
        input_dim: Width of the grid; default: `network.dim`.

    Raises:
        ShapeError: If the width of the grid is unknown.
    """

    def __init__(
        self, network: nn.Module, dim: int | None = None, *, input_dim: int | None = None
    ) -> None:
        super().__init__()
        width = getattr(network, "dim", None) if input_dim is None else input_dim
        if not isinstance(width, int):
            raise ShapeError(
                f"the width of the features of {type(network).__name__} is unknown; give it an "
                "integer attribute `dim`, or pass input_dim"
            )
        self.network = network
        self.input_dim = width
        self.dim = width if dim is None else dim
        self.project = nn.Identity() if dim is None else nn.Linear(width, dim)

    def forward(self, image: Float[Tensor, "b channels height width"]) -> Stemmed:
        """Return the vectors of the cells, and their places."""
        grid = self.network(image)
        if grid.ndim != 4 or grid.shape[1] != self.input_dim:
            raise ShapeError(
                f"expected features of shape (batch, {self.input_dim}, rows, columns) "
                f"from {type(self.network).__name__}, got {tuple(grid.shape)}; change the network "
                "or input_dim"
            )
        x = self.project(grid.flatten(2).transpose(1, 2))
        return Stemmed(x, Grid.of(*grid.shape[2:], device=grid.device))


class GridEncoder(nn.Module):
    """Encoder of images: each cell of a network's grid is a state, their mean is the summary.

    H x W cells of width D are N = H · W vectors, the annotations a_1 … a_L of Xu et al. (2015,
    section 3.1.1). `GridEncoder(FeatureMap(dim))` reads precomputed features.

    Args:
        network: A module `network(image) → (b, input_dim, rows, columns)`.
        dim: Width to project the cells to; no projection if None.
        input_dim: Width of the grid; default: `network.dim`.
        position: Positional encoding of the cells; none if None.
        dropout: Dropout on the cells.
    """

    def __init__(
        self,
        network: nn.Module,
        dim: int | None = None,
        *,
        input_dim: int | None = None,
        position: Position | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.stem = ConvolutionStem(network, dim, input_dim=input_dim)
        self.dim = self.stem.dim
        self.position = Position() if position is None else position
        self.dropout = Dropout(dropout)

    def forward(
        self,
        image: Float[Tensor, "b channels height width"],
        *,
        mask: Bool[Tensor, "b n"] | None = None,
    ) -> Memory:
        """Encode images.

        Args:
            image: Images, or whatever else the network takes.
            mask: True at cells to be read; all if None.

        Raises:
            MaskError: If the mask does not have one value per cell.
        """
        x, places = self.stem(image)
        if mask is not None and mask.shape != x.shape[:2]:
            raise MaskError(
                f"a mask of shape {tuple(mask.shape)} does not fit {x.shape[0]} grids "
                f"of {x.shape[1]} cells; it must be {tuple(x.shape[:2])}"
            )
        states = self.dropout(self.position.encode(x, places, mask))
        return Memory(states, mask, Memory(states, mask).pooled())


Config = TypeVar("Config", bound="GridReaderConfig")


@dataclass(frozen=True, kw_only=True)
class GridReaderConfig(ABC):
    """Options of encoders that read the grid of a feature network.

    dim        width to project the cells to; default: the width of the network's features
    position   positional encoding of the cells; useful if the decoder should use where things are
    dropout    dropout on the cells, a fraction; raise it for small data
    """

    dim: Count | None = None
    position: PositionConfig = NoPositionConfig()
    dropout: Fraction = 0.0

    def __post_init__(self) -> None:
        require_added(self.position)

    def conflicts(self) -> Iterator[Conflict]:
        """Yield the options that concern positions in text only."""
        yield from grid_conflicts(self.position, "position")

    @property
    @abstractmethod
    def network_dim(self) -> int:
        """The width of the features of the network."""

    @abstractmethod
    def grid(self, size: int) -> tuple[int, int]:
        """Return the cells (rows, columns) of a square image of `size` pixels."""

    @property
    def memory_dim(self) -> int:
        """The width of the states."""
        return self.dim or self.network_dim

    def sized(self: Config, size: int) -> Config:
        """Return the options for square images of `size` pixels, with places for their cells."""
        return replace(self, position=sized(self.position, self.grid(size)))

    def around(self, network: nn.Module) -> GridEncoder:
        """Build the encoder around this network."""
        require_grid_width(self.position, self.memory_dim, self.memory_dim)
        return GridEncoder(
            network,
            self.dim,
            position=self.position.build(self.memory_dim, self.memory_dim),
            dropout=self.dropout,
        )


@dataclass(frozen=True, kw_only=True)
class ResNetOptions(GridReaderConfig):
    """Options of a ResNet, with and without a head.

    kind          "resnet", a compact network trained from scratch
    channels      colour channels of the images: 1 for grey, 3 for colour
    widths        width of each stage, in features; each stage but the first halves the grid. Add or
                  widen stages for larger images and more data
    blocks        number of residual blocks per stage
    stem_stride   stride of the first convolution; 2 halves the grid once more, for images above
                  about 64 pixels
    norm          "group" normalises each image alone; "batch" all images of a batch together, which
                  does not work for captions
    """

    kind: Literal["resnet"] = "resnet"
    channels: Count = 3
    widths: tuple[Count, ...] = (32, 64, 128)
    blocks: Count = 2
    stem_stride: Count = 1
    norm: GridNorm = "group"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.widths:
            raise RecipeError(
                "widths is empty; a ResNet needs at least one width, such as widths = [32, 64]"
            )

    @property
    def network_dim(self) -> int:
        """The width of the last stage."""
        return self.widths[-1]

    def grid(self, size: int) -> tuple[int, int]:
        """Return the cells (rows, columns); a stride of 2 rounds up."""
        side = -(-size // self.stem_stride)
        for _ in self.widths[1:]:
            side = -(-side // 2)
        return side, side

    def make_encoder(self) -> GridEncoder:
        """Build the encoder with new weights."""
        return self.around(
            ResNet(self.channels, self.widths, self.blocks, self.stem_stride, self.norm)
        )


@dataclass(frozen=True, kw_only=True)
class ResNetConfig(ResNetOptions):
    """Options of a ResNet as an encoder of images."""

    def build(self) -> GridEncoder:
        """Build the encoder with new weights."""
        return self.make_encoder()
