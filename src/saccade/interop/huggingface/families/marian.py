"""Marian (Junczys-Dowmunt et al. 2018), the translators of OPUS-MT.

The Transformer of Vaswani et al. (2017): post-norm, sinusoidal positions, no final norm. The
sinusoids are stored in halves, all sines before all cosines.
"""

import copy
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from saccade.decoders.transformer import (
    TransformerDecoder,
    TransformerDecoderConfig,
    TransformerDecoderLayer,
)
from saccade.encoders.transformer import (
    TransformerEncoder,
    TransformerEncoderConfig,
    TransformerEncoderLayer,
)
from saccade.errors import InteropError
from saccade.interop.huggingface.config_json import (
    Condition,
    Flag,
    HuggingFaceActivation,
    Rate,
    Size,
    our_activation,
    their_activation,
)
from saccade.interop.huggingface.family import Architecture, Family
from saccade.interop.huggingface.model_diff import submodule
from saccade.interop.huggingface.model_rewrites import with_biases, with_output_bias
from saccade.interop.huggingface.tensor_map import LeadingAxis, TensorMap, layer, repeated, tensor
from saccade.layers.embeddings import OutputProjection, TokenEmbedding
from saccade.models import Translator, TranslatorConfig
from saccade.positions import SinusoidalConfig

SOURCE, TARGET, OUTPUT = "encoder.stem.embedding", "decoder.embedding", "decoder.output"

