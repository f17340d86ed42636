"""ViT (Dosovitskiy et al. 2021): a reader of patches with norms before its parts, and its head."""

from collections.abc import Mapping
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
    Rate,
    Size,
    TheirActivation,
    our_activation,
    their_activation,
)
from saccade.interop.huggingface.family import Family
from saccade.interop.huggingface.model_diff import part
from saccade.interop.huggingface.tensor_map import Batched, Names, layer, repeated, tensor
from saccade.models import ImageClassifier, ImageEncoder
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
class VitOptions:
    """What its config.json says; sizes of pixels are one number or (height, width)."""

    hidden_size: Size = 768
    num_hidden_layers: Size = 12
    num_attention_heads: Size = 12
    intermediate_size: Size = 3072
    hidden_act: TheirActivation = "gelu"
    hidden_dropout_prob: Rate = 0.0
    attention_probs_dropout_prob: Rate = 0.0
    layer_norm_eps: Epsilon = 1e-12
    image_size: Size | tuple[Size, Size] = 224
    patch_size: Size | tuple[Size, Size] = 16
    num_channels: Size = 3
    qkv_bias: Flag = True
    num_labels: Size = 2


class Vit(Family[VitOptions]):
    """`vit`."""

    model_type = "vit"
    options = VitOptions
    architectures: ClassVar[Mapping[str, type[nn.Module]]] = {
        "ViTModel": ImageEncoder,
        "ViTForImageClassification": ImageClassifier,
    }
    unnamed = "ViTModel"

    def build(self, architecture: str, options: VitOptions) -> nn.Module:
        """The reader, and the head where there is one."""
        dim = options.hidden_size
        patch_size, grid = _patches(options)
        encoder = TransformerEncoderConfig(
            num_layers=options.num_hidden_layers,
            num_heads=options.num_attention_heads,
            hidden_dim=options.intermediate_size,
            norm_order="pre",
            activation=our_activation(options.hidden_act),
            dropout=options.hidden_dropout_prob,
            attention_dropout=options.attention_probs_dropout_prob,
            norm_eps=options.layer_norm_eps,
            position=LearnedConfig(grid=grid),
        ).build(PatchStem(dim, patch_size, options.num_channels), dim)
        if not options.qkv_bias:
            for i in range(options.num_hidden_layers):
                attention = part(encoder, f"layers.{i}", TransformerEncoderLayer).self_attention
                attention.projection = Packed(dim, dim, dim, bias=False)
        if self.architectures[architecture] is ImageClassifier:
            return ImageClassifier(encoder, nn.Linear(dim, options.num_labels))
        return ImageEncoder(encoder)

    def describe(self, model: nn.Module) -> VitOptions:
        """Read off the first block; the comparison finds any that differs."""
        encoder = part(model, "encoder", TransformerEncoder)
        stem = part(model, "encoder.stem", PatchStem)
        block = part(model, "encoder.layers.0", TransformerEncoderLayer)
        grid = part(model, "encoder.position", Learned).length
        if isinstance(grid, int):
            raise InteropError(
                f"encoder.position counts {grid} places in a row, and the format needs a grid"
            )
        has_head = isinstance(model, ImageClassifier)
        return VitOptions(
            hidden_size=stem.project.out_channels,
            num_hidden_layers=len(encoder.layers),
            num_attention_heads=block.self_attention.num_heads,
            intermediate_size=block.feed_forward.widen.out_features,
            hidden_act=their_activation(block.feed_forward.activation),
            hidden_dropout_prob=float(encoder.dropout.p),
            attention_probs_dropout_prob=float(block.self_attention.attend.dropout),
            layer_norm_eps=part(model, "encoder.norm", nn.LayerNorm).eps,
            image_size=(grid[0] * stem.patch_size, grid[1] * stem.patch_size),
            patch_size=stem.patch_size,
            num_channels=stem.project.in_channels,
            qkv_bias=getattr(block.self_attention.projection, "bias", None) is not None,
            num_labels=part(model, "head", nn.Linear).out_features if has_head else 2,
        )

    def names(self, architecture: str, options: VitOptions) -> Names:
        """A pooler is left out: no head uses it."""
        return Names(
            (
                tensor("encoder.stem.class_token", "embeddings.cls_token"),
                tensor("encoder.position.weight", "embeddings.position_embeddings", Batched()),
                *layer("encoder.stem.project", "embeddings.patch_embeddings.projection"),
                *repeated(options.num_hidden_layers, "encoder.layers", "encoder.layer", BLOCK),
                *layer("encoder.norm", "layernorm"),
                *layer("head", "classifier"),
            ),
            ignored=("pooler.", "embeddings.mask_token"),
            prefix="vit.",
            head=() if architecture == "ViTModel" else ("classifier.",),
        )


def _patches(options: VitOptions) -> tuple[int, tuple[int, int]]:
    """The size of a patch, and how many stand below and beside each other."""
    patch, image = _pair(options.patch_size), _pair(options.image_size)
    if patch[0] != patch[1]:
        raise InteropError(
            f"patch_size is {patch}, and patches that are not square are not supported"
        )
    if image[0] % patch[0] or image[1] % patch[0]:
        raise InteropError(
            f"image_size is {image}, which does not fall into patches of {patch[0]} x {patch[0]}"
        )
    return patch[0], (image[0] // patch[0], image[1] // patch[0])


def _pair(size: int | tuple[int, int]) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else size
