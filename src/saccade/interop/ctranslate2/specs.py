"""Our weights where CTranslate2 looks for them.

Its specs are trees of named slots. Sinusoids, which it would compute by a rule of its own, are
written as a table, so that both compute the same.
"""

import math
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from saccade.attention import MultiHeadAttention
from saccade.attention.projection import Packed
from saccade.attention.scores import Dot
from saccade.decoders.transformer import (
    TransformerDecoder,
    TransformerDecoderConfig,
    TransformerDecoderLayer,
)
from saccade.encoders.stems import TokenStem
from saccade.encoders.transformer import (
    TransformerEncoder,
    TransformerEncoderConfig,
    TransformerEncoderLayer,
)
from saccade.errors import InteropError
from saccade.interop.ctranslate2.package import package
from saccade.layers.embeddings import TokenEmbedding
from saccade.layers.feed_forward import FeedForward, GatedFeedForward
from saccade.models import LanguageModel, Translator, TranslatorConfig
from saccade.models.language_models import LanguageModelConfig
from saccade.positions.base import Absolute
from saccade.positions.buckets import Buckets
from saccade.positions.learned import Learned
from saccade.positions.relative import Relative
from saccade.positions.rotary import RotaryConfig
from saccade.shapes import Tensor

ACTIVATIONS = {
    "relu": "RELU",
    "gelu": "GELU",
    "gelu_tanh": "GELUTanh",
    "silu": "SWISH",
    "tanh": "Tanh",
}
Side = TransformerEncoderConfig | TransformerDecoderConfig


def translator_spec(model: Translator, config: TranslatorConfig, places: int) -> Any:
    """Return the spec of a translator whose texts have at most `places` tokens."""
    theirs = package(".specs.transformer_spec")
    match (model.encoder, config.encoder), (model.decoder, config.decoder):
        case (
            (TransformerEncoder() as encoder, TransformerEncoderConfig() as reads),
            (TransformerDecoder() as decoder, TransformerDecoderConfig() as writes),
        ):
            return _with_eps(
                theirs.TransformerSpec(
                    _encoder(encoder, reads, config.dim, places),
                    _decoder(decoder, writes, config.dim, places, reads=True),
                ),
                writes,
            )
    raise InteropError("CTranslate2 runs Transformers only")


def language_model_spec(model: LanguageModel, config: LanguageModelConfig, places: int) -> Any:
    """Return the spec of a language model that sees at most `places` tokens."""
    theirs = package(".specs.transformer_spec")
    decoder = _decoder(model.decoder, config.decoder, config.dim, places, reads=False)
    return _with_eps(theirs.TransformerDecoderModelSpec(decoder), config.decoder)


def _with_eps(spec: Any, config: TransformerDecoderConfig) -> Any:
    """Return the spec with the one ε of the norms of both sides."""
    spec.config.layer_norm_epsilon = config.norm_eps
    return spec


def _encoder(model: TransformerEncoder, config: TransformerEncoderConfig, dim: int, n: int) -> Any:
    spec = package(".specs.transformer_spec").TransformerEncoderSpec(
        config.num_layers,
        config.num_heads,
        layernorm_embedding=config.stem_norm,
        **_options(config, dim),
    )
    stem = cast("TokenStem", model.stem)  # a translator reads tokens
    _embed(spec, spec.embeddings[0], stem.embedding, model.position, n)
    if config.stem_norm:
        _norm(spec.layernorm_embedding, model.stem_norm)
    if config.norm_order == "pre":
        _norm(spec.layer_norm, model.norm)
    for slots, block in zip(spec.layer, model.layers, strict=True):
        layer = cast("TransformerEncoderLayer", block)
        _self_attention(slots, layer, model.position)
        _feed_forward(slots, layer)
    return spec


def _decoder(
    model: TransformerDecoder, config: TransformerDecoderConfig, dim: int, n: int, *, reads: bool
) -> Any:
    spec = package(".specs.transformer_spec").TransformerDecoderSpec(
        config.num_layers, config.num_heads, with_encoder_attention=reads, **_options(config, dim)
    )
    _embed(spec, spec.embeddings, model.embedding, model.position, n)
    if config.norm_order == "pre":
        _norm(spec.layer_norm, model.norm)
    _linear(spec.projection, model.output.weight, model.output.bias)
    for slots, layer in zip(spec.layer, model.blocks(), strict=True):
        _self_attention(slots, layer, model.position)
        if layer.cross is not None:
            _cross_attention(slots.attention, layer.cross)
            _norm(slots.attention.layer_norm, layer.around_cross.norm)
        _feed_forward(slots, layer)
    return spec


