"""Encoders of images as sequences of patches (Dosovitskiy et al. 2021)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import torch
from torch import nn
from torch.nn import functional as F

from saccade.config import Conflict, Count
from saccade.encoders.stems import Stemmed
from saccade.encoders.transformer import TransformerEncoder, TransformerEncoderConfig
from saccade.errors import RecipeError, ShapeError
from saccade.interfaces import Memory
from saccade.positions import LearnedConfig
from saccade.positions.base import Grid
from saccade.positions.config import grid_conflicts, require_grid_width, sized
from saccade.shapes import Bool, Float, Tensor


class PatchStem(nn.Module):
    """Patches of an image, each through one linear map (Dosovitskiy et al. 2021).

    224 x 224 pixels of 3 colours in patches of 16 are 196 vectors of 768 numbers. A linear map on
    patches is computed as a convolution whose stride is its size.

    Args:
        dim: Width of the vectors.
        patch_size: Side of a patch, in pixels.
        channels: Number of colour channels.
        class_token: Put a learned class token before the patches.
        distillation_token: Put a second learned token after them (Touvron et al. 2021, DeiT).
    """

    def __init__(
        self,
        dim: int,
        patch_size: int,
        channels: int = 3,
        *,
        class_token: bool = True,
        distillation_token: bool = False,
    ) -> None:
        super().__init__()
        self.patch_size, self.channels = patch_size, channels
        self.project = nn.Conv2d(channels, dim, patch_size, stride=patch_size)
        self.class_token = nn.Parameter(torch.zeros(1, 1, dim)) if class_token else None
        if self.class_token is not None:
            nn.init.normal_(self.class_token, std=0.02)
        self.distillation_token: nn.Parameter | None = None
        if distillation_token:
            self.distillation_token = nn.Parameter(0.02 * torch.randn(1, 1, dim))

    def forward(self, image: Float[Tensor, "b c height width"]) -> Stemmed:
        """Return the vectors of the patches, row by row, and their places.

        Raises:
            ShapeError: If the image has other channels, or is not divisible into patches.
        """
        b, channels, height, width = image.shape
        if channels != self.channels:
            raise ShapeError(
                f"this encoder takes images of {self.channels} "
                f"channel{'s' * (self.channels > 1)}, got {channels}; convert the images, or build "
                "it for their channels"
            )
        if height % self.patch_size or width % self.patch_size:
            raise ShapeError(
                f"an image of {height} x {width} pixels cannot be divided into patches of "
                f"{self.patch_size} x {self.patch_size}; resize it to a multiple"
            )
        grid = self.cells(image.contiguous())  # see the comment in `ResNet.forward`
        x = grid.flatten(2).transpose(1, 2)
        nowhere = 0
        if self.class_token is not None:
            x, nowhere = torch.cat((self.class_token.expand(b, -1, -1), x), 1), 1
        places = Grid.of(*grid.shape[2:], nowhere=nowhere, device=image.device)
        if self.distillation_token is not None:
            x = torch.cat((x, self.distillation_token.expand(b, -1, -1)), 1)
            rows, columns = (F.pad(x, (0, 1), value=-1) for x in (places.rows, places.columns))
            places = Grid(rows, columns)
        return Stemmed(x, places)

    def cells(self, image: Float[Tensor, "b c height width"]) -> Float[Tensor, "b d rows columns"]:
        """Return the vectors of the patches as a grid."""
        return self.project(image)


class OverlappingPatchStem(PatchStem):
    """Overlapping patches, by convolutions of stride 2 (Xiao et al. 2021).

    Each convolution halves the grid until a cell is as wide as a patch; a 1 x 1 convolution follows
    ("Early convolutions help transformers see better"; here with a norm over each image, so that no
    image depends on the others of its batch). The arguments are those of `PatchStem`; `patch_size`
    must be a power of 2.
    """

    def __init__(
        self,
        dim: int,
        patch_size: int,
        channels: int = 3,
        *,
        class_token: bool = True,
        distillation_token: bool = False,
    ) -> None:
        super().__init__(
            dim,
            patch_size,
            channels,
            class_token=class_token,
            distillation_token=distillation_token,
        )
        halvings = patch_size.bit_length() - 1
        if patch_size < 2 or patch_size != 1 << halvings:
            raise ShapeError(
                f"convolutions that halve the grid give patches of 2, 4, 8, 16 … pixels, got "
                f"{patch_size}; use a power of 2, or the linear stem"
            )
        self.early = nn.Sequential()
        before = channels
        for width in (dim >> (halvings - i) for i in range(1, halvings + 1)):
            if width < 1:
                raise ShapeError(
                    f"a width of {dim} is too narrow for patches of {patch_size}; it must be at "
                    f"least {patch_size // 2}"
                )
            self.early.append(nn.Conv2d(before, width, 3, stride=2, padding=1, bias=False))
            self.early.append(nn.GroupNorm(1, width))
            self.early.append(nn.ReLU())
            before = width
        self.project = nn.Conv2d(before, dim, 1)

    def cells(self, image: Float[Tensor, "b c height width"]) -> Float[Tensor, "b d rows columns"]:
        """Return the vectors of the patches as a grid."""
        return self.project(self.early(image))


class PatchReader(TransformerEncoder):
    """A Vision Transformer whose states are those of the patches, without those of other tokens."""

    def forward(
        self,
        *inputs: Tensor | None,
        mask: Bool[Tensor, "b n"] | None = None,
        num_states: int | None = None,
    ) -> Memory:
        """Encode images; the arguments are those of `TransformerEncoder`."""
        stem = self.stem
        assert isinstance(stem, PatchStem)
        first, last = int(stem.class_token is not None), int(stem.distillation_token is not None)
        states = super().forward(*inputs, mask=mask).states
        return Memory(states[:, first : states.shape[1] - last][:, :num_states])


class FrozenEncoder(TransformerEncoder):
    """An encoder of images that is not trained, and reads its own states, computed once per image.

    `encoder(encoder.features(images))` equals the encoder without this class.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.requires_grad_(requires_grad=False)
        self.eval()

    def train(self, mode: bool = True) -> "FrozenEncoder":  # noqa: FBT001, FBT002  (torch's)
        """Stay in evaluation mode."""
        return super().train(mode=False)

    def features(self, image: Float[Tensor, "b c height width"]) -> Float[Tensor, "b d 1 n"]:
        """Return the states of images, side by side in a grid of one row."""
        return super().forward(image).states.transpose(1, 2).unsqueeze(2)

    def forward(
        self,
        *inputs: Tensor | None,
        mask: Bool[Tensor, "b n"] | None = None,
        num_states: int | None = None,
    ) -> Memory:
        """Return the states that `features` computed."""
        (features,) = inputs
        assert features is not None
        return Memory(features.squeeze(2).transpose(1, 2)[:, :num_states])


