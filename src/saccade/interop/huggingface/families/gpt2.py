"""GPT-2 (Radford et al. 2019): a writer without a memory, with norms before its parts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from saccade.decoders.transformer import (
    TransformerDecoder,
    TransformerDecoderConfig,
    TransformerDecoderLayer,
)
from saccade.interop.huggingface.config_json import (
    Condition,
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
from saccade.interop.huggingface.model_rewrites import unscaled, with_biases
from saccade.interop.huggingface.tensor_map import Names, Transposed, layer, repeated, tensor
from saccade.models import LanguageModel, LanguageModelConfig
from saccade.positions import Learned, LearnedConfig

BLOCK = (
    *layer("self_attention.projection", "attn.c_attn", form=Transposed()),
    *layer("self_attention.out_proj", "attn.c_proj", form=Transposed()),
    *layer("around_attention.norm", "ln_1"),
    *layer("feed_forward.widen", "mlp.c_fc", form=Transposed()),
    *layer("feed_forward.narrow", "mlp.c_proj", form=Transposed()),
    *layer("around_feed_forward.norm", "ln_2"),
)


@dataclass(frozen=True, kw_only=True)
class Gpt2Options:
    """What its config.json says; `n_inner` is four times `n_embd` where it is null."""

    vocab_size: Size = 50257
    n_positions: Size = 1024
    n_embd: Size = 768
    n_layer: Size = 12
    n_head: Size = 12
    n_inner: Size | None = None
    activation_function: TheirActivation = "gelu_new"
    resid_pdrop: Rate = 0.1
    embd_pdrop: Rate = 0.1
    attn_pdrop: Rate = 0.1
    layer_norm_epsilon: Epsilon = 1e-5
    tie_word_embeddings: Flag = True


class Gpt2(Family[Gpt2Options]):
    """`gpt2`."""

    model_type = "gpt2"
    options = Gpt2Options
    architectures: ClassVar[Mapping[str, type[nn.Module]]] = {"GPT2LMHeadModel": LanguageModel}
    hint = "put it there if the output of this model shares its embedding"
    conditions = (
        Condition("add_cross_attention", "a GPT-2 that reads a memory is"),
        Condition(
            "scale_attn_weights", "attention without the division by √head_dim is", must_be=True
        ),
        Condition("scale_attn_by_inverse_layer_idx", "attention scaled by its layer is"),
        Condition("reorder_and_upcast_attn", "attention in another precision is"),
    )

    def config(self, architecture: str, options: Gpt2Options) -> LanguageModelConfig:
        """The writer, and the dropout of its embeddings."""
        dim = options.n_embd
        return LanguageModelConfig(
            decoder=TransformerDecoderConfig(
                num_layers=options.n_layer,
                num_heads=options.n_head,
                hidden_dim=4 * dim if options.n_inner is None else options.n_inner,
                norm_order="pre",
                activation=our_activation(options.activation_function),
                dropout=options.resid_pdrop,
                attention_dropout=options.attn_pdrop,
                norm_eps=options.layer_norm_epsilon,
                position=LearnedConfig(length=options.n_positions),
            ),
            dim=dim,
            tie_output=options.tie_word_embeddings,
            scale_embedding=False,
            embedding_dropout=options.embd_pdrop,
        )

    def build(self, architecture: str, options: Gpt2Options) -> nn.Module:
        """The language model."""
        return self.config(architecture, options).build(options.vocab_size)

    def describe(self, model: nn.Module) -> Gpt2Options:
        """Read off the first block; the comparison finds any that differs."""
        decoder = part(model, "decoder", TransformerDecoder)
        block = part(model, "decoder.layers.0", TransformerDecoderLayer)
        return Gpt2Options(
            vocab_size=decoder.embedding.weight.shape[0],
            n_positions=part(model, "decoder.position", Learned).weight.shape[0],
            n_embd=decoder.embedding.dim,
            n_layer=len(decoder.layers),
            n_head=block.self_attention.num_heads,
            n_inner=block.feed_forward.widen.out_features,
            activation_function=their_activation(block.feed_forward.activation),
            resid_pdrop=float(block.around_attention.dropout.p),
            embd_pdrop=float(decoder.dropout.p),
            attn_pdrop=float(block.self_attention.attend.dropout),
            layer_norm_epsilon=part(model, "decoder.norm", nn.LayerNorm).eps,
            tie_word_embeddings=decoder.output.weight is decoder.embedding.weight,
        )

    def names(self, architecture: str, options: Gpt2Options) -> Names:
        """Its linear layers are transposed; older files hold the causal mask of each block."""
        return Names(
            (
                tensor("decoder.embedding.weight", "wte.weight"),
                tensor("decoder.position.weight", "wpe.weight"),
                *repeated(options.n_layer, "decoder.layers", "h", BLOCK),
                *layer("decoder.norm", "ln_f"),
                tensor("decoder.output.weight", "lm_head.weight"),
            ),
            copies={"lm_head.weight": "wte.weight"} if options.tie_word_embeddings else {},
            ignored=(".attn.bias", ".attn.masked_bias"),
            prefix="transformer.",
            head=("lm_head.",),
        )

    def fitted(self, model: nn.Module) -> nn.Module:
        """GPT-2 does not scale its embeddings, and has biases."""
        return with_biases(unscaled(model, "decoder.embedding"))
