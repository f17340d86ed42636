"""Readers of text with a head: for the whole text, for each token, or none."""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn

from saccade.config import Conflict, Count, Fraction, Whole, without_effect
from saccade.encoders.recurrent import RecurrentEncoder, RecurrentEncoderConfig
from saccade.encoders.stems import TokenStem
from saccade.encoders.transformer import TransformerEncoder, TransformerEncoderConfig
from saccade.interfaces import Memory
from saccade.layers.dropout import Dropout
from saccade.layers.embeddings import TokenEmbedding
from saccade.layers.pooling import Pooling
from saccade.models.pooled import read_as_one
from saccade.positions.config import text_conflicts
from saccade.shapes import Bool, Float, Int, Tensor


class TextEncoder(nn.Module):
    """Reads a text: one vector a token."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(
        self,
        tokens: Int[Tensor, "b s"],
        mask: Bool[Tensor, "b s"] | None = None,
        segments: Int[Tensor, "b s"] | None = None,
    ) -> Float[Tensor, "b s d"]:
        """The states."""
        return self.read(tokens, mask, segments).states

    def read(
        self,
        tokens: Int[Tensor, "b s"],
        mask: Bool[Tensor, "b s"] | None = None,
        segments: Int[Tensor, "b s"] | None = None,
    ) -> Memory:
        """The text, read."""
        return self.encoder(tokens, segments, mask=mask)


class TextClassifier(TextEncoder):
    """Reads a text, or two as segments, and labels it: many to one.

    `pooler` is what stands between the pooled vector and the head (BERT: a linear layer and tanh).
    """

    def __init__(
        self,
        encoder: nn.Module,
        head: nn.Module,
        *,
        pooling: Pooling = "first",
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
        """The logits of the classes."""
        pooled = read_as_one(self.encoder, self.pooling, tokens, segments, mask=mask)
        return self.head(self.dropout(self.pooler(pooled)))


class Tagger(TextEncoder):
    """Reads a text and labels each token: many to many, one for one."""

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
        """The logits of the classes of each token."""
        return self.head(self.dropout(self.read(tokens, mask, segments).states))


@dataclass(frozen=True, kw_only=True)
class TextReaderConfig:
    """The options that all readers of text share.

    dim              the width of embeddings, and of a Transformer throughout
    num_segments     number of token segments; 2 for models that read pairs
    scale_embedding  a Transformer multiplies its embeddings by √dim
    """

    encoder: TransformerEncoderConfig | RecurrentEncoderConfig = TransformerEncoderConfig()
    dim: Count = 256
    num_segments: Whole = 0
    scale_embedding: bool = True

    def conflicts(self) -> Iterator[Conflict]:
        """Positions of images, and options of Transformers."""
        yield from text_conflicts(self.encoder.position, "encoder.position")
        if self.encoder.kind == "recurrent":
            reason = "on the embeddings of a recurrent encoder"
            yield from without_effect(self, ["scale_embedding"], reason)

    @property
    def memory_dim(self) -> int:
        """The width of the states."""
        if isinstance(self.encoder, RecurrentEncoderConfig):
            return self.encoder.memory_dim
        return self.dim

    def make_embedding(self, vocabulary: int) -> TokenEmbedding:
        """The embedding of its tokens."""
        return TokenEmbedding(
            vocabulary,
            self.encoder.position.token_dim(self.dim),
            scale=self.scale_embedding and self.encoder.kind == "transformer",
            num_segments=self.num_segments,
        )

    def make_encoder(self, embedding: TokenEmbedding) -> TransformerEncoder | RecurrentEncoder:
        """The encoder behind this embedding."""
        return self.encoder.build(TokenStem(embedding), self.dim)


@dataclass(frozen=True, kw_only=True)
class TextEncoderConfig(TextReaderConfig):
    """A reader of text, without a head."""

    def build(self, vocabulary: int) -> TextEncoder:
        """The reader over this vocabulary."""
        return TextEncoder(self.make_encoder(self.make_embedding(vocabulary)))


@dataclass(frozen=True, kw_only=True)
class TextClassifierConfig(TextReaderConfig):
    """A reader of text and a head for its label.

    pooling  which vector stands for the text
    pooler   a linear layer and tanh between that vector and the head
    dropout  before the head
    """

    pooling: Pooling = "first"
    pooler: bool = True
    dropout: Fraction = 0.1

    def build(self, vocabulary: int, num_classes: int) -> TextClassifier:
        """The classifier over this vocabulary."""
        width = self.memory_dim
        return TextClassifier(
            self.make_encoder(self.make_embedding(vocabulary)),
            nn.Linear(width, num_classes),
            pooling=self.pooling,
            pooler=nn.Sequential(nn.Linear(width, width), nn.Tanh()) if self.pooler else None,
            dropout=self.dropout,
        )
