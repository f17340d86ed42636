"""Models of sequences of vectors: a classifier, and a captioner that generates text."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from torch import nn

from saccade.config import Conflict, Count, Fraction
from saccade.encoders.recurrent import RecurrentEncoder, RecurrentEncoderConfig
from saccade.encoders.stems import VectorStem
from saccade.encoders.transformer import TransformerEncoder, TransformerEncoderConfig
from saccade.interfaces import Memory
from saccade.layers.dropout import Dropout
from saccade.models.pooling import (
    AttentionPooling,
    Pooling,
    PoolingOptions,
    encode_pooled,
    pooled_dim,
)
from saccade.models.seq2seq import (
    DecoderConfig,
    DecoderState,
    Seq2SeqModel,
    build_decoder,
    decoder_conflicts,
)
from saccade.positions.config import text_conflicts
from saccade.shapes import Bool, Float, Int, Tensor


class VectorClassifier(nn.Module):
    """Classifier of sequences of vectors, such as frames of speech, video or sensors.

    Args:
        encoder: A module `encoder(vectors, mask=mask) → Memory`.
        head: A module from the pooled vector to logits.
        pooling: The vector that represents the sequence: "mean", "summary", or a module that pools
            by attention.
        dropout: Dropout before the head.
    """

    def __init__(
        self,
        encoder: nn.Module,
        head: nn.Module,
        *,
        pooling: Pooling | AttentionPooling = "mean",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.encoder, self.pooling, self.head = encoder, pooling, head
        self.dropout = Dropout(dropout)

    def forward(
        self, vectors: Float[Tensor, "b n w"], mask: Bool[Tensor, "b n"] | None = None
    ) -> Float[Tensor, "b c"]:
        """Return the logits (b, c) of the classes.

        Args:
            vectors: Sequences of vectors.
            mask: True at real steps; all are real if None.
        """
        return self.head(
            self.dropout(encode_pooled(self.encoder, self.pooling, vectors, mask=mask))
        )


class VectorCaptioner(Seq2SeqModel):
    """Vectors-to-text model: a translator whose encoder reads a sequence of vectors.

    Args:
        encoder: A module `encoder(vectors, mask=mask) → Memory`.
        decoder: The decoder.
    """

    def forward(
        self,
        vectors: Float[Tensor, "b n w"],
        target: Int[Tensor, "b t"],
        mask: Bool[Tensor, "b n"] | None = None,
    ) -> Float[Tensor, "b t v"]:
        """Return the logits of the next token at every place, all at once (teacher forcing).

        Args:
            vectors: Sequences of vectors.
            target: Input of the decoder, start token first.
            mask: True at real steps; all are real if None.

        Returns:
            Logits (b, t, v); logits[:, t] predict the token after target[:, t].
        """
        return self.decoder(target, self.read(vectors, mask))

    def hidden(
        self,
        vectors: Float[Tensor, "b n w"],
        target: Int[Tensor, "b t"],
        mask: Bool[Tensor, "b n"] | None = None,
    ) -> Float[Tensor, "b t d"]:
        """Return the states before the output projection."""
        return self.decoder.hidden(target, self.read(vectors, mask))

    def read(
        self, vectors: Float[Tensor, "b n w"], mask: Bool[Tensor, "b n"] | None = None
    ) -> Memory:
        """Encode sequences of vectors."""
        return self.encoder(vectors, mask=mask)

    def start(
        self, vectors: Float[Tensor, "b n w"], mask: Bool[Tensor, "b n"] | None = None
    ) -> DecoderState:
        """Return the state before the first token, for `step` and `select`."""
        return self.decoder.start(self.read(vectors, mask))


@dataclass(frozen=True, kw_only=True)
class VectorReaderConfig:
    """Options of all encoders of sequences of vectors.

    encoder   the encoder: transformer or recurrent
    dim       width that the vectors are projected to, and of a Transformer throughout
    """

    encoder: TransformerEncoderConfig | RecurrentEncoderConfig = TransformerEncoderConfig()
    dim: Count = 128

    def conflicts(self) -> Iterator[Conflict]:
        """Yield positions of images."""
        yield from text_conflicts(self.encoder.position, "encoder.position")

    @property
    def memory_dim(self) -> int:
        """The width of the states."""
        return self.encoder.states_dim(self.dim)

    def make_encoder(self, width: int) -> TransformerEncoder | RecurrentEncoder:
        """Build the encoder of vectors of this width."""
        stem = VectorStem(self.encoder.token_dim(self.dim), width)
        return self.encoder.build(stem, self.dim)


@dataclass(frozen=True, kw_only=True)
class VectorClassifierConfig(PoolingOptions, VectorReaderConfig):
    """Options of a classifier of sequences of vectors.

    pooling   vector that represents the sequence: "mean", the mean of all steps; "summary", the
              last state of a recurrent encoder; "attention", the steps weighted by learned queries,
              which shows the moments that matter
    dropout   dropout before the head, a fraction; raise it for small data
    """

    pooling: Literal["mean", "summary", "attention"] = "mean"
    dropout: Fraction = 0.1

    def build(self, width: int, num_classes: int) -> VectorClassifier:
        """Build the classifier for vectors of this width and a number of classes."""
        encoder, pooling = self.make_encoder(width), self.make_pooling(self.memory_dim)
        head = nn.Linear(pooled_dim(pooling, self.memory_dim), num_classes)
        return VectorClassifier(encoder, head, pooling=pooling, dropout=self.dropout)


@dataclass(frozen=True, kw_only=True)
class VectorCaptionerConfig(VectorReaderConfig):
    """Options of a captioner of sequences of vectors.

    decoder      the decoder of the text
    tie_output   whether the output projection shares the matrix of the embedding; saves parameters
    """

    decoder: DecoderConfig
    tie_output: bool = True

    def conflicts(self) -> Iterator[Conflict]:
        """Also yield the options of the decoder that do not fit."""
        yield from super().conflicts()
        yield from decoder_conflicts(self.decoder, tie_output=self.tie_output)

    def build(self, width: int, vocabulary: int) -> VectorCaptioner:
        """Build the model for vectors of this width and a vocabulary of this size."""
        decoder = build_decoder(
            self.decoder,
            vocabulary,
            self.dim,
            memory_dim=self.memory_dim,
            summary_dim=self.memory_dim,
            tie_output=self.tie_output,
        )
        return VectorCaptioner(self.make_encoder(width), decoder)
