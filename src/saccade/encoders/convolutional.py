"""Images as grids of features: a compact ResNet, and readers over the grid of any network.

A network of features is a module `network(image) -> (b, d, rows, columns)` that says its width d as
`.dim`. Attention reads a set of vectors, so a grid is read as its cells, row by row.
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
"""Features of a grid that are normalised together by group norm, if their number allows it."""


def grid_norm(kind: GridNorm, dim: int) -> nn.Module:
    """Over the batch (Ioffe and Szegedy 2015), or over each image alone (Wu and He 2018).

    Captions come in batches of like length. By the statistics of such a batch a reader would learn
    how much there is to say, which it could not when it answers: there, the norm must be "group".
    """
    if kind == "batch":
        return nn.BatchNorm2d(dim)
    return nn.GroupNorm(1 if dim % GROUP else dim // GROUP, dim)


class Shortcut(nn.Conv2d):
    """A 1 x 1 convolution, as the matrix product that it is.

    With channels last in memory, a stride and widths such as 6, that of torch 2.13 gives wrong
    gradients on a CPU, or does not end.
    """

    def __init__(self, input_dim: int, dim: int, stride: int) -> None:
        super().__init__(input_dim, dim, 1, stride, bias=False)

    def forward(
        self, x: Float[Tensor, "b channels height width"]
    ) -> Float[Tensor, "b d rows columns"]:
        """Every stride-th cell, projected."""
        down, across = self.stride
        kept = x[:, :, ::down, ::across]
        return (self.weight.flatten(1) @ kept.flatten(2)).unflatten(2, kept.shape[2:])


class ResidualBlock(nn.Module):
    """y = relu(F(x) + s(x)): two 3 x 3 convolutions F beside a shortcut s (He et al. 2016).

    The shortcut is x itself or, where the width or the size of the grid changes, a 1 x 1
    convolution (their option B).
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
        """What the convolutions add to what passes beside them."""
        raise_if_cancelled()
        return self.activation(self.convolutions(x) + self.shortcut(x))


class ResNet(nn.Module):
    """A 3 x 3 stem, then for each width `blocks` residual blocks; from the second width on the
    first block halves the grid.

    Made for images of about 28 to 64 pixels: 32 x 32 pixels give 8 x 8 cells. `stem_stride=2`
    halves the grid once more, for larger images.
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
                f"a ResNet needs a width and a block at least, got widths={tuple(widths)} "
                f"and blocks={blocks}"
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
        """The grid of features."""
        if image.shape[1] != self.channels:
            raise ShapeError(
                f"this network takes images of {self.channels} channels, got {image.shape[1]}"
            )
        # with channels last in memory and narrow widths, the backward pass of torch 2.13's
        # convolutions may write beyond its memory on a CPU
        return self.blocks(self.stem(image.contiguous()))


class FeatureMap(nn.Module):
    """A network that was run before: its features, kept in a file, pass as they are."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(
        self, features: Float[Tensor, "b d rows columns"]
    ) -> Float[Tensor, "b d rows columns"]:
        """The features themselves."""
        return features


class ConvolutionStem(nn.Module):
    """The cells of a network's grid, row by row, projected to `dim` where that is given.

    `input_dim` is the width of the grid; it need not be said for a network that has `.dim`.
    """

    def __init__(
        self, network: nn.Module, dim: int | None = None, *, input_dim: int | None = None
    ) -> None:
        super().__init__()
        width = getattr(network, "dim", None) if input_dim is None else input_dim
        if not isinstance(width, int):
            raise ShapeError(
                f"{type(network).__name__} does not say how wide its features are: "
                "give it an attribute `dim`, or say input_dim here"
            )
        self.network = network
        self.input_dim = width
        self.dim = width if dim is None else dim
        self.project = nn.Identity() if dim is None else nn.Linear(width, dim)

    def forward(self, image: Float[Tensor, "b channels height width"]) -> Stemmed:
        """The vectors of the cells, and the cells where they stand."""
        grid = self.network(image)
        if grid.ndim != 4 or grid.shape[1] != self.input_dim:
            raise ShapeError(
                f"expected features of shape (batch, {self.input_dim}, rows, columns) "
                f"from {type(self.network).__name__}, got {tuple(grid.shape)}"
            )
        x = self.project(grid.flatten(2).transpose(1, 2))
        return Stemmed(x, Grid.of(*grid.shape[2:], device=grid.device))


