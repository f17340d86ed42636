"""Images as sequences of patches (Dosovitskiy et al. 2021), and the options of such a reader."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

import torch
from torch import nn
from torch.nn import functional as F

from saccade.config import Conflict, Count
from saccade.encoders.stems import Stemmed
from saccade.encoders.transformer import TransformerEncoder, TransformerEncoderConfig
from saccade.errors import RecipeError, ShapeError
from saccade.positions import LearnedConfig
from saccade.positions.base import Grid
from saccade.positions.config import grid_conflicts, require_grid_width, sized
from saccade.shapes import Float, Tensor


class PatchStem(nn.Module):
    """Each patch of `patch_size`² pixels through one linear map, after a learned class token.

    224 x 224 pixels of 3 colours in patches of 16 are 196 vectors of 768 numbers. A linear map on
    patches is a convolution whose stride is its size, which is how it is computed.
    """

    def __init__(
        self, dim: int, patch_size: int, channels: int = 3, *, class_token: bool = True
    ) -> None:
        super().__init__()
        self.patch_size, self.channels = patch_size, channels
        self.project = nn.Conv2d(channels, dim, patch_size, stride=patch_size)
        self.class_token = nn.Parameter(torch.zeros(1, 1, dim)) if class_token else None
        if self.class_token is not None:
            nn.init.normal_(self.class_token, std=0.02)

    def forward(self, image: Float[Tensor, "b c height width"]) -> Stemmed:
        """The vectors of the patches, row by row, and the cells where they stand."""
        b, channels, height, width = image.shape
        if channels != self.channels:
            raise ShapeError(
                f"this reader takes images of {self.channels} channels, got {channels}"
            )
        if height % self.patch_size or width % self.patch_size:
            raise ShapeError(
                f"an image of {height} x {width} pixels does not fall into patches of "
                f"{self.patch_size} x {self.patch_size}"
            )
        grid = self.cells(image.contiguous())  # for the reason given in `ResNet.forward`
        x = grid.flatten(2).transpose(1, 2)
        nowhere = 0
        if self.class_token is not None:
            x, nowhere = torch.cat((self.class_token.expand(b, -1, -1), x), 1), 1
        return Stemmed(x, Grid.of(*grid.shape[2:], nowhere=nowhere, device=image.device))

    def cells(self, image: Float[Tensor, "b c height width"]) -> Float[Tensor, "b d rows columns"]:
        """The vectors of the patches where they stand."""
        return self.project(image)


class OverlappingPatchStem(PatchStem):
    """Patches that see their neighbours: convolutions of stride 2 in place of one large step.

    Each halves the grid, until a cell is a patch wide; a 1 x 1 convolution follows (Xiao et al.
    2021, "Early convolutions help transformers see better", here with a norm over each image, so
    that no image depends on the others of its batch).
    """

    def __init__(
        self, dim: int, patch_size: int, channels: int = 3, *, class_token: bool = True
    ) -> None:
        super().__init__(dim, patch_size, channels, class_token=class_token)
        halvings = patch_size.bit_length() - 1
        if patch_size < 2 or patch_size != 1 << halvings:
            raise ShapeError(
                f"convolutions that halve the grid give patches of 2, 4, 8, 16 … pixels; got "
                f"{patch_size}"
            )
        self.early = nn.Sequential()
        before = channels
        for width in (dim >> (halvings - i) for i in range(1, halvings + 1)):
            if width < 1:
                raise ShapeError(f"a width of {dim} is too narrow for patches of {patch_size}")
            self.early.append(nn.Conv2d(before, width, 3, stride=2, padding=1, bias=False))
            self.early.append(nn.GroupNorm(1, width))
            self.early.append(nn.ReLU())
            before = width
        self.project = nn.Conv2d(before, dim, 1)

    def cells(self, image: Float[Tensor, "b c height width"]) -> Float[Tensor, "b d rows columns"]:
        """The vectors of the patches where they stand."""
        return self.project(self.early(image))


def patches(image: Float[Tensor, "b c height width"], size: int) -> Float[Tensor, "b n p"]:
    """The patches themselves, (b, number, channels · size²): the slow, obvious form."""
    return F.unfold(image, size, stride=size).transpose(1, 2)


Config = TypeVar("Config", bound="PatchOptions")


@dataclass(frozen=True, kw_only=True)
class PatchOptions:
    """The options that a Vision Transformer has with a head and without.

    dim          the width throughout
    patch_size   the side of a patch, in pixels
    channels     1 reads images in grey, 3 in colour
    stem         "linear": each patch through one linear map; "convolutional": by convolutions of
                 stride 2, so that patches overlap
    """

    kind: Literal["vit"] = "vit"
    encoder: TransformerEncoderConfig = TransformerEncoderConfig(
        position=LearnedConfig(), activation="gelu"
    )
    dim: Count = 192
    patch_size: Count = 16
    channels: Count = 3
    stem: Literal["linear", "convolutional"] = "linear"

    def conflicts(self) -> Iterator[Conflict]:
        """Options of positions in text."""
        yield from grid_conflicts(self.encoder.position, "encoder.position")

    @property
    def memory_dim(self) -> int:
        """The width of the states it gives."""
        return self.dim

    def grid(self, size: int) -> tuple[int, int]:
        """The patches (down, across) of a square image."""
        return size // self.patch_size, size // self.patch_size

    def sized(self: Config, size: int) -> Config:
        """The same for square images of `size` pixels, with places for their patches."""
        if size % self.patch_size:
            raise RecipeError(
                f"images of {size} x {size} pixels (image.size) do not fall into patches of "
                f"{self.patch_size} (patch_size); change one of them"
            )
        position = sized(self.encoder.position, self.grid(size))
        return replace(self, encoder=replace(self.encoder, position=position))

    def make_reader(self, *, class_token: bool) -> TransformerEncoder:
        """The reader, with a class token or without; learned positions need a grid, see `sized`."""
        position = self.encoder.position
        require_grid_width(position, self.dim, self.encoder.head_width(self.dim))
        stems = {"linear": PatchStem, "convolutional": OverlappingPatchStem}
        width = position.token_dim(self.dim)
        stem = stems[self.stem](width, self.patch_size, self.channels, class_token=class_token)
        return self.encoder.build(stem, self.dim)


@dataclass(frozen=True, kw_only=True)
class PatchReaderConfig(PatchOptions):
    """A Transformer encoder over the patches of an image (ViT) as a reader."""

    def build(self) -> TransformerEncoder:
        """The reader, without a class token."""
        return self.make_reader(class_token=False)