def _options(config: Side, dim: int) -> dict[str, Any]:
    position = config.position
    options: dict[str, Any] = {
        "pre_norm": config.norm_order == "pre",
        "activation": package(".specs.common_spec").Activation[ACTIVATIONS[config.activation]],
        "num_heads_kv": config.num_kv_heads,
        "relative_position": position.encoding is Relative,
        "relative_attention_bias": position.encoding is Buckets,
        "rms_norm": config.norm == "rms",
        "ffn_glu": config.feed_forward == "gated",
        "qk_norm": config.qk_norm,
        "head_dim": config.head_width(dim),
    }
    match position:
        case RotaryConfig(layout=layout, base=base):
            options["rotary_dim"] = config.head_width(dim)
            options["rotary_interleave"] = layout == "interleaved"
            options["rotary_base"] = base
    return options


def _embed(spec: Any, slots: Any, embedding: TokenEmbedding, position: nn.Module, n: int) -> None:
    slots.weight = _array(embedding.weight)
    spec.scale_embeddings = False if embedding.scale == 1 else np.float32(embedding.scale)
    if hasattr(spec, "position_encodings"):
        spec.position_encodings.encodings = _array(_table(position, n, embedding.dim))


def _table(position: nn.Module, places: int, dim: int) -> Tensor:
    """Return the vectors that are added at each position; zeros if positions act elsewhere."""
    match position:
        case Learned():
            return position.weight
        case Absolute():
            return position.table(torch.arange(places), torch.float32)
    return torch.zeros(places, dim)


def _self_attention(
    slots: Any, layer: TransformerEncoderLayer | TransformerDecoderLayer, position: nn.Module
) -> None:
    attention, theirs = layer.self_attention, slots.self_attention
    projection = _packed(attention)
    _linear(theirs.linear[0], projection.weight, projection.bias)
    _linear(theirs.linear[1], attention.out_proj.weight, attention.out_proj.bias)
    _norm(theirs.layer_norm, layer.around_attention.norm)
    scale = _scale(theirs, attention)
    match position:
        case Relative():
            # ours divides what positions add by √d, whatever the score; theirs as the score does
            table = position.weight / (scale * math.sqrt(attention.head_dim))
            theirs.relative_position_keys = _array(table)
            del theirs.relative_position_values
        case Buckets():
            theirs.relative_attention_bias = _array(position.weight)
            theirs.relative_attention_max_distance = np.int32(position.max_distance)


def _packed(attention: MultiHeadAttention) -> Packed:
    """Return the projection of an attention whose score CTranslate2 has; it is always packed."""
    return cast("Packed", attention.projection)


def _cross_attention(theirs: Any, attention: MultiHeadAttention) -> None:
    projection = _packed(attention)
    width = projection.widths[0]
    parts = (slice(0, width), slice(width, None))
    for slot, rows in zip(theirs.linear, parts, strict=False):
        bias = None if projection.bias is None else projection.bias[rows]
        _linear(slot, projection.weight[rows], bias)
    _linear(theirs.linear[2], attention.out_proj.weight, attention.out_proj.bias)
    _scale(theirs, attention)


def _scale(theirs: Any, attention: MultiHeadAttention) -> float:
    """Return the factor of the dot products, after the norms of queries and keys."""
    match attention.query_norm:
        case nn.RMSNorm() as norm:
            _norm(theirs.q_norm, norm)
            _norm(theirs.k_norm, attention.key_norm)
    scale = 1.0 if type(attention.attend.score) is Dot else attention.head_dim**-0.5
    theirs.queries_scale = np.float32(scale)
    return scale


def _feed_forward(slots: Any, layer: TransformerEncoderLayer | TransformerDecoderLayer) -> None:
    ours: FeedForward = layer.feed_forward
    _linear(slots.ffn.linear_0, ours.widen.weight, ours.widen.bias)
    _linear(slots.ffn.linear_1, ours.narrow.weight, ours.narrow.bias)
    match ours:
        case GatedFeedForward():
            _linear(slots.ffn.linear_0_noact, ours.gate.weight, ours.gate.bias)
    _norm(slots.ffn.layer_norm, layer.around_feed_forward.norm)


def _linear(slots: Any, weight: Tensor, bias: Tensor | None) -> None:
    slots.weight = _array(weight)
    if bias is not None:
        slots.bias = _array(bias)


def _norm(slots: Any, norm: nn.Module) -> None:
    match norm:
        case nn.LayerNorm():  # one without a beta would be an RMS norm there
            slots.gamma = _array(norm.weight)
            zeros = torch.zeros_like(norm.weight)
            slots.beta = _array(zeros if norm.bias is None else norm.bias)
        case nn.RMSNorm():
            slots.gamma = _array(norm.weight)


def _array(values: Tensor) -> npt.NDArray[np.float32]:
    """Return a copy: quantising changes it in place."""
    return values.detach().to("cpu", torch.float32, copy=True).contiguous().numpy()