class GridEncoder(nn.Module):
    """A reader of images: each cell of a network's grid is a state, their mean is the summary.

    H x W cells of width D are N = H · W vectors, as in Xu et al. (2015, section 3.1.1), where they
    are the annotations a_1 … a_L. `GridEncoder(FeatureMap(dim))` reads features from a file.
    `position` tells cells where they stand.
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
        """Read images, or what else the network takes; `mask` is True at cells to be read."""
        x, places = self.stem(image)
        if mask is not None and mask.shape != x.shape[:2]:
            raise MaskError(
                f"a mask of shape {tuple(mask.shape)} does not fit {x.shape[0]} grids "
                f"of {x.shape[1]} cells"
            )
        states = self.dropout(self.position.encode(x, places, mask))
        return Memory(states, mask, Memory(states, mask).pooled())


Config = TypeVar("Config", bound="GridReaderConfig")


@dataclass(frozen=True, kw_only=True)
class GridReaderConfig(ABC):
    """How the grid of a network's features is read.

    dim        cells are projected to this width; left out, they stay as wide as they are
    position   what tells them where they stand
    dropout    on the cells
    """

    dim: Count | None = None
    position: PositionConfig = NoPositionConfig()
    dropout: Fraction = 0.0

    def __post_init__(self) -> None:
        require_added(self.position)

    def conflicts(self) -> Iterator[Conflict]:
        """Options of positions in text."""
        yield from grid_conflicts(self.position, "position")

    @property
    @abstractmethod
    def network_dim(self) -> int:
        """The width of the network's features."""

    @abstractmethod
    def grid(self, size: int) -> tuple[int, int]:
        """The cells (down, across) of a square image."""

    @property
    def memory_dim(self) -> int:
        """The width of the states it gives."""
        return self.dim or self.network_dim

    def sized(self: Config, size: int) -> Config:
        """The same for square images of `size` pixels, with places for their cells."""
        return replace(self, position=sized(self.position, self.grid(size)))

    def around(self, network: nn.Module) -> GridEncoder:
        """The reader of this network's grid."""
        require_grid_width(self.position, self.memory_dim, self.memory_dim)
        return GridEncoder(
            network,
            self.dim,
            position=self.position.build(self.memory_dim, self.memory_dim),
            dropout=self.dropout,
        )


@dataclass(frozen=True, kw_only=True)
class ResNetOptions(GridReaderConfig):
    """The options that a ResNet has with a head and without.

    channels      1 reads images in grey, 3 in colour
    widths        of the features, stage by stage; each stage but the first halves the grid
    blocks        in each stage
    stem_stride   2 halves the grid once more, for larger images
    norm          "group" normalises each image alone; "batch" all images of a batch together,
                  which does not go with captions
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
            raise RecipeError("widths is empty; a ResNet needs at least one width")

    @property
    def network_dim(self) -> int:
        """That of the last stage."""
        return self.widths[-1]

    def grid(self, size: int) -> tuple[int, int]:
        """A stride of 2 rounds up."""
        side = -(-size // self.stem_stride)
        for _ in self.widths[1:]:
            side = -(-side // 2)
        return side, side

    def make_reader(self) -> GridEncoder:
        """The reader, with new weights."""
        return self.around(
            ResNet(self.channels, self.widths, self.blocks, self.stem_stride, self.norm)
        )


@dataclass(frozen=True, kw_only=True)
class ResNetConfig(ResNetOptions):
    """A ResNet as a reader of images."""

    def build(self) -> GridEncoder:
        """The reader, with new weights."""
        return self.make_reader()
