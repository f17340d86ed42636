"""DistilBERT (Sanh et al. 2019): a smaller BERT without segments."""

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
    Flag,
    HuggingFaceActivation,
    Rate,
    Size,
    our_activation,
    their_activation,
)
from saccade.interop.huggingface.families.bert import EMBEDDING
from saccade.interop.huggingface.family import Architecture, Family
from saccade.interop.huggingface.model_diff import submodule, submodules
from saccade.interop.huggingface.model_rewrites import unscaled, with_biases
from saccade.interop.huggingface.tensor_map import Entry, TensorMap, layer, repeated, tensor
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

NORM_EPS = 1e-12

BLOCK = (
    *layer("self_attention.projection", "attention.q_lin", "attention.k_lin", "attention.v_lin"),
    *layer("self_attention.out_proj", "attention.out_lin"),
    *layer("around_attention.norm", "sa_layer_norm"),
    *layer("feed_forward.widen", "ffn.lin1"),
    *layer("feed_forward.narrow", "ffn.lin2"),
    *layer("around_feed_forward.norm", "output_layer_norm"),
)


@dataclass(frozen=True, kw_only=True)
class DistilBert(Family):
    """DistilBERT."""

    model_type: ClassVar = "distilbert"
    architectures: ClassVar = {
        "DistilBertModel": Architecture(TextEncoder, head=False),
        "DistilBertForSequenceClassification": Architecture(
            TextClassifier, task="text_classification", labels=True
        ),
        "DistilBertForTokenClassification": Architecture(Tagger, task="tagging", labels=True),
        "DistilBertForMaskedLM": Architecture(MaskedLanguageModel, task="masked_language_modeling"),
    }
    unnamed: ClassVar = "DistilBertModel"
    conditions: ClassVar = (Condition("sinusoidal_pos_embds", "sinusoidal positions are"),)
    rank: ClassVar = 1

    vocab_size: Size = 30522
    dim: Size = 768
    n_layers: Size = 6
    n_heads: Size = 12
    hidden_dim: Size = 3072
    activation: HuggingFaceActivation = "gelu"
    dropout: Rate = 0.1
    attention_dropout: Rate = 0.1
    seq_classif_dropout: Rate = 0.2
    max_position_embeddings: Size = 512
    tie_word_embeddings: Flag = True

    @classmethod
    def of(cls, architecture: str, model: nn.Module) -> "DistilBert":
        """Return the keys that describe a model, read off its first block."""
        labels = cls.architectures[architecture].labels
        encoder = submodule(model, "encoder", TransformerEncoder)
        embedding = submodule(model, EMBEDDING, TokenEmbedding)
        block = submodule(model, "encoder.layers.0", TransformerEncoderLayer)
        outputs = submodules(model, OutputProjection).values()
        return cls(
            vocab_size=embedding.weight.shape[0],
            dim=embedding.dim,
            n_layers=len(encoder.layers),
            n_heads=block.self_attention.num_heads,
            hidden_dim=block.feed_forward.widen.out_features,
            activation=their_activation(block.feed_forward.activation),
            dropout=float(encoder.dropout.p),
            attention_dropout=float(block.self_attention.attend.dropout),
            seq_classif_dropout=float(submodule(model, "dropout", Dropout).p) if labels else 0.2,
            max_position_embeddings=submodule(model, "encoder.position", Learned).weight.shape[0],
            tie_word_embeddings=all(output.weight is embedding.weight for output in outputs),
            num_labels=submodule(model, "head", nn.Linear).out_features if labels else 2,
        )

    def config(self, architecture: str) -> TextReaderConfig:
        """Return the options of the encoder and of its head."""
        activation = our_activation(self.activation)
        encoder = TextEncoderConfig(
            encoder=TransformerEncoderConfig(
                num_layers=self.n_layers,
                num_heads=self.n_heads,
                hidden_dim=self.hidden_dim,
                norm_order="post",
                activation=activation,
                dropout=self.dropout,
                attention_dropout=self.attention_dropout,
                norm_eps=NORM_EPS,
                position=LearnedConfig(length=self.max_position_embeddings),
                stem_norm=True,
            ),
            dim=self.dim,
            scale_embedding=False,
        )
        kind = self.architectures[architecture].model
        if kind is TextClassifier:
            dropout = self.seq_classif_dropout
            return TextClassifierConfig(**vars(encoder), pooler_activation="relu", dropout=dropout)
        if kind is MaskedLanguageModel:
            return MaskedLanguageModelConfig(
                **vars(encoder), head_activation=activation, tie_output=self.tie_word_embeddings
            )
        return TaggerConfig(**vars(encoder), dropout=self.dropout) if kind is Tagger else encoder

    def build(self, architecture: str) -> nn.Module:
        """Return the encoder with its head."""
        match self.config(architecture):
            case TextClassifierConfig() | TaggerConfig() as config:
                return config.build(self.vocab_size, self.num_labels)
            case MaskedLanguageModelConfig() | TextEncoderConfig() as config:
                return config.build(self.vocab_size)
        raise AssertionError(architecture)

    def tensor_map(self, architecture: str) -> TensorMap:
        """Return the map; the heads of a file stand beside its encoder."""
        kind = self.architectures[architecture].model
        word, projector = "embeddings.word_embeddings.weight", "vocab_projector.weight"
        head: tuple[Entry, ...] = layer("head", "classifier")
        if kind is TextClassifier:
            head = (*layer("pooler.0", "pre_classifier"), *head)
        if kind is MaskedLanguageModel:
            head = (
                *layer("transform.0", "vocab_transform"),
                *layer("transform.2", "vocab_layer_norm"),
                tensor("output.weight", projector),
                tensor("output.bias", "vocab_projector.bias"),
            )
        return TensorMap(
            (
                tensor(f"{EMBEDDING}.weight", word),
                tensor("encoder.position.weight", "embeddings.position_embeddings.weight"),
                *layer("encoder.stem_norm", "embeddings.LayerNorm"),
                *repeated(self.n_layers, "encoder.layers", "transformer.layer", BLOCK),
                *head,
            ),
            copies={projector: word} if self.tie_word_embeddings else {},
            ignored=("embeddings.position_ids",),
            prefix="distilbert.",
            head=("classifier.", "pre_classifier.", "vocab_")
            if self.architectures[architecture].head
            else (),
        )

    @property
    def vocabulary_sizes(self) -> tuple[int, ...]:
        """The number of embedded tokens."""
        return (self.vocab_size,)

    @property
    def max_positions(self) -> int:
        """The number of learned positions."""
        return self.max_position_embeddings

    @classmethod
    def rewrite(cls, model: nn.Module) -> nn.Module:
        """Return the model with biases and embeddings that are not scaled, as in DistilBERT."""
        return with_biases(unscaled(model, EMBEDDING))