BLOCK = (
    *layer("self_attention.projection", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    *layer("self_attention.out_proj", "self_attn.out_proj"),
    *layer("around_attention.norm", "self_attn_layer_norm"),
    *layer("feed_forward.widen", "fc1"),
    *layer("feed_forward.narrow", "fc2"),
    *layer("around_feed_forward.norm", "final_layer_norm"),
)
CROSS = (
    *layer("cross.projection", "encoder_attn.q_proj", "encoder_attn.k_proj", "encoder_attn.v_proj"),
    *layer("cross.out_proj", "encoder_attn.out_proj"),
    *layer("around_cross.norm", "encoder_attn_layer_norm"),
)


@dataclass(frozen=True, kw_only=True)
class Marian(Family):
    """Marian; `decoder_vocab_size` is `vocab_size` if it is null.

    `max_position_embeddings` is not read: sinusoids have no limit.
    """

    model_type: ClassVar = "marian"
    architectures: ClassVar = {"MarianMTModel": Architecture(Translator, task="text_to_text")}
    conditions: ClassVar = (
        Condition("normalize_before", "pre-norm Marian models are"),
        Condition("normalize_embedding", "norms on embeddings are"),
        Condition("add_final_layer_norm", "a final norm is"),
        Condition("static_position_embeddings", "learned positions are", must_be=True),
        Condition("encoder_layerdrop", "layer dropout is", must_be=0.0),
        Condition("decoder_layerdrop", "layer dropout is", must_be=0.0),
    )

    vocab_size: Size = 58101
    decoder_vocab_size: Size | None = None
    d_model: Size = 1024
    encoder_layers: Size = 12
    encoder_ffn_dim: Size = 4096
    encoder_attention_heads: Size = 16
    decoder_layers: Size = 12
    decoder_ffn_dim: Size = 4096
    decoder_attention_heads: Size = 16
    activation_function: HuggingFaceActivation = "gelu"
    dropout: Rate = 0.1
    attention_dropout: Rate = 0.0
    activation_dropout: Rate = 0.0
    scale_embedding: Flag = False
    share_encoder_decoder_embeddings: Flag = True
    tie_word_embeddings: Flag = True

    @classmethod
    def of(cls, architecture: str, model: nn.Module) -> "Marian":
        """Return the keys that describe a model, read off its first blocks."""
        encoder = submodule(model, "encoder", TransformerEncoder)
        decoder = submodule(model, "decoder", TransformerDecoder)
        source = submodule(model, SOURCE, TokenEmbedding)
        reads = submodule(model, "encoder.layers.0", TransformerEncoderLayer)
        writes = submodule(model, "decoder.layers.0", TransformerDecoderLayer)
        return cls(
            vocab_size=source.weight.shape[0],
            decoder_vocab_size=decoder.embedding.weight.shape[0],
            d_model=source.dim,
            encoder_layers=len(encoder.layers),
            encoder_ffn_dim=reads.feed_forward.widen.out_features,
            encoder_attention_heads=reads.self_attention.num_heads,
            decoder_layers=len(decoder.layers),
            decoder_ffn_dim=writes.feed_forward.widen.out_features,
            decoder_attention_heads=writes.self_attention.num_heads,
            activation_function=their_activation(reads.feed_forward.activation),
            dropout=float(encoder.dropout.p),
            attention_dropout=float(reads.self_attention.attend.dropout),
            activation_dropout=float(reads.feed_forward.dropout.p),
            scale_embedding=source.scale != 1.0,
            share_encoder_decoder_embeddings=decoder.embedding.weight is source.weight,
            tie_word_embeddings=decoder.output.weight is decoder.embedding.weight,
        )

    def config(self, architecture: str) -> TranslatorConfig:
        """Return the options of encoder and decoder."""
        if self.share_encoder_decoder_embeddings and not self.tie_word_embeddings:
            raise InteropError(
                "share_encoder_decoder_embeddings is true and tie_word_embeddings false, which "
                "versions of transformers read in different ways; make them equal"
            )
        encoder = TransformerEncoderConfig(
            num_layers=self.encoder_layers,
            num_heads=self.encoder_attention_heads,
            hidden_dim=self.encoder_ffn_dim,
            norm_order="post",
            activation=our_activation(self.activation_function),
            dropout=self.dropout,
            attention_dropout=self.attention_dropout,
            activation_dropout=self.activation_dropout,
            position=SinusoidalConfig(layout="halves"),
        )
        return TranslatorConfig(
            encoder=encoder,
            decoder=TransformerDecoderConfig(
                num_layers=self.decoder_layers,
                num_heads=self.decoder_attention_heads,
                hidden_dim=self.decoder_ffn_dim,
                norm_order="post",
                activation=encoder.activation,
                dropout=self.dropout,
                attention_dropout=self.attention_dropout,
                activation_dropout=self.activation_dropout,
                position=encoder.position,
            ),
            dim=self.d_model,
            share_embeddings=self.share_encoder_decoder_embeddings,
            tie_output=self.tie_word_embeddings,
            scale_embedding=self.scale_embedding,
            output_bias=True,
        )

    def build(self, architecture: str) -> nn.Module:
        """Return the translator."""
        return self.config(architecture).build(*self.vocabulary_sizes)

    def tensor_map(self, architecture: str) -> TensorMap:
        """Return the map; a shared embedding may have four names, and sinusoids are ignored."""
        theirs = "encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"
        copies = {"lm_head.weight": theirs[1]} if self.tie_word_embeddings else {}
        embeddings = [
            tensor(f"{ours}.weight", name)
            for ours, name in zip((SOURCE, TARGET, OUTPUT), theirs, strict=True)
        ]
        if self.share_encoder_decoder_embeddings:
            embeddings = [tensor(f"{SOURCE}.weight", "shared.weight")]
            copies = dict.fromkeys(theirs, "shared.weight")
        layers = "encoder.layers", "decoder.layers"
        return TensorMap(
            (
                *embeddings,
                *repeated(self.encoder_layers, layers[0], layers[0], BLOCK),
                *repeated(self.decoder_layers, layers[1], layers[1], (*BLOCK, *CROSS)),
                tensor(f"{OUTPUT}.bias", "final_logits_bias", LeadingAxis(), optional=True),
            ),
            copies=copies,
            ignored=("encoder.embed_positions.weight", "decoder.embed_positions.weight"),
            prefix="model.",
            head=("lm_head.", "final_logits_bias"),
        )

    @property
    def vocabulary_sizes(self) -> tuple[int, ...]:
        """The number of embedded tokens of the source and of the target."""
        if self.share_encoder_decoder_embeddings:
            return self.vocab_size, self.vocab_size
        return self.vocab_size, self.decoder_vocab_size or self.vocab_size

    @classmethod
    def rewrite(cls, model: nn.Module) -> nn.Module:
        """Return the model with all biases, and an output that shares what its embeddings share."""
        model = with_biases(with_output_bias(model, OUTPUT))
        source = submodule(model, SOURCE, TokenEmbedding)
        target = submodule(model, TARGET, TokenEmbedding)
        output = submodule(model, OUTPUT, OutputProjection)
        if source is target and output.weight is not target.weight:
            model = copy.deepcopy(model)
            submodule(model, "decoder", TransformerDecoder).embedding = copy.deepcopy(target)
        return model
