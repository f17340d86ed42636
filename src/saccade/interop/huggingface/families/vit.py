"""ViT (Dosovitskiy et al. 2021): a pre-norm encoder of image patches and its head."""

import copy
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from saccade.attention.projection import Packed
from saccade.encoders.patches import PatchStem
from saccade.encoders.transformer import (
    TransformerEncoder,
    TransformerEncoderConfig,
    TransformerEncoderLayer,
)
from saccade.errors import InteropError
from saccade.interop.huggingface.config_json import (
    Epsilon,
    Flag,
    HuggingFaceActivation,
    Rate,
    Size,
    our_activation,
    their_activation,
)
from saccade.interop.huggingface.family import Architecture, Family
from saccade.interop.huggingface.model_diff import submodule, submodules
from saccade.interop.huggingface.tensor_map import (
    Entry,
    LeadingAxis,
    TensorMap,
    layer,
    repeated,
    tensor,
)
from saccade.layers.residual import StochasticDepth
from saccade.models import ImageClassifier, ImageClassifierConfig, ImageEncoder
from saccade.positions import Learned, LearnedConfig

BLOCK = (
    *layer("around_attention.norm", "layernorm_before"),
    *layer(
        "self_attention.projection",
        "attention.attention.query",
        "attention.attention.key",
        "attention.attention.value",
    ),
    *layer("self_attention.out_proj", "attention.output.dense"),
    *layer("around_feed_forward.norm", "layernorm_after"),
    *layer("feed_forward.widen", "intermediate.dense"),
    *layer("feed_forward.narrow", "output.dense"),
)


@dataclass(frozen=True, kw_only=True)
class Vit(Family):
    """ViT; sizes in pixels are one number or (height, width)."""

    model_type: ClassVar = "vit"
    architectures: ClassVar = {
        "ViTModel": Architecture(ImageEncoder, head=False),
        "ViTForImageClassification": Architecture(
            ImageClassifier, task="image_classification", labels=True
        ),
    }
    unnamed: ClassVar = "ViTModel"
    distilled: ClassVar[bool] = False
    places: ClassVar[tuple[Entry, ...]] = (
        tensor("encoder.position.weight", "embeddings.position_embeddings", LeadingAxis()),
    )
    ignored: ClassVar[tuple[str, ...]] = ()

    hidden_size: Size = 768
    num_hidden_layers: Size = 12
    num_attention_heads: Size = 12
    intermediate_size: Size = 3072
    hidden_act: HuggingFaceActivation = "gelu"
    hidden_dropout_prob: Rate = 0.0
    attention_probs_dropout_prob: Rate = 0.0
    layer_norm_eps: Epsilon = 1e-12
    image_size: Size | tuple[Size, Size] = 224
    patch_size: Size | tuple[Size, Size] = 16
    num_channels: Size = 3
    qkv_bias: Flag = True

    @classmethod
    def of(cls, architecture: str, model: nn.Module) -> "Vit":
        """Return the keys that describe a model, read off its first block."""
        labels = cls.architectures[architecture].labels
        encoder = submodule(model, "encoder", TransformerEncoder)
        stem = submodule(model, "encoder.stem", PatchStem)
        block = submodule(model, "encoder.layers.0", TransformerEncoderLayer)
        return cls(
            hidden_size=stem.project.out_channels,
            num_hidden_layers=len(encoder.layers),
            num_attention_heads=block.self_attention.num_heads,
            intermediate_size=block.feed_forward.widen.out_features,
            hidden_act=their_activation(block.feed_forward.activation),
            hidden_dropout_prob=float(encoder.dropout.p),
            attention_probs_dropout_prob=float(block.self_attention.attend.dropout),
            layer_norm_eps=submodule(model, "encoder.norm", nn.LayerNorm).eps,
            image_size=_image_size(submodule(model, "encoder.position", Learned), stem.patch_size),
            patch_size=stem.patch_size,
            num_channels=stem.project.in_channels,
            qkv_bias=getattr(block.self_attention.projection, "bias", None) is not None,
            num_labels=submodule(model, "head", nn.Linear).out_features if labels else 2,
        )

    @classmethod
    def rewrite(cls, model: nn.Module) -> nn.Module:
        """Return the model without stochastic depth, which acts in training only."""
        skips = submodules(model, StochasticDepth)
        if not skips:
            return model
        model = copy.deepcopy(model)
        for name in skips:
            model.set_submodule(name, nn.Identity())
        return model

    def config(self, architecture: str) -> ImageClassifierConfig | None:
        """Return the options of the encoder and of its head; None without biases of attention."""
        return self._options() if self.qkv_bias else None

    def build(self, architecture: str) -> nn.Module:
        """Return the encoder, with its head if it has one."""
        options, dim = self._options(), self.hidden_size
        encoder = options.make_encoder(class_token=True)
        if not self.qkv_bias:
            for block in submodules(encoder, TransformerEncoderLayer).values():
                block.self_attention.projection = Packed(dim, dim, dim, bias=False)
        if self.architectures[architecture].head:
            return ImageClassifier(encoder, nn.Linear(dim, self.num_labels))
        return ImageEncoder(encoder)

    def _options(self) -> ImageClassifierConfig:
        patch_size, grid = self._patches()
        return ImageClassifierConfig(
            encoder=TransformerEncoderConfig(
                num_layers=self.num_hidden_layers,
                num_heads=self.num_attention_heads,
                hidden_dim=self.intermediate_size,
                norm_order="pre",
                activation=our_activation(self.hidden_act),
                dropout=self.hidden_dropout_prob,
                attention_dropout=self.attention_probs_dropout_prob,
                norm_eps=self.layer_norm_eps,
                position=LearnedConfig(grid=grid),
            ),
            dim=self.hidden_size,
            patch_size=patch_size,
            channels=self.num_channels,
            distillation_token=self.distilled,
        )

    def tensor_map(self, architecture: str) -> TensorMap:
        """Return the map; a pooler is ignored, because no head uses it."""
        return TensorMap(
            (
                tensor("encoder.stem.class_token", "embeddings.cls_token"),
                *self.places,
                *layer("encoder.stem.project", "embeddings.patch_embeddings.projection"),
                *repeated(self.num_hidden_layers, "encoder.layers", "encoder.layer", BLOCK),
                *layer("encoder.norm", "layernorm"),
                *layer("head", "classifier"),
            ),
            ignored=("pooler.", "embeddings.mask_token", *self.ignored),
            prefix=f"{self.model_type}.",
            head=("classifier.",) if self.architectures[architecture].head else (),
        )

    def _patches(self) -> tuple[int, tuple[int, int]]:
        """Return the size of a patch, and the number of rows and columns of patches."""
        patch, image = _pair(self.patch_size), _pair(self.image_size)
        if patch[0] != patch[1]:
            raise InteropError(f"patch_size is {patch}; only square patches are supported")
        if image[0] % patch[0] or image[1] % patch[0]:
            raise InteropError(
                f"image_size is {image}, which must be a multiple of the patches of "
                f"{patch[0]} x {patch[0]}; "
                "correct one of them"
            )
        return patch[0], (image[0] // patch[0], image[1] // patch[0])


def _image_size(position: Learned, patch: int) -> tuple[int, int]:
    match position.length:
        case (rows, columns):
            return rows * patch, columns * patch
        case length:
            raise InteropError(
                f"encoder.position has {length} places in a row, and the format needs a grid; "
                "set model.encoder.position.grid"
            )


def _pair(size: int | tuple[int, int]) -> tuple[int, int]:
    match size:
        case (height, width):
            return height, width
        case side:
            return side, side
