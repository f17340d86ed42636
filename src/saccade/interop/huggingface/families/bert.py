"""BERT (Devlin et al. 2019): a reader of text with norms after its parts, and its heads."""

from collections.abc import Mapping
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
    Rate,
    Size,
    TheirActivation,
    our_activation,
    their_activation,
)
from saccade.interop.huggingface.family import Family
from saccade.interop.huggingface.model_diff import part
from saccade.interop.huggingface.model_rewrites import unscaled, with_biases, with_segments
from saccade.interop.huggingface.tensor_map import Entry, Names, layer, repeated, tensor
from saccade.layers.dropout import Dropout
from saccade.layers.embeddings import TokenEmbedding
from saccade.models import (
    MaskedLanguageModel,
    MaskedLanguageModelConfig,
    Tagger,
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
class BertOptions:
    """What its config.json says."""

    vocab_size: Size = 30522
    hidden_size: Size = 768
    num_hidden_layers: Size = 12
    num_attention_heads: Size = 12
    intermediate_size: Size = 3072
    hidden_act: TheirActivation = "gelu"
    hidden_dropout_prob: Rate = 0.1
    attention_probs_dropout_prob: Rate = 0.1
    classifier_dropout: Rate | None = None
    max_position_embeddings: Size = 512
    type_vocab_size: Size = 2
    layer_norm_eps: Epsilon = 1e-12
    tie_word_embeddings: Flag = True
    num_labels: Size = 2


class Bert(Family[BertOptions]):
    """`bert`."""

    model_type = "bert"
    options = BertOptions
    architectures: ClassVar[Mapping[str, type[nn.Module]]] = {
        "BertModel": TextEncoder,
        "BertForSequenceClassification": TextClassifier,
        "BertForTokenClassification": Tagger,
        "BertForMaskedLM": MaskedLanguageModel,
        "BertForPreTraining": MaskedLanguageModel,
    }
    unnamed = "BertModel"
    conditions = (
        Condition(
            "position_embedding_type", "positions inside of attention are", must_be="absolute"
        ),
        Condition("is_decoder", "a BERT that writes is"),
        Condition("add_cross_attention", "a BERT that reads a memory is"),
    )

    def config(self, architecture: str, options: BertOptions) -> TextReaderConfig | None:
        """The reader, and the head of its class; a tagger is none of our recipes."""
        reader = _reader(options)
        kind = self.architectures[architecture]
        if kind is TextClassifier:
            return TextClassifierConfig(**vars(reader), dropout=_head_dropout(options))
        if kind is MaskedLanguageModel:
            return MaskedLanguageModelConfig(
                **vars(reader),
                head_activation=our_activation(options.hidden_act),
                tie_output=options.tie_word_embeddings,
            )
        return None if kind is Tagger else reader

    def build(self, architecture: str, options: BertOptions) -> nn.Module:
        """The reader, and the head of its class."""
        match self.config(architecture, options):
            case TextClassifierConfig() as config:
                return config.build(options.vocab_size, options.num_labels)
            case MaskedLanguageModelConfig() as config:
                return config.build(options.vocab_size)
            case TextEncoderConfig() as config:
                return config.build(options.vocab_size)
        return Tagger(
            _reader(options).build(options.vocab_size).encoder,
            nn.Linear(options.hidden_size, options.num_labels),
            dropout=_head_dropout(options),
        )

    def describe(self, model: nn.Module) -> BertOptions:
        """Read off the first block; the comparison finds any that differs."""
        encoder = part(model, "encoder", TransformerEncoder)
        embedding = part(model, EMBEDDING, TokenEmbedding)
        block = part(model, "encoder.layers.0", TransformerEncoderLayer)
        has_head = isinstance(model, TextClassifier | Tagger)
        return BertOptions(
            vocab_size=embedding.weight.shape[0],
            hidden_size=embedding.dim,
            num_hidden_layers=len(encoder.layers),
            num_attention_heads=block.self_attention.num_heads,
            intermediate_size=block.feed_forward.widen.out_features,
            hidden_act=their_activation(block.feed_forward.activation),
            hidden_dropout_prob=float(encoder.dropout.p),
            attention_probs_dropout_prob=float(block.self_attention.attend.dropout),
            classifier_dropout=float(part(model, "dropout", Dropout).p) if has_head else None,
            max_position_embeddings=part(model, "encoder.position", Learned).weight.shape[0],
            type_vocab_size=part(model, f"{EMBEDDING}.segments", nn.Embedding).num_embeddings,
            layer_norm_eps=part(model, "encoder.stem_norm", nn.LayerNorm).eps,
            tie_word_embeddings=(
                not isinstance(model, MaskedLanguageModel)
                or model.output.weight is embedding.weight
            ),
            num_labels=part(model, "head", nn.Linear).out_features if has_head else 2,
        )

    def names(self, architecture: str, options: BertOptions) -> Names:
        """Norms were called by γ and β once; a pooler that no head uses is left out."""
        head, tied = _output(tied=options.tie_word_embeddings)
        pools = architecture == "BertForSequenceClassification"
        return Names(
            (
                tensor(f"{EMBEDDING}.weight", "embeddings.word_embeddings.weight"),
                tensor(f"{EMBEDDING}.segments.weight", "embeddings.token_type_embeddings.weight"),
                tensor("encoder.position.weight", "embeddings.position_embeddings.weight"),
                *layer("encoder.stem_norm", "embeddings.LayerNorm"),
                *repeated(options.num_hidden_layers, "encoder.layers", "encoder.layer", BLOCK),
                *layer("pooler.0", "pooler.dense"),
                *layer("head", "classifier"),
                *head,
            ),
            copies=tied,
            ignored=(
                "embeddings.position_ids",
                "embeddings.token_type_ids",
                "cls.seq_relationship.",
                *(() if pools else ("pooler.",)),
            ),
            renamed={"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"},
            prefix="bert.",
            head=() if architecture == "BertModel" else ("cls.", "classifier."),
        )

    def fitted(self, model: nn.Module) -> nn.Module:
        """BERT does not scale its embeddings, and always has segments and biases."""
        return with_biases(with_segments(unscaled(model, EMBEDDING), EMBEDDING))


def _reader(options: BertOptions) -> TextEncoderConfig:
    return TextEncoderConfig(
        encoder=TransformerEncoderConfig(
            num_layers=options.num_hidden_layers,
            num_heads=options.num_attention_heads,
            hidden_dim=options.intermediate_size,
            norm_order="post",
            activation=our_activation(options.hidden_act),
            dropout=options.hidden_dropout_prob,
            attention_dropout=options.attention_probs_dropout_prob,
            norm_eps=options.layer_norm_eps,
            position=LearnedConfig(length=options.max_position_embeddings),
            stem_norm=True,
        ),
        dim=options.hidden_size,
        num_segments=options.type_vocab_size,
        scale_embedding=False,
    )


def _head_dropout(options: BertOptions) -> float:
    own = options.classifier_dropout
    return options.hidden_dropout_prob if own is None else own


def _output(*, tied: bool) -> tuple[tuple[Entry, ...], dict[str, str]]:
    """The head over the vocabulary, and the copies of its tensors where they are shared.

    The bias has two names: the second is of no use where they are not shared, but is expected.
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
