"""Encoders of text with a head for the text, a head for each token, or none."""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn

from saccade.config import Conflict, Count, Fraction, Whole, without_effect
from saccade.encoders.recurrent import RecurrentEncoder, RecurrentEncoderConfig
from saccade.encoders.stems import TokenStem
from saccade.encoders.transformer import TransformerEncoder, TransformerEncoderConfig
from saccade.interfaces import Memory
from saccade.layers.activations import Activation, activation
from saccade.layers.dropout import Dropout
from saccade.layers.embeddings import TokenEmbedding
from saccade.models.pooling import (
    AttentionPooling,
    Pooling,
    PoolingKind,
    PoolingOptions,
    encode_pooled,
    pooled_dim,
)
from saccade.positions.config import text_conflicts
from saccade.shapes import Bool, Float, Int, Tensor


class TextEncoder(nn.Module):
    """Encoder of text without a head: one vector per token.

    Args:
        encoder: A module `encoder(tokens, segments, mask=mask) → Memory`.
    """

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(
        self,
        tokens: Int[Tensor, "b s"],
        mask: Bool[Tensor, "b s"] | None = None,
        segments: Int[Tensor, "b s"] | None = None,
    ) -> Float[Tensor, "b s d"]:
        """Return the states (b, s, d).

        Args:
            tokens: Token ids.
            mask: True at real tokens; all are real if None.
            segments: Segment of each token, counted from 0; all 0 if None.
        """
        return self.read(tokens, mask, segments).states

    def read(
        self,
        tokens: Int[Tensor, "b s"],
        mask: Bool[Tensor, "b s"] | None = None,
        segments: Int[Tensor, "b s"] | None = None,
    ) -> Memory:
        """Encode texts."""
        return self.encoder(tokens, segments, mask=mask)


