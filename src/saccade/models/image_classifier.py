"""Readers of images with a head, and without."""

from dataclasses import dataclass

from torch import nn

from saccade.config import Count, Share
from saccade.encoders.patches import PatchStem
from saccade.encoders.transformer import TransformerEncoderConfig
from saccade.interfaces import Memory
from saccade.layers.dropout import Dropout
from saccade.layers.pooling import Pooling, pool
from saccade.positions import PositionConfig
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
        return self.head(self.dropout(pool(self.read(image), self.pooling)))


@dataclass(frozen=True, kw_only=True)
class ImageClassifierConfig:
    """A Vision Transformer: patches, a class token or the mean of all patches, and a head."""

    encoder: TransformerEncoderConfig = TransformerEncoderConfig(
        position=PositionConfig(kind="learned", grid=(14, 14)), activation="gelu"
    )
    dim: Count = 192
    patch_size: int = 16
    channels: int = 3
    pooling: Pooling = "first"
    dropout: Share = 0.0

    def build_encoder(self) -> ImageEncoder:
        """The reader alone."""
        stem = PatchStem(
            self.dim - self.encoder.position.widening,
            self.patch_size,
            self.channels,
            class_token=self.pooling == "first",
        )
        return ImageEncoder(self.encoder.build(stem, self.dim))

    def build(self, num_classes: int) -> ImageClassifier:
        """The classifier."""
        return ImageClassifier(
            self.build_encoder().encoder,
            nn.Linear(self.dim, num_classes),
            pooling=self.pooling,
            dropout=self.dropout,
        )
