"""BERT (Devlin et al. 2019): a post-norm text encoder and its heads."""

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from saccade.encoders.transformer import (
    TransformerEncoder,
    TransformerEncoderConfig,
    TransformerEncoderLayer,
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
from saccade.interop.huggingface.model_diff import submodule, submodules
from saccade.interop.huggingface.model_rewrites import unscaled, with_biases, with_segments
from saccade.interop.huggingface.tensor_map import (
    SAME,
    Entry,
    TensorMap,
    UnusedRows,
    layer,
    repeated,
    tensor,
)
from saccade.layers.activations import Activation
from saccade.layers.dropout import Dropout
from saccade.layers.embeddings import OutputProjection, TokenEmbedding
from saccade.models import (
    MaskedLanguageModel,
    MaskedLanguageModelConfig,
    Tagger,
    TaggerConfig,
    TextClassifier,
    TextClassifierConfig,
    TextEncoder,
    TextEncoderConfig,
    TextReaderConfig,
)
from saccade.positions import Learned, LearnedConfig

EMBEDDING = "encoder.stem.embedding"

BLOCK = (
    *layer(
        "self_attention.projection",
        "attention.self.query",
        "attention.self.key",
        "attention.self.value",
    ),
    *layer("self_attention.out_proj", "attention.output.dense"),
    *layer("around_attention.norm", "attention.output.LayerNorm"),
    *layer("feed_forward.widen", "intermediate.dense"),
    *layer("feed_forward.narrow", "output.dense"),
    *layer("around_feed_forward.norm", "output.LayerNorm"),
)


@dataclass(frozen=True, kw_only=True)
class Bert(Family):
    """BERT."""

    model_type: ClassVar = "bert"
    architectures: ClassVar = {
        "BertModel": Architecture(TextEncoder, head=False),
        "BertForSequenceClassification": Architecture(
            TextClassifier, task="text_classification", labels=True
        ),
        "BertForTokenClassification": Architecture(Tagger, task="tagging", labels=True),
        "BertForMaskedLM": Architecture(MaskedLanguageModel, task="masked_language_modeling"),
        "BertForPreTraining": Architecture(MaskedLanguageModel, task="masked_language_modeling"),
    }
    unnamed: ClassVar = "BertModel"
    prefix: ClassVar = "bert."
    heads: ClassVar[tuple[str, ...]] = ("cls.", "classifier.")
    pooler_activation: ClassVar[Activation] = "tanh"
    conditions: ClassVar = (
        Condition("position_embedding_type", "relative positions are", must_be="absolute"),
        Condition("is_decoder", "BERT decoders are"),
        Condition("add_cross_attention", "cross-attention in BERT is"),
    )

    vocab_size: Size = 30522
    hidden_size: Size = 768
    num_hidden_layers: Size = 12
    num_attention_heads: Size = 12
    intermediate_size: Size = 3072
    hidden_act: HuggingFaceActivation = "gelu"
    hidden_dropout_prob: Rate = 0.1
    attention_probs_dropout_prob: Rate = 0.1
    classifier_dropout: Rate | None = None
    max_position_embeddings: Size = 512
    type_vocab_size: Size = 2
    layer_norm_eps: Epsilon = 1e-12
    tie_word_embeddings: Flag = True

    @classmethod
    def of(cls, architecture: str, model: nn.Module) -> "Bert":
        """Return the keys that describe a model, read off its first block."""
        labels = cls.architectures[architecture].labels
        encoder = submodule(model, "encoder", TransformerEncoder)
        embedding = submodule(model, EMBEDDING, TokenEmbedding)
        block = submodule(model, "encoder.layers.0", TransformerEncoderLayer)
        outputs = submodules(model, OutputProjection).values()
        return cls(
            vocab_size=embedding.weight.shape[0],
            hidden_size=embedding.dim,
            num_hidden_layers=len(encoder.layers),
            num_attention_heads=block.self_attention.num_heads,
            intermediate_size=block.feed_forward.widen.out_features,
            hidden_act=their_activation(block.feed_forward.activation),
            hidden_dropout_prob=float(encoder.dropout.p),
            attention_probs_dropout_prob=float(block.self_attention.attend.dropout),
            classifier_dropout=float(submodule(model, "dropout", Dropout).p) if labels else None,
            max_position_embeddings=submodule(model, "encoder.position", Learned).weight.shape[0],
            type_vocab_size=submodule(model, f"{EMBEDDING}.segments", nn.Embedding).num_embeddings,
            layer_norm_eps=submodule(model, "encoder.stem_norm", nn.LayerNorm).eps,
            tie_word_embeddings=all(output.weight is embedding.weight for output in outputs),
            num_labels=submodule(model, "head", nn.Linear).out_features if labels else 2,
        )

    def config(self, architecture: str) -> TextReaderConfig | None:
        """Return the options of the encoder and of its head."""
        encoder = self._encoder()
        kind = self.architectures[architecture].model
        if kind is TextClassifier:
            return TextClassifierConfig(
                **vars(encoder),
                pooler_activation=self.pooler_activation,
                dropout=self._head_dropout,
            )
        if kind is MaskedLanguageModel:
            return MaskedLanguageModelConfig(
                **vars(encoder),
                head_activation=our_activation(self.hidden_act),
                tie_output=self.tie_word_embeddings,
            )
        if kind is Tagger:
            return TaggerConfig(**vars(encoder), dropout=self._head_dropout)
        return encoder

    def build(self, architecture: str) -> nn.Module:
        """Return the encoder with its head."""
        match self.config(architecture):
            case TextClassifierConfig() | TaggerConfig() as config:
                return config.build(self.vocab_size, self.num_labels)
            case MaskedLanguageModelConfig() as config:
                return config.build(self.vocab_size)
        return self._encoder().build(self.vocab_size)

    def tensor_map(self, architecture: str) -> TensorMap:
        """Return the map; old files call norms gamma and beta; poolers are ignored."""
        kind = self.architectures[architecture].model
        head, copies = self.head_map(kind)
        pools = any(x.startswith("pooler.") for entry in head for x in entry.theirs)
        return TensorMap(
            (
                tensor(f"{EMBEDDING}.weight", "embeddings.word_embeddings.weight"),
                tensor(f"{EMBEDDING}.segments.weight", "embeddings.token_type_embeddings.weight"),
                tensor(
                    "encoder.position.weight",
                    "embeddings.position_embeddings.weight",
                    UnusedRows(self.unused_positions) if self.unused_positions else SAME,
                ),
                *layer("encoder.stem_norm", "embeddings.LayerNorm"),
                *repeated(self.num_hidden_layers, "encoder.layers", "encoder.layer", BLOCK),
                *head,
            ),
            copies=copies,
            ignored=(
                "embeddings.position_ids",
                "embeddings.token_type_ids",
                "cls.seq_relationship.",
                *(() if pools else ("pooler.",)),
            ),
            renamed={"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"},
            prefix=self.prefix,
            head=self.heads if self.architectures[architecture].head else (),
        )

    def head_map(self, kind: type[nn.Module]) -> tuple[tuple[Entry, ...], dict[str, str]]:
        """Return the entries of the head of a model, and the copies of its tensors."""
        if kind is TextClassifier:
            return (*layer("pooler.0", "pooler.dense"), *layer("head", "classifier")), {}
        if kind is Tagger:
            return layer("head", "classifier"), {}
        return _output(tied=self.tie_word_embeddings)

    @property
    def unused_positions(self) -> int:
        """The number of rows in front of the learned positions that are never read."""
        return 0

    @property
    def vocabulary_sizes(self) -> tuple[int, ...]:
        """The number of embedded tokens."""
        return (self.vocab_size,)

    @property
    def max_positions(self) -> int:
        """The number of learned positions."""
        return self.max_position_embeddings - self.unused_positions

    @classmethod
    def rewrite(cls, model: nn.Module) -> nn.Module:
        """Return the model with segments, biases and embeddings that are not scaled, as in BERT."""
        return with_biases(with_segments(unscaled(model, EMBEDDING), EMBEDDING))

    def _encoder(self) -> TextEncoderConfig:
        return TextEncoderConfig(
            encoder=TransformerEncoderConfig(
                num_layers=self.num_hidden_layers,
                num_heads=self.num_attention_heads,
                hidden_dim=self.intermediate_size,
                norm_order="post",
                activation=our_activation(self.hidden_act),
                dropout=self.hidden_dropout_prob,
                attention_dropout=self.attention_probs_dropout_prob,
                norm_eps=self.layer_norm_eps,
                position=LearnedConfig(length=self.max_positions),
                stem_norm=True,
            ),
            dim=self.hidden_size,
            num_segments=self.type_vocab_size,
            scale_embedding=False,
        )

    @property
    def _head_dropout(self) -> float:
        own = self.classifier_dropout
        return self.hidden_dropout_prob if own is None else own


def _output(*, tied: bool) -> tuple[tuple[Entry, ...], dict[str, str]]:
    """Return the head over the vocabulary, and the copies of its tensors if they are shared.

    The bias has two names; transformers expects the second even if nothing is shared.
    """
    inside, of_output = "cls.predictions.transform", "cls.predictions.decoder"
    transform = (
        *layer("transform.0", f"{inside}.dense"),
        *layer("transform.2", f"{inside}.LayerNorm"),
    )
    if tied:
        return (*transform, tensor("output.bias", "cls.predictions.bias")), {
            f"{of_output}.weight": "embeddings.word_embeddings.weight",
            f"{of_output}.bias": "cls.predictions.bias",
        }
    return (
        *transform,
        tensor("output.weight", f"{of_output}.weight"),
        Entry("output.bias", (f"{of_output}.bias", "cls.predictions.bias")),
    ), {}