class TextClassifier(TextEncoder):
    """Text classifier: one label for a text, or for two texts as segments (Devlin et al. 2019).

    Args:
        encoder: A module `encoder(tokens, segments, mask=mask) → Memory`.
        head: A module from the pooled vector to logits.
        pooling: Which vector stands for the text: "first", "mean" or "summary", or a module that
            pools by attention.
        pooler: A module between the pooled vector and the head (BERT: a linear layer and tanh);
            none if None.
        dropout: Dropout before the head.
    """

    def __init__(
        self,
        encoder: nn.Module,
        head: nn.Module,
        *,
        pooling: Pooling | AttentionPooling = "first",
        pooler: nn.Module | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(encoder)
        self.pooling = pooling
        self.pooler = nn.Identity() if pooler is None else pooler
        self.dropout = Dropout(dropout)
        self.head = head

    def forward(
        self,
        tokens: Int[Tensor, "b s"],
        mask: Bool[Tensor, "b s"] | None = None,
        segments: Int[Tensor, "b s"] | None = None,
    ) -> Float[Tensor, "b c"]:
        """Return the logits (b, c) of the classes.

        Args:
            tokens: Token ids.
            mask: True at real tokens; all are real if None.
            segments: Segment of each token, counted from 0; all 0 if None.
        """
        pooled = encode_pooled(self.encoder, self.pooling, tokens, segments, mask=mask)
        return self.head(self.dropout(self.pooler(pooled)))


class Tagger(TextEncoder):
    """Tagger: one label for each token of a text.

    Args:
        encoder: A module `encoder(tokens, segments, mask=mask) → Memory`.
        head: A module from a state to logits.
        dropout: Dropout before the head.
    """

    def __init__(self, encoder: nn.Module, head: nn.Module, *, dropout: float = 0.0) -> None:
        super().__init__(encoder)
        self.dropout = Dropout(dropout)
        self.head = head

    def forward(
        self,
        tokens: Int[Tensor, "b s"],
        mask: Bool[Tensor, "b s"] | None = None,
        segments: Int[Tensor, "b s"] | None = None,
    ) -> Float[Tensor, "b s c"]:
        """Return the logits (b, s, c) of the classes of each token.

        Args:
            tokens: Token ids.
            mask: True at real tokens; all are real if None.
            segments: Segment of each token, counted from 0; all 0 if None.
        """
        return self.head(self.dropout(self.read(tokens, mask, segments).states))


@dataclass(frozen=True, kw_only=True)
class TextReaderConfig:
    """Options of all encoders of text.

    encoder           the encoder: transformer, or recurrent for very small data
    dim               width of the embeddings, and of a Transformer throughout
    num_segments      number of segments with an embedding of their own; 2 to read pairs of texts
    scale_embedding   whether a Transformer multiplies its embeddings by √dim; BERT does not
    """

    encoder: TransformerEncoderConfig | RecurrentEncoderConfig = TransformerEncoderConfig()
    dim: Count = 256
    num_segments: Whole = 0
    scale_embedding: bool = True

    def conflicts(self) -> Iterator[Conflict]:
        """Yield positions of images, and options that concern Transformers only."""
        yield from text_conflicts(self.encoder.position, "encoder.position")
        if self.encoder.kind == "recurrent":
            reason = "on the embeddings of a recurrent encoder"
            yield from without_effect(self, ["scale_embedding"], reason)

    @property
    def memory_dim(self) -> int:
        """The width of the states."""
        return self.encoder.states_dim(self.dim)

    def make_embedding(self, vocabulary: int) -> TokenEmbedding:
        """Build the embedding of the tokens."""
        return TokenEmbedding(
            vocabulary,
            self.encoder.token_dim(self.dim),
            scale=self.scale_embedding and self.encoder.kind == "transformer",
            num_segments=self.num_segments,
        )

    def make_encoder(self, embedding: TokenEmbedding) -> TransformerEncoder | RecurrentEncoder:
        """Build the encoder behind an embedding."""
        return self.encoder.build(TokenStem(embedding), self.dim)


@dataclass(frozen=True, kw_only=True)
class TextEncoderConfig(TextReaderConfig):
    """Options of an encoder of text without a head."""

    def build(self, vocabulary: int) -> TextEncoder:
        """Build the encoder for a vocabulary of this size."""
        return TextEncoder(self.make_encoder(self.make_embedding(vocabulary)))


@dataclass(frozen=True, kw_only=True)
class TaggerConfig(TextReaderConfig):
    """Options of a tagger.

    dropout   dropout before the head, a fraction; raise it for small data
    """

    dropout: Fraction = 0.1

    def build(self, vocabulary: int, num_classes: int) -> Tagger:
        """Build the tagger for a vocabulary and a number of classes."""
        return Tagger(
            self.make_encoder(self.make_embedding(vocabulary)),
            nn.Linear(self.memory_dim, num_classes),
            dropout=self.dropout,
        )


@dataclass(frozen=True, kw_only=True)
class TextClassifierConfig(PoolingOptions, TextReaderConfig):
    """Options of a text classifier.

    pooling   which vector stands for the text: "first", that of the first token; "mean", the mean
              of all tokens; "summary", the last state of a recurrent encoder; "attention", the
              tokens weighted by learned queries, which shows the words that matter
    pooler    whether a linear layer and an activation stand between that vector and the head
    pooler_activation   the activation of the pooler: BERT uses tanh, DistilBERT relu, ELECTRA gelu
    dropout   dropout before the head, a fraction; raise it for small data
    """

    pooling: PoolingKind = "first"
    pooler: bool = True
    pooler_activation: Activation = "tanh"
    dropout: Fraction = 0.1

    def conflicts(self) -> Iterator[Conflict]:
        """Also yield the activation of a pooler that is left out."""
        yield from super().conflicts()
        if not self.pooler:
            yield from without_effect(self, ["pooler_activation"], "without a pooler")

    def build(self, vocabulary: int, num_classes: int) -> TextClassifier:
        """Build the classifier for a vocabulary and a number of classes."""
        encoder = self.make_encoder(self.make_embedding(vocabulary))
        pooling = self.make_pooling(self.memory_dim)
        width = pooled_dim(pooling, self.memory_dim)
        return TextClassifier(
            encoder,
            nn.Linear(width, num_classes),
            pooling=pooling,
            pooler=self._pooler(width) if self.pooler else None,
            dropout=self.dropout,
        )

    def _pooler(self, width: int) -> nn.Module:
        return nn.Sequential(nn.Linear(width, width), activation(self.pooler_activation))
