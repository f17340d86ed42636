"""GPT-2 (Radford et al. 2019): a pre-norm decoder without cross-attention."""

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
    HuggingFaceActivation,
    Rate,
    Size,
    our_activation,
    their_activation,
)
from saccade.interop.huggingface.family import Architecture, Family
from saccade.interop.huggingface.model_diff import submodule
from saccade.interop.huggingface.model_rewrites import unscaled, with_biases
from saccade.interop.huggingface.tensor_map import (
    TensorMap,
    TransposedMatrix,
    layer,
    repeated,
    tensor,
)
from saccade.models import LanguageModel, LanguageModelConfig
from saccade.positions import Learned, LearnedConfig

BLOCK = (
    *layer("self_attention.projection", "attn.c_attn", form=TransposedMatrix()),
    *layer("self_attention.out_proj", "attn.c_proj", form=TransposedMatrix()),
    *layer("around_attention.norm", "ln_1"),
    *layer("feed_forward.widen", "mlp.c_fc", form=TransposedMatrix()),
    *layer("feed_forward.narrow", "mlp.c_proj", form=TransposedMatrix()),
    *layer("around_feed_forward.norm", "ln_2"),
)


@dataclass(frozen=True, kw_only=True)
class Gpt2(Family):
    """GPT-2; `n_inner` is four times `n_embd` if it is null."""

    model_type: ClassVar = "gpt2"
    architectures: ClassVar = {
        "GPT2LMHeadModel": Architecture(LanguageModel, task="language_modeling")
    }
    hint: ClassVar = "put it there if the output of this model shares its embedding"
    conditions: ClassVar = (
        Condition("add_cross_attention", "cross-attention in GPT-2 is"),
        Condition(
            "scale_attn_weights", "attention without the division by √head_dim is", must_be=True
        ),
        Condition("scale_attn_by_inverse_layer_idx", "attention scaled by layer is"),
        Condition("reorder_and_upcast_attn", "attention in another precision is"),
    )

    vocab_size: Size = 50257
    n_positions: Size = 1024
    n_embd: Size = 768
    n_layer: Size = 12
    n_head: Size = 12
    n_inner: Size | None = None
    activation_function: HuggingFaceActivation = "gelu_new"
    resid_pdrop: Rate = 0.1
    embd_pdrop: Rate = 0.1
    attn_pdrop: Rate = 0.1
    layer_norm_epsilon: Epsilon = 1e-5
    tie_word_embeddings: Flag = True

    @classmethod
    def of(cls, architecture: str, model: nn.Module) -> "Gpt2":
        """Return the keys that describe a model, read off its first block."""
        decoder = submodule(model, "decoder", TransformerDecoder)
        block = submodule(model, "decoder.layers.0", TransformerDecoderLayer)
        return cls(
            vocab_size=decoder.embedding.weight.shape[0],
            n_positions=submodule(model, "decoder.position", Learned).weight.shape[0],
            n_embd=decoder.embedding.dim,
            n_layer=len(decoder.layers),
            n_head=block.self_attention.num_heads,
            n_inner=block.feed_forward.widen.out_features,
            activation_function=their_activation(block.feed_forward.activation),
            resid_pdrop=float(block.around_attention.dropout.p),
            embd_pdrop=float(decoder.dropout.p),
            attn_pdrop=float(block.self_attention.attend.dropout),
            layer_norm_epsilon=submodule(model, "decoder.norm", nn.LayerNorm).eps,
            tie_word_embeddings=decoder.output.weight is decoder.embedding.weight,
        )

    def config(self, architecture: str) -> LanguageModelConfig:
        """Return the options of the decoder and the dropout of its embeddings."""
        return LanguageModelConfig(
            decoder=TransformerDecoderConfig(
                num_layers=self.n_layer,
                num_heads=self.n_head,
                hidden_dim=4 * self.n_embd if self.n_inner is None else self.n_inner,
                norm_order="pre",
                activation=our_activation(self.activation_function),
                dropout=self.resid_pdrop,
                attention_dropout=self.attn_pdrop,
                norm_eps=self.layer_norm_epsilon,
                position=LearnedConfig(length=self.n_positions),
            ),
            dim=self.n_embd,
            tie_output=self.tie_word_embeddings,
            scale_embedding=False,
            embedding_dropout=self.embd_pdrop,
        )

    def build(self, architecture: str) -> nn.Module:
        """Return the language model."""
        return self.config(architecture).build(self.vocab_size)

    def tensor_map(self, architecture: str) -> TensorMap:
        """Return the map; linear layers are transposed, and older files hold the causal mask."""
        return TensorMap(
            (
                tensor("decoder.embedding.weight", "wte.weight"),
                tensor("decoder.position.weight", "wpe.weight"),
                *repeated(self.n_layer, "decoder.layers", "h", BLOCK),
                *layer("decoder.norm", "ln_f"),
                tensor("decoder.output.weight", "lm_head.weight"),
            ),
            copies={"lm_head.weight": "wte.weight"} if self.tie_word_embeddings else {},
            ignored=(".attn.bias", ".attn.masked_bias"),
            prefix="transformer.",
            head=("lm_head.",),
        )

    @property
    def vocabulary_sizes(self) -> tuple[int, ...]:
        """The number of embedded tokens."""
        return (self.vocab_size,)

    @property
    def max_positions(self) -> int:
        """The number of learned positions."""
        return self.n_positions

    @classmethod
    def rewrite(cls, model: nn.Module) -> nn.Module:
        """Return the model with biases and embeddings that are not scaled, as in GPT-2."""
        return with_biases(unscaled(model, "decoder.embedding"))
