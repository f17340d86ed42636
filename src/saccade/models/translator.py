"""The translator: text in, text out."""

from collections.abc import Iterator
from dataclasses import dataclass

from saccade.config import Conflict, Count, without_effect
from saccade.encoders.recurrent import RecurrentEncoderConfig
from saccade.encoders.stems import TokenStem
from saccade.encoders.transformer import TransformerEncoderConfig
from saccade.errors import ShapeError
from saccade.interfaces import Memory
from saccade.layers.embeddings import TokenEmbedding
from saccade.models.seq2seq import (
    DecoderConfig,
    DecoderState,
    Seq2SeqModel,
    build_decoder,
    decoder_conflicts,
)
from saccade.positions.config import text_conflicts
from saccade.shapes import Bool, Float, Int, Tensor

EncoderConfig = TransformerEncoderConfig | RecurrentEncoderConfig


class Translator(Seq2SeqModel):
    """Text-to-text model: an encoder of the source and a decoder of the target.

    Encoder and decoder may each be recurrent (Sutskever et al. 2014; Bahdanau et al. 2015; Luong et
    al. 2015) or a Transformer (Vaswani et al. 2017).

    Args:
        encoder: A module `encoder(source, mask=mask) → Memory`.
        decoder: The decoder.

    Examples:
        >>> import torch
        >>> from saccade.decoders.transformer import TransformerDecoderConfig
        >>> from saccade.encoders.transformer import TransformerEncoderConfig
        >>> from saccade.models import TranslatorConfig
        >>> model = TranslatorConfig(
        ...     encoder=TransformerEncoderConfig(num_layers=1, num_heads=2, hidden_dim=32),
        ...     decoder=TransformerDecoderConfig(num_layers=1, num_heads=2, hidden_dim=32),
        ...     dim=16,
        ... ).build(source_vocabulary=100, target_vocabulary=90)
        >>> source, target = torch.randint(100, (2, 7)), torch.randint(90, (2, 5))
        >>> model(source, target).shape
        torch.Size([2, 5, 90])
    """

    def forward(
        self,
        source: Int[Tensor, "b s"],
        target: Int[Tensor, "b t"],
        source_mask: Bool[Tensor, "b s"] | None = None,
    ) -> Float[Tensor, "b t v"]:
        """Return the logits of the next token at every place, all at once (teacher forcing).

        Args:
            source: Token ids of the source.
            target: Input of the decoder, start token first.
            source_mask: True at real source tokens; all are real if None.

        Returns:
            Logits (b, t, v); logits[:, t] predict the token after target[:, t].
        """
        return self.decoder(target, self.read(source, source_mask))

    def hidden(
        self,
        source: Int[Tensor, "b s"],
        target: Int[Tensor, "b t"],
        source_mask: Bool[Tensor, "b s"] | None = None,
    ) -> Float[Tensor, "b t d"]:
        """Return the states before the output projection, which a loss may apply in parts."""
        return self.decoder.hidden(target, self.read(source, source_mask))

    def read(
        self, source: Int[Tensor, "b s"], source_mask: Bool[Tensor, "b s"] | None = None
    ) -> Memory:
        """Encode source texts."""
        return self.encoder(source, mask=source_mask)

    def start(
        self, source: Int[Tensor, "b s"], source_mask: Bool[Tensor, "b s"] | None = None
    ) -> DecoderState:
        """Return the state before the first token, for `step` and `select`."""
        return self.decoder.start(self.read(source, source_mask))


@dataclass(frozen=True, kw_only=True)
class TranslatorConfig:
    """Options of a translator.

    encoder            the encoder of the source: transformer or recurrent
    decoder            the decoder of the target: transformer or recurrent
    dim                width of the embeddings, and of a Transformer throughout
    share_embeddings   whether source and target share one embedding and one vocabulary; good for
                       languages with the same script
    tie_output         whether the output projection shares the matrix of the target embedding;
                       saves parameters
    scale_embedding    whether a Transformer multiplies its embeddings by √dim
    output_bias        whether each token has a bias that is added to its logit, as in Marian
    """

    encoder: EncoderConfig = TransformerEncoderConfig()
    decoder: DecoderConfig
    dim: Count = 512
    share_embeddings: bool = False
    tie_output: bool = True
    scale_embedding: bool = True
    output_bias: bool = False

    def conflicts(self) -> Iterator[Conflict]:
        """Yield the options of encoder and decoder that do not fit each other."""
        if self.share_embeddings and self.encoder.position.widening != self.decoder.widening:
            yield Conflict("share_embeddings", _UNSHARED)
        yield from text_conflicts(self.encoder.position, "encoder.position")
        yield from decoder_conflicts(self.decoder, tie_output=self.tie_output)
        if "transformer" not in (self.encoder.kind, self.decoder.kind):
            reason = "without a Transformer"
            yield from without_effect(self, ["scale_embedding"], reason)

    def build(self, source_vocabulary: int, target_vocabulary: int) -> Translator:
        """Build the model.

        Args:
            source_vocabulary: Number of source tokens.
            target_vocabulary: Number of target tokens.

        Raises:
            ShapeError: If the two cannot share an embedding although `share_embeddings` is set.
        """
        if self.share_embeddings and source_vocabulary != target_vocabulary:
            raise ShapeError(
                f"shared embeddings need one vocabulary, got {source_vocabulary} source and "
                f"{target_vocabulary} target tokens; use one vocabulary, or set share_embeddings = "
                "false"
            )
        if self.share_embeddings and self.encoder.position.widening != self.decoder.widening:
            raise ShapeError(f"share_embeddings: {_UNSHARED}")
        embedding = self._embedding(self.encoder, source_vocabulary)
        encoder = self.encoder.build(TokenStem(embedding), self.dim)
        width = self.encoder.states_dim(self.dim)
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
        return TokenEmbedding(vocabulary, side.token_dim(self.dim), scale=scale)


_UNSHARED = (
    "encoder and decoder cannot share an embedding, because one of them concatenates positions and "
    'the other does not (position.fuse = "concat"), or of another width; set share_embeddings = '
    "false, or give both the same fuse and width"
)
