"""Llama (Touvron et al. 2023): a pre-norm decoder with RMS norm, a gated network and rotation."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from saccade.decoders.transformer import (
    TransformerDecoder,
    TransformerDecoderConfig,
    TransformerDecoderLayer,
)
from saccade.errors import InteropError
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
from saccade.interop.huggingface.model_rewrites import unscaled
from saccade.interop.huggingface.tensor_map import (
    Entry,
    StackedTensors,
    TensorMap,
    layer,
    repeated,
    tensor,
)
from saccade.models import LanguageModel, LanguageModelConfig
from saccade.positions import Rotary, RotaryConfig

PROJECTIONS = tuple(f"self_attn.{name}_proj.weight" for name in "qkv")
BLOCK = (
    *layer("self_attention.out_proj", "self_attn.o_proj"),
    *layer("around_attention.norm", "input_layernorm"),
    *layer("feed_forward.widen", "mlp.gate_proj"),
    *layer("feed_forward.gate", "mlp.up_proj"),
    *layer("feed_forward.narrow", "mlp.down_proj"),
    *layer("around_feed_forward.norm", "post_attention_layernorm"),
)


@dataclass(frozen=True, kw_only=True)
class Llama(Family):
    """Llama; `num_key_value_heads` is `num_attention_heads` if it is null.

    The base of the rotation is `rope_theta`, in newer folders inside `rope_parameters`.
    """

    model_type: ClassVar = "llama"
    architectures: ClassVar = {
        "LlamaForCausalLM": Architecture(LanguageModel, task="language_modeling")
    }
    hint: ClassVar = "put it there if the output of this model shares its embedding"
    conditions: ClassVar = (
        Condition("attention_bias", "biases of attention are"),
        Condition("mlp_bias", "biases of the feed-forward network are"),
        Condition("rope_scaling", "scaled rotations, as in Llama 3.1, are", must_be=None),
    )
    open_block: ClassVar = True
    rank: ClassVar = 1
    layout: ClassVar = "packed"

    vocab_size: Size = 32000
    hidden_size: Size = 4096
    intermediate_size: Size = 11008
    num_hidden_layers: Size = 32
    num_attention_heads: Size = 32
    num_key_value_heads: Size | None = None
    head_dim: Size | None = None
    hidden_act: HuggingFaceActivation = "silu"
    max_position_embeddings: Size = 2048
    rms_norm_eps: Epsilon = 1e-6
    rope_theta: Epsilon = 10_000.0
    rope_parameters: dict[str, Any] | None = None
    attention_dropout: Rate = 0.0
    tie_word_embeddings: Flag = False

    @classmethod
    def of(cls, architecture: str, model: nn.Module) -> "Llama":
        """Return the keys that describe a model, read off its first block."""
        decoder = submodule(model, "decoder", TransformerDecoder)
        block = submodule(model, "decoder.layers.0", TransformerDecoderLayer)
        base = submodule(model, "decoder.position", Rotary).base
        return cls(
            vocab_size=decoder.embedding.weight.shape[0],
            hidden_size=decoder.embedding.dim,
            intermediate_size=block.feed_forward.widen.out_features,
            num_hidden_layers=len(decoder.layers),
            num_attention_heads=block.self_attention.num_heads,
            num_key_value_heads=block.self_attention.num_kv_heads,
            head_dim=block.self_attention.head_dim,
            hidden_act=their_activation(block.feed_forward.activation),
            rms_norm_eps=float(submodule(model, "decoder.norm", nn.RMSNorm).eps or 0.0),
            rope_theta=base,
            rope_parameters={"rope_theta": base, "rope_type": "default"},
            attention_dropout=float(block.self_attention.attend.dropout),
            tie_word_embeddings=decoder.output.weight is decoder.embedding.weight,
        )

    def config(self, architecture: str) -> LanguageModelConfig:
        """Return the options of the decoder."""
        return LanguageModelConfig(
            decoder=TransformerDecoderConfig(
                num_layers=self.num_hidden_layers,
                num_heads=self.num_attention_heads,
                num_kv_heads=self.num_key_value_heads,
                head_dim=self.head_dim,
                hidden_dim=self.intermediate_size,
                norm_order="pre",
                norm="rms",
                norm_eps=self.rms_norm_eps,
                feed_forward="gated",
                activation=our_activation(self.hidden_act),
                bias=False,
                dropout=0.0,
                attention_dropout=self.attention_dropout,
                position=RotaryConfig(base=self._base(), layout="halves"),
            ),
            dim=self.hidden_size,
            tie_output=self.tie_word_embeddings,
            scale_embedding=False,
        )

    def build(self, architecture: str) -> nn.Module:
        """Return the language model."""
        return self.config(architecture).build(self.vocab_size)

    def tensor_map(self, architecture: str) -> TensorMap:
        """Return the map; keys and values may have fewer heads than queries."""
        heads = self.num_attention_heads
        width = self.head_dim or self.hidden_size // heads
        of_memory = (self.num_key_value_heads or heads) * width
        form = StackedTensors((heads * width, of_memory, of_memory))
        block = (Entry("self_attention.projection.weight", PROJECTIONS, form), *BLOCK)
        return TensorMap(
            (
                tensor("decoder.embedding.weight", "embed_tokens.weight"),
                *repeated(self.num_hidden_layers, "decoder.layers", "layers", block),
                *layer("decoder.norm", "norm"),
                tensor("decoder.output.weight", "lm_head.weight"),
            ),
            copies={"lm_head.weight": "embed_tokens.weight"} if self.tie_word_embeddings else {},
            ignored=("rotary_emb.inv_freq",),
            prefix="model.",
            head=("lm_head.",),
        )

    @property
    def vocabulary_sizes(self) -> tuple[int, ...]:
        """The number of embedded tokens."""
        return (self.vocab_size,)

    @property
    def max_positions(self) -> int:
        """The number of tokens that the model was trained to read."""
        return self.max_position_embeddings

    @classmethod
    def rewrite(cls, model: nn.Module) -> nn.Module:
        """Return the model with embeddings that are not scaled, as in Llama."""
        return unscaled(model, "decoder.embedding")

    def _base(self) -> float:
        """Return the base of the rotation; raise if it is scaled."""
        rope = self.rope_parameters or {}
        scaled = rope.get("rope_type", "default") != "default"
        if scaled or not rope.keys() <= {"rope_theta", "rope_type"}:
            raise InteropError(
                f"rope_parameters is {rope}; only the plain rotation is supported "
                '("rope_type": "default"), not the scaled one of Llama 3.1'
            )
        return float(rope.get("rope_theta", self.rope_theta))
