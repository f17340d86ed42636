"""Images as sequences of patches (Dosovitskiy et al. 2021)."""

import torch
from torch import nn
from torch.nn import functional as F

from saccade.encoders.stems import Stemmed
from saccade.errors import ShapeError
from saccade.positions.base import Grid
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
        self.patch_size = patch_size
        self.project = nn.Conv2d(channels, dim, patch_size, stride=patch_size)
        self.class_token = nn.Parameter(torch.zeros(1, 1, dim)) if class_token else None
        if self.class_token is not None:
            nn.init.normal_(self.class_token, std=0.02)

    def forward(self, image: Float[Tensor, "b c height width"]) -> Stemmed:
        """The vectors of the patches, row by row, and the cells where they stand."""
        b, channels, height, width = image.shape
        if channels != self.project.in_channels:
            raise ShapeError(
                f"this reader takes images of {self.project.in_channels} channels, got {channels}"
            )
        if height % self.patch_size or width % self.patch_size:
            raise ShapeError(
                f"an image of {height} x {width} pixels does not fall into patches of "
                f"{self.patch_size} x {self.patch_size}"
            )
        grid = self.project(image)
        x = grid.flatten(2).transpose(1, 2)
        nowhere = 0
        if self.class_token is not None:
            x, nowhere = torch.cat((self.class_token.expand(b, -1, -1), x), 1), 1
        return Stemmed(x, Grid.of(*grid.shape[2:], nowhere=nowhere, device=image.device))


def patches(image: Float[Tensor, "b c height width"], size: int) -> Float[Tensor, "b n p"]:
    """The patches themselves, (b, number, channels · size²): the slow, obvious form."""
    return F.unfold(image, size, stride=size).transpose(1, 2)
