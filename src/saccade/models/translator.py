"""Translator: text in, text out."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from saccade.config import Conflict, Count, without_effect
from saccade.decoders.recurrent import RecurrentDecoderConfig
from saccade.encoders.recurrent import RecurrentEncoderConfig
from saccade.encoders.stems import TokenStem
from saccade.encoders.transformer import TransformerEncoderConfig
from saccade.errors import ShapeError
from saccade.interfaces import Memory
from saccade.layers.embeddings import TokenEmbedding
from saccade.models.seq2seq import DecoderConfig, Seq2SeqModel, build_decoder, decoder_conflicts
from saccade.positions.config import text_conflicts
from saccade.shapes import Bool, Float, Int, Tensor

EncoderConfig = TransformerEncoderConfig | RecurrentEncoderConfig


class Translator(Seq2SeqModel):
    """Reads a source text and writes a target text.

    `target` is the writer's input, start token first; logits[:, t] predict what follows
    target[:, t]. `source_mask` is True at real tokens.
    """

    def forward(
        self,
        source: Int[Tensor, "b s"],
        target: Int[Tensor, "b t"],
        source_mask: Bool[Tensor, "b s"] | None = None,
    ) -> Float[Tensor, "b t v"]:
        """Logits of every next token, all at once (teacher forcing)."""
        return self.decoder(target, self.read(source, source_mask))

    def hidden(
        self,
        source: Int[Tensor, "b s"],
        target: Int[Tensor, "b t"],
        source_mask: Bool[Tensor, "b s"] | None = None,
    ) -> Float[Tensor, "b t d"]:
        """What `output` turns into logits; a loss may do that for a part at a time."""
        return self.decoder.hidden(target, self.read(source, source_mask))

    def read(
        self, source: Int[Tensor, "b s"], source_mask: Bool[Tensor, "b s"] | None = None
    ) -> Memory:
        """The source, read."""
        return self.encoder(source, mask=source_mask)

    def start(
        self, source: Int[Tensor, "b s"], source_mask: Bool[Tensor, "b s"] | None = None
    ) -> Any:
        """The state before the first token."""
        return self.decoder.start(self.read(source, source_mask))


@dataclass(frozen=True, kw_only=True)
class TranslatorConfig:
    """A reader and a writer of text.

    dim                 the width of embeddings, and of a Transformer throughout
    share_embeddings    one embedding for source and target, which then share a vocabulary
    tie_output          the target's embedding is also the output's matrix
    scale_embedding     a Transformer multiplies its embeddings by √dim
    output_bias         each token has a number of its own, added to its logit
    """

    encoder: EncoderConfig = TransformerEncoderConfig()
    decoder: DecoderConfig
    dim: Count = 512
    share_embeddings: bool = False
    tie_output: bool = True
    scale_embedding: bool = True
    output_bias: bool = False

    def conflicts(self) -> Iterator[Conflict]:
        """Options of the two sides that do not fit each other."""
        if self.share_embeddings and _widening(self.encoder) != _widening(self.decoder):
            yield Conflict("share_embeddings", _UNSHARED)
        yield from text_conflicts(self.encoder.position, "encoder.position")
        yield from decoder_conflicts(self.decoder, tie_output=self.tie_output)
        if "transformer" not in (self.encoder.kind, self.decoder.kind):
            reason = "without a Transformer"
            yield from without_effect(self, ["scale_embedding"], reason)

    def build(self, source_vocabulary: int, target_vocabulary: int) -> Translator:
        """The model over these vocabularies."""
        if self.share_embeddings and source_vocabulary != target_vocabulary:
            raise ShapeError(
                f"shared embeddings need one vocabulary, got {source_vocabulary} source and "
                f"{target_vocabulary} target tokens"
            )
        if self.share_embeddings and _widening(self.encoder) != _widening(self.decoder):
            raise ShapeError(f"share_embeddings: {_UNSHARED}")
        embedding = self._embedding(self.encoder, source_vocabulary)
        encoder = self.encoder.build(TokenStem(embedding), self.dim)
        width = (
            self.encoder.memory_dim
            if isinstance(self.encoder, RecurrentEncoderConfig)
            else self.dim
        )
        if not self.share_embeddings:
            embedding = self._embedding(self.decoder, target_vocabulary)
        decoder = build_decoder(
            self.decoder,
            target_vocabulary,
            self.dim,
            memory_dim=width,
            summary_dim=width,
            embedding=embedding,
            tie_output=self.tie_output,
            output_bias=self.output_bias,
        )
        return Translator(encoder, decoder)

    def _embedding(self, side: EncoderConfig | DecoderConfig, vocabulary: int) -> TokenEmbedding:
        scale = self.scale_embedding and side.kind == "transformer"
        width = self.dim
        if not isinstance(side, RecurrentDecoderConfig):
            width = side.position.token_dim(width)
        return TokenEmbedding(vocabulary, width, scale=scale)


_UNSHARED = (
    "encoder and decoder cannot share an embedding, because one of them concatenates positions and "
    'the other does not (position.fuse = "concat"), or of another width; set share_embeddings = '
    "false, or give both the same fuse and width"
)


def _widening(side: EncoderConfig | DecoderConfig) -> int:
    return 0 if isinstance(side, RecurrentDecoderConfig) else side.position.widening