class FrozenPatchReader(FrozenEncoder, PatchReader):
    """A `PatchReader` that is not trained."""


def patches(image: Float[Tensor, "b c height width"], size: int) -> Float[Tensor, "b n p"]:
    """Return the patches (b, n, channels · size²) of an image: the slow, obvious reference."""
    return F.unfold(image, size, stride=size).transpose(1, 2)


Config = TypeVar("Config", bound="PatchOptions")


@dataclass(frozen=True, kw_only=True)
class PatchOptions:
    """Options of a Vision Transformer, with and without a head.

    kind         "vit", a Transformer over the patches of an image
    encoder      the Transformer encoder over the patches
    dim          width of the model, in numbers per patch
    patch_size   side of a patch, in pixels; halving it makes four times as many patches
    channels     colour channels of the images: 1 for grey, 3 for colour
    stem         "linear": one linear map per patch; "convolutional": overlapping patches by
                 convolutions of stride 2, which learn better from few images
    distillation_token   whether a second learned token is read with the patches, as in DeiT; set it
                 for weights of DeiT
    frozen       whether the encoder keeps the weights that `--init` gives; its states are then
                 computed once for each image, which is much faster than to train it
    """

    kind: Literal["vit"] = "vit"
    encoder: TransformerEncoderConfig = TransformerEncoderConfig(
        position=LearnedConfig(), activation="gelu"
    )
    dim: Count = 192
    patch_size: Count = 16
    channels: Count = 3
    stem: Literal["linear", "convolutional"] = "linear"
    distillation_token: bool = False
    frozen: bool = False

    def conflicts(self) -> Iterator[Conflict]:
        """Yield the options that concern positions in text only, and a token without a place."""
        yield from grid_conflicts(self.encoder.position, "encoder.position")
        if self.distillation_token and self.encoder.position.encoding.mixes_tokens:
            kind = self.encoder.position.kind
            yield Conflict("distillation_token", f'does not go with position.kind = "{kind}"')

    @property
    def memory_dim(self) -> int:
        """The width of the states."""
        return self.dim

    def grid(self, size: int) -> tuple[int, int]:
        """Return the patches (rows, columns) of a square image of `size` pixels."""
        return size // self.patch_size, size // self.patch_size

    def sized(self: Config, size: int) -> Config:
        """Return the options for square images of `size` pixels, with places for their patches.

        Raises:
            RecipeError: If the images cannot be divided into patches.
        """
        if size % self.patch_size:
            raise RecipeError(
                f"images of {size} x {size} pixels (image.size) cannot be divided into patches of "
                f"{self.patch_size} (patch_size); change one of them"
            )
        position = sized(self.encoder.position, self.grid(size))
        return replace(self, encoder=replace(self.encoder, position=position))

    def make_encoder(self, *, class_token: bool, only_patches: bool = False) -> TransformerEncoder:
        """Build the encoder; learned positions need the size of the image, see `sized`.

        Args:
            class_token: Read a class token before the patches.
            only_patches: Return the states of the patches only.
        """
        position = self.encoder.position
        require_grid_width(position, self.dim, self.encoder.head_width(self.dim))
        stems = {"linear": PatchStem, "convolutional": OverlappingPatchStem}
        width = position.token_dim(self.dim)
        stem = stems[self.stem](
            width,
            self.patch_size,
            self.channels,
            class_token=class_token,
            distillation_token=self.distillation_token,
        )
        cuts = only_patches and (class_token or self.distillation_token)
        kinds = {
            (False, False): TransformerEncoder,
            (False, True): PatchReader,
            (True, False): FrozenEncoder,
            (True, True): FrozenPatchReader,
        }
        return self.encoder.build(stem, self.dim, kinds[self.frozen, cuts])


@dataclass(frozen=True, kw_only=True)
class PatchReaderConfig(PatchOptions):
    """Options of a Vision Transformer as an encoder of images.

    class_token   whether a class token is read with the patches, as in pretrained weights; a
                  decoder sees the patches only
    """

    class_token: bool = False

    def build(self) -> TransformerEncoder:
        """Build the encoder, whose states are those of the patches."""
        return self.make_encoder(class_token=self.class_token, only_patches=True)
