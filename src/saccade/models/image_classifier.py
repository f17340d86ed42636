"""Image classifiers, and image encoders without a head."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import nn

from saccade.config import Fraction
from saccade.encoders.convolutional import GridNorm, ResNetOptions
from saccade.encoders.patches import PatchOptions
from saccade.interfaces import Memory
from saccade.layers.dropout import Dropout
from saccade.models.pooling import (
    AttentionPooling,
    Pooling,
    PoolingOptions,
    encode_pooled,
    pooled_dim,
)
from saccade.shapes import Float, Tensor


class ImageEncoder(nn.Module):
    """Encoder of images without a head: one vector per patch or cell.

    Args:
        encoder: A module `encoder(image) → Memory`.
    """

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, image: Float[Tensor, "b c height width"]) -> Float[Tensor, "b n d"]:
        """Return the states (b, n, d), that of a class token first if there is one."""
        return self.read(image).states

    def read(self, image: Float[Tensor, "b c height width"]) -> Memory:
        """Encode images."""
        return self.encoder(image)


class ImageClassifier(ImageEncoder):
    """Image classifier; with patches, a Vision Transformer (Dosovitskiy et al. 2021).

    Args:
        encoder: A module `encoder(image) → Memory`.
        head: A module from the pooled vector to logits.
        pooling: Which vector stands for the image: "first", "mean" or "summary", or a module that
            pools by attention.
        dropout: Dropout before the head.
    """

    def __init__(
        self,
        encoder: nn.Module,
        head: nn.Module,
        *,
        pooling: Pooling | AttentionPooling = "first",
        dropout: float = 0.0,
    ) -> None:
        super().__init__(encoder)
        self.pooling = pooling
        self.dropout = Dropout(dropout)
        self.head = head

    def forward(self, image: Float[Tensor, "b c height width"]) -> Float[Tensor, "b classes"]:
        """Return the logits of the classes."""
        return self.head(self.dropout(encode_pooled(self.encoder, self.pooling, image)))


@dataclass(frozen=True, kw_only=True)
class ImageClassifierConfig(PoolingOptions, PatchOptions):
    """Options of a Vision Transformer with a head.

    pooling   which vector the head reads: "first", that of a class token; "mean", the mean of all
              patches; "attention", the patches weighted by learned queries
    dropout   dropout before the head, a fraction; raise it for small data
    """

    pooling: Literal["first", "mean", "attention"] = "first"
    dropout: Fraction = 0.0

    @property
    def class_token(self) -> bool:
        """True if there is a class token before the patches."""
        return self.pooling == "first"

    def build(self, num_classes: int) -> ImageClassifier:
        """Build the classifier."""
        encoder = self.make_encoder(class_token=self.class_token)
        pooling = self.make_pooling(self.dim)
        return ImageClassifier(
            encoder,
            nn.Linear(pooled_dim(pooling, self.dim), num_classes),
            pooling=pooling,
            dropout=self.dropout,
        )


@dataclass(frozen=True, kw_only=True)
class ConvolutionalClassifierConfig(PoolingOptions, ResNetOptions):
    """Options of a ResNet with a head over its cells.

    norm      "batch" normalises all images of a batch together; "group" each image alone, for very
              small batches
    pooling   which vector the head reads: "mean", the mean of all cells; "attention", the cells
              weighted by learned queries, which shows the regions that matter
    """

    class_token: ClassVar[bool] = False
    norm: GridNorm = "batch"
    pooling: Literal["mean", "attention"] = "mean"

    def build(self, num_classes: int) -> ImageClassifier:
        """Build the classifier."""
        encoder, pooling = self.make_encoder(), self.make_pooling(self.memory_dim)
        head = nn.Linear(pooled_dim(pooling, self.memory_dim), num_classes)
        return ImageClassifier(encoder, head, pooling=pooling)
