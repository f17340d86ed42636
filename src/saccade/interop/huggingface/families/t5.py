"""T5 (Raffel et al. 2020): a pre-norm translator with RMS norm and buckets of distances."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from torch import nn

from saccade.attention import DotConfig
from saccade.decoders.transformer import (
    TransformerDecoder,
    TransformerDecoderConfig,
)
from saccade.encoders.transformer import (
    TransformerEncoder,
    TransformerEncoderConfig,
    TransformerEncoderLayer,
)
from saccade.errors import InteropError
from saccade.interop.huggingface.config_json import Epsilon, Flag, Rate, Size, their_activation
from saccade.interop.huggingface.family import Architecture, Family
from saccade.interop.huggingface.model_diff import submodule
from saccade.interop.huggingface.model_rewrites import unscaled
from saccade.interop.huggingface.tensor_map import (
    Entry,
    StackedTensors,
    TensorForm,
    TensorMap,
    repeated,
    tensor,
)
from saccade.layers.feed_forward import GatedFeedForward
from saccade.models import Translator, TranslatorConfig
from saccade.positions import Buckets, BucketsConfig
from saccade.shapes import Tensor

SOURCE, TARGET, OUTPUT = "encoder.stem.embedding", "decoder.embedding", "decoder.output"
BIAS = "layer.0.SelfAttention.relative_attention_bias.weight"


@dataclass(frozen=True)
class _Scaled(TensorForm):
    """A tensor that is ours divided by a factor."""

    factor: float

    def join(self, theirs: tuple[Tensor, ...]) -> Tensor:
        """Multiply."""
        return theirs[0] * self.factor

    def split(self, ours: Tensor, count: int) -> tuple[Tensor, ...]:
        """Divide."""
        return (ours / self.factor,)


@dataclass(frozen=True, kw_only=True)
class T5(Family):
    """T5 and T5 1.1; `num_decoder_layers` is `num_layers` if it is null.

    An output that shares the embedding is scaled, which our last norm does.
    """

    model_type: ClassVar = "t5"
    architectures: ClassVar = {
        "T5ForConditionalGeneration": Architecture(Translator, task="text_to_text")
    }
    open_block: ClassVar = True
    rank: ClassVar = 1

    vocab_size: Size = 32128
    d_model: Size = 512
    d_kv: Size = 64
    d_ff: Size = 2048
    num_layers: Size = 6
    num_decoder_layers: Size | None = None
    num_heads: Size = 8
    relative_attention_num_buckets: Size = 32
    relative_attention_max_distance: Size = 128
    dropout_rate: Rate = 0.1
    layer_norm_epsilon: Epsilon = 1e-6
    feed_forward_proj: Literal["relu", "gated-gelu"] = "relu"
    tie_word_embeddings: Flag = True
    scale_decoder_outputs: Flag | None = None

    @classmethod
    def of(cls, architecture: str, model: nn.Module) -> "T5":
        """Return the keys that describe a model, read off its first blocks."""
        encoder = submodule(model, "encoder", TransformerEncoder)
        decoder = submodule(model, "decoder", TransformerDecoder)
        position = submodule(model, "encoder.position", Buckets)
        block = submodule(model, "encoder.layers.0", TransformerEncoderLayer)
        gated = isinstance(block.feed_forward, GatedFeedForward)
        kind = their_activation(block.feed_forward.activation)
        if kind != ("gelu_new" if gated else "relu"):
            raise InteropError(f"the activation of T5 is relu, or gelu_new if gated, not {kind}")
        tied = decoder.output.weight is decoder.embedding.weight
        return cls(
            vocab_size=decoder.embedding.weight.shape[0],
            d_model=decoder.embedding.dim,
            d_kv=block.self_attention.head_dim,
            d_ff=block.feed_forward.widen.out_features,
            num_layers=len(encoder.layers),
            num_decoder_layers=len(decoder.layers),
            num_heads=block.self_attention.num_heads,
            relative_attention_num_buckets=len(position.weight),
            relative_attention_max_distance=position.max_distance,
            dropout_rate=float(encoder.dropout.p),
            layer_norm_epsilon=float(submodule(model, "encoder.norm", nn.RMSNorm).eps or 0.0),
            feed_forward_proj="gated-gelu" if gated else "relu",
            tie_word_embeddings=tied,
            scale_decoder_outputs=tied,
        )

    def config(self, architecture: str) -> TranslatorConfig:
        """Return the options of encoder and decoder."""
        gated = self.feed_forward_proj == "gated-gelu"
        block: dict[str, Any] = {
            "num_heads": self.num_heads,
            "head_dim": self.d_kv,
            "hidden_dim": self.d_ff,
            "norm_order": "pre",
            "norm": "rms",
            "norm_eps": self.layer_norm_epsilon,
            "feed_forward": "gated" if gated else "plain",
            "activation": "gelu_tanh" if gated else "relu",
            "bias": False,
            "score": DotConfig(),
            "dropout": self.dropout_rate,
            "attention_dropout": self.dropout_rate,
            "activation_dropout": self.dropout_rate,
            "position": BucketsConfig(
                num_buckets=self.relative_attention_num_buckets,
                max_distance=self.relative_attention_max_distance,
            ),
        }
        layers = self.num_decoder_layers or self.num_layers
        return TranslatorConfig(
            encoder=TransformerEncoderConfig(num_layers=self.num_layers, **block),
            decoder=TransformerDecoderConfig(num_layers=layers, **block),
            dim=self.d_model,
            share_embeddings=True,
            tie_output=self.tie_word_embeddings,
            scale_embedding=False,
        )

    def build(self, architecture: str) -> nn.Module:
        """Return the translator."""
        return self.config(architecture).build(self.vocab_size, self.vocab_size)

    def tensor_map(self, architecture: str) -> TensorMap:
        """Return the map; the first layer of each side holds the buckets of all its layers."""
        scaled = self.scale_decoder_outputs
        scaled = self.tie_word_embeddings if scaled is None else scaled
        last = _Scaled(self.d_model**-0.5 if scaled else 1.0)
        layers = self.num_layers, self.num_decoder_layers or self.num_layers
        names = "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"
        tied = ("lm_head.weight",) if self.tie_word_embeddings else ()
        gated = self.feed_forward_proj == "gated-gelu"
        writes = (*_block(2, gated=gated), *_attention("cross", "layer.1.EncDecAttention"))
        return TensorMap(
            (
                tensor(f"{SOURCE}.weight", "shared.weight"),
                tensor("encoder.position.weight", f"encoder.block.0.{BIAS}"),
                tensor("decoder.position.weight", f"decoder.block.0.{BIAS}"),
                *repeated(layers[0], "encoder.layers", "encoder.block", _block(1, gated=gated)),
                *repeated(layers[1], "decoder.layers", "decoder.block", writes),
                tensor("encoder.norm.weight", "encoder.final_layer_norm.weight"),
                tensor("decoder.norm.weight", "decoder.final_layer_norm.weight", last),
                tensor(f"{OUTPUT}.weight", "lm_head.weight"),
            ),
            copies=dict.fromkeys((*names, *tied), "shared.weight"),
            ignored=("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",),
        )

    @property
    def vocabulary_sizes(self) -> tuple[int, ...]:
        """The number of embedded tokens of the source and of the target."""
        return self.vocab_size, self.vocab_size

    @classmethod
    def rewrite(cls, model: nn.Module) -> nn.Module:
        """Return the model with embeddings that are not scaled, as in T5."""
        return unscaled(model, TARGET)


def _attention(ours: str, theirs: str) -> tuple[Entry, ...]:
    """Return the entries of an attention and of the norm before it."""
    around = "around_attention" if ours == "self_attention" else f"around_{ours}"
    layer = theirs.rpartition(".")[0]
    return (
        Entry(
            f"{ours}.projection.weight",
            tuple(f"{theirs}.{name}.weight" for name in "qkv"),
            StackedTensors(),
        ),
        tensor(f"{ours}.out_proj.weight", f"{theirs}.o.weight"),
        tensor(f"{around}.norm.weight", f"{layer}.layer_norm.weight"),
    )


def _block(last: int, *, gated: bool) -> tuple[Entry, ...]:
    """Return the entries of self-attention and of the feed-forward network, in layer `last`.

    The plain network has wi, the gated one wi_0 and wi_1.
    """
    dense = f"layer.{last}.DenseReluDense"
    return (
        *_attention("self_attention", "layer.0.SelfAttention"),
        tensor("feed_forward.widen.weight", f"{dense}.{'wi_0' if gated else 'wi'}.weight"),
        tensor("feed_forward.gate.weight", f"{dense}.wi_1.weight"),
        tensor("feed_forward.narrow.weight", f"{dense}.wo.weight"),
        tensor("around_feed_forward.norm.weight", f"layer.{last}.layer_norm.weight"),
    )
