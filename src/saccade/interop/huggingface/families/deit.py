"""DeiT (Touvron et al. 2021): a ViT that also reads a distillation token.

Our encoder has that token after the patches, where attention does not notice the difference.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch

from saccade.interop.huggingface.families.vit import Vit
from saccade.interop.huggingface.family import Architecture
from saccade.interop.huggingface.tensor_map import Entry, TensorForm, tensor
from saccade.models import ImageClassifier, ImageEncoder
from saccade.shapes import Tensor

POSITIONS = "embeddings.position_embeddings"


class _PositionsOfBoth(TensorForm):
    """Positions that begin with those of both tokens; ours begin with that of the class token."""

    def join(self, theirs: tuple[Tensor, ...]) -> Tensor:
        """Leave the position of the distillation token out."""
        table = theirs[0].squeeze(0)
        return torch.cat((table[:1], table[2:]))

    def split(self, ours: Tensor, count: int) -> tuple[Tensor, ...]:
        """Give both tokens the same position."""
        return (torch.cat((ours[:1], ours)).unsqueeze(0),)


class _PlacedToken(TensorForm):
    """The distillation token, which has the position of the class token in ours."""

    def join(self, theirs: tuple[Tensor, ...]) -> Tensor:
        """Add the difference of both positions."""
        token, positions = theirs
        return token + positions[:, 1:2] - positions[:, :1]

    def split(self, ours: Tensor, count: int) -> tuple[Tensor, ...]:
        """Return the token, whose position is that of the class token."""
        return (ours,)


@dataclass(frozen=True, kw_only=True)
class Deit(Vit):
    """DeiT with a head on the class token.

    The two heads of DeiTForImageClassificationWithTeacher are left out.
    """

    model_type: ClassVar = "deit"
    architectures: ClassVar = {
        "DeiTModel": Architecture(ImageEncoder, head=False),
        "DeiTForImageClassificationWithTeacher": Architecture(ImageEncoder, head=False),
        "DeiTForImageClassification": Architecture(
            ImageClassifier, task="image_classification", labels=True
        ),
    }
    unnamed: ClassVar = "DeiTModel"
    distilled: ClassVar = True
    rank: ClassVar = 1
    places: ClassVar = (
        tensor("encoder.position.weight", POSITIONS, _PositionsOfBoth()),
        Entry(
            "encoder.stem.distillation_token",
            ("embeddings.distillation_token",),
            _PlacedToken(),
            also=(POSITIONS,),
        ),
    )
    ignored: ClassVar = ("cls_classifier.", "distillation_classifier.")
