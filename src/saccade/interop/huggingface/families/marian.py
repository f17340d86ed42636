"""Marian (Junczys-Dowmunt et al. 2018), of which the OPUS-MT models are made: a translator.

The Transformer of Vaswani et al. (2017): norms after its parts, sinusoids, no last norm. The
sinusoids stand in halves, all sines before all cosines.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

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
    Rate,
    Size,
    TheirActivation,
    our_activation,
    their_activation,
)
from saccade.interop.huggingface.family import Family
from saccade.interop.huggingface.model_diff import part
from saccade.interop.huggingface.model_rewrites import with_biases, with_output_bias
from saccade.interop.huggingface.tensor_map import Batched, Names, layer, repeated, tensor
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
class MarianOptions:
    """What its config.json says; `decoder_vocab_size` is `vocab_size` where it is null.

    `max_position_embeddings` is not read: sinusoids have no end.
    """

    vocab_size: Size = 58101
    decoder_vocab_size: Size | None = None
    d_model: Size = 1024
    encoder_layers: Size = 12
    encoder_ffn_dim: Size = 4096
    encoder_attention_heads: Size = 16
    decoder_layers: Size = 12
    decoder_ffn_dim: Size = 4096
    decoder_attention_heads: Size = 16
    activation_function: TheirActivation = "gelu"
    dropout: Rate = 0.1
    attention_dropout: Rate = 0.0
    activation_dropout: Rate = 0.0
    scale_embedding: Flag = False
    share_encoder_decoder_embeddings: Flag = True
    tie_word_embeddings: Flag = True


class Marian(Family[MarianOptions]):
    """`marian`."""

    model_type = "marian"
    options = MarianOptions
    architectures: ClassVar[Mapping[str, type[nn.Module]]] = {"MarianMTModel": Translator}
    conditions = (
        Condition("normalize_before", "a Marian with norms before its parts is"),
        Condition("normalize_embedding", "a Marian with a norm on its embeddings is"),
        Condition("add_final_layer_norm", "a Marian with a last norm is"),
        Condition(
            "static_position_embeddings", "a Marian that learns its positions is", must_be=True
        ),
        Condition("encoder_layerdrop", "dropping of whole layers is"),
        Condition("decoder_layerdrop", "dropping of whole layers is"),
    )

    def config(self, architecture: str, options: MarianOptions) -> TranslatorConfig:
        """The reader and the writer."""
        shared, tied = options.share_encoder_decoder_embeddings, options.tie_word_embeddings
        if shared and not tied:
            raise InteropError(
                "share_encoder_decoder_embeddings is true and tie_word_embeddings false, which "
                "versions of transformers read in different ways; make them equal"
            )
        both: dict[str, Any] = {
            "norm_order": "post",
            "activation": our_activation(options.activation_function),
            "dropout": options.dropout,
            "attention_dropout": options.attention_dropout,
            "activation_dropout": options.activation_dropout,
            "position": SinusoidalConfig(layout="halves"),
        }
        return TranslatorConfig(
            encoder=TransformerEncoderConfig(
                num_layers=options.encoder_layers,
                num_heads=options.encoder_attention_heads,
                hidden_dim=options.encoder_ffn_dim,
                **both,
            ),
            decoder=TransformerDecoderConfig(
                num_layers=options.decoder_layers,
                num_heads=options.decoder_attention_heads,
                hidden_dim=options.decoder_ffn_dim,
                **both,
            ),
            dim=options.d_model,
            share_embeddings=shared,
            tie_output=tied,
            scale_embedding=options.scale_embedding,
            output_bias=True,
        )

    def build(self, architecture: str, options: MarianOptions) -> nn.Module:
        """The translator."""
        config, source = self.config(architecture, options), options.vocab_size
        target = source if config.share_embeddings else options.decoder_vocab_size or source
        return config.build(source, target)

    def describe(self, model: nn.Module) -> MarianOptions:
        """Read off the first blocks; the comparison finds any that differs."""
        encoder = part(model, "encoder", TransformerEncoder)
        decoder = part(model, "decoder", TransformerDecoder)
        source = part(model, SOURCE, TokenEmbedding)
        reads = part(model, "encoder.layers.0", TransformerEncoderLayer)
        writes = part(model, "decoder.layers.0", TransformerDecoderLayer)
        return MarianOptions(
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

    def names(self, architecture: str, options: MarianOptions) -> Names:
        """A shared embedding may stand under four names; sinusoids in the file are not needed."""
        theirs = "encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"
        copies = {"lm_head.weight": theirs[1]} if options.tie_word_embeddings else {}
        embeddings = [
            tensor(f"{ours}.weight", name)
            for ours, name in zip((SOURCE, TARGET, OUTPUT), theirs, strict=True)
        ]
        if options.share_encoder_decoder_embeddings:
            embeddings = [tensor(f"{SOURCE}.weight", "shared.weight")]
            copies = dict.fromkeys(theirs, "shared.weight")
        return Names(
            (
                *embeddings,
                *repeated(options.encoder_layers, "encoder.layers", "encoder.layers", BLOCK),
                *repeated(
                    options.decoder_layers, "decoder.layers", "decoder.layers", (*BLOCK, *CROSS)
                ),
                tensor(f"{OUTPUT}.bias", "final_logits_bias", Batched(), optional=True),
            ),
            copies=copies,
            ignored=("encoder.embed_positions.weight", "decoder.embed_positions.weight"),
            prefix="model.",
            head=("lm_head.", "final_logits_bias"),
        )

    def fitted(self, model: nn.Module) -> nn.Module:
        """Marian has all biases, and what its two embeddings share its output shares."""
        model = with_biases(with_output_bias(model, OUTPUT))
        source = part(model, SOURCE, TokenEmbedding)
        target = part(model, TARGET, TokenEmbedding)
        if source is target and part(model, OUTPUT, OutputProjection).weight is not target.weight:
            model = copy.deepcopy(model)
            part(model, "decoder", TransformerDecoder).embedding = copy.deepcopy(target)
        return model
