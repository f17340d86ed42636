"""Readers of images with a head, and without."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import nn

from saccade.config import Fraction
from saccade.encoders.convolutional import GridNorm, ResNetOptions
from saccade.encoders.patches import PatchOptions
from saccade.interfaces import Memory
from saccade.layers.dropout import Dropout
from saccade.layers.pooling import Pooling
from saccade.models.pooled import read_as_one
from saccade.shapes import Float, Tensor


class ImageEncoder(nn.Module):
    """Reads an image: one vector a patch or cell, after the class token's where there is one."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, image: Float[Tensor, "b c height width"]) -> Float[Tensor, "b n d"]:
        """The states."""
        return self.read(image).states

    def read(self, image: Float[Tensor, "b c height width"]) -> Memory:
        """The image, read."""
        return self.encoder(image)


class ImageClassifier(ImageEncoder):
    """Reads an image and labels it (with patches: ViT, Dosovitskiy et al. 2021)."""

    def __init__(
        self,
        encoder: nn.Module,
        head: nn.Module,
        *,
        pooling: Pooling = "first",
        dropout: float = 0.0,
    ) -> None:
        super().__init__(encoder)
        self.pooling = pooling
        self.dropout = Dropout(dropout)
        self.head = head

    def forward(self, image: Float[Tensor, "b c height width"]) -> Float[Tensor, "b classes"]:
        """The logits of the classes."""
        return self.head(self.dropout(read_as_one(self.encoder, self.pooling, image)))


@dataclass(frozen=True, kw_only=True)
class ImageClassifierConfig(PatchOptions):
    """A Vision Transformer with a head.

    pooling   "first": a class token is read with the patches, and labelled; "mean": the mean of all
              patches is
    dropout   on what is labelled
    """

    pooling: Literal["first", "mean"] = "first"
    dropout: Fraction = 0.0

    @property
    def class_token(self) -> bool:
        """Whether a class token stands before the patches."""
        return self.pooling == "first"

    def build(self, num_classes: int) -> ImageClassifier:
        """The classifier."""
        return ImageClassifier(
            self.make_reader(class_token=self.class_token),
            nn.Linear(self.dim, num_classes),
            pooling=self.pooling,
            dropout=self.dropout,
        )


@dataclass(frozen=True, kw_only=True)
class ConvolutionalClassifierConfig(ResNetOptions):
    """A ResNet with a head over the mean of its cells."""

    class_token: ClassVar[bool] = False
    norm: GridNorm = "batch"

    def build(self, num_classes: int) -> ImageClassifier:
        """The classifier."""
        head = nn.Linear(self.memory_dim, num_classes)
        return ImageClassifier(self.make_reader(), head, pooling="summary")
