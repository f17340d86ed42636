"""Language models: how a text goes on, and what its holes hold."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn

from saccade.attention import masks
from saccade.config import Conflict, Count, Fraction
from saccade.decoders.transformer import TransformerDecoder, TransformerDecoderConfig
from saccade.encoders.transformer import TransformerEncoderConfig
from saccade.layers.activations import Activation, activation
from saccade.layers.dropout import Dropout
from saccade.layers.embeddings import OutputProjection, TokenEmbedding
from saccade.models.seq2seq import decoder_conflicts
from saccade.models.text_classifier import TextEncoder, TextReaderConfig
from saccade.shapes import Bool, Float, Int, Tensor


class LanguageModel(nn.Module):
    """Says what follows each token: a decoder without a memory (Radford et al. 2018)."""

    def __init__(self, decoder: TransformerDecoder) -> None:
        super().__init__()
        self.decoder = decoder

    @property
    def output(self) -> OutputProjection:
        """What turns hidden states into logits."""
        return self.decoder.output

    def forward(
        self, tokens: Int[Tensor, "b t"], documents: Int[Tensor, "b t"] | None = None
    ) -> Float[Tensor, "b t v"]:
        """Logits of what follows each token."""
        return self.output(self.hidden(tokens, documents))

    def hidden(
        self, tokens: Int[Tensor, "b t"], documents: Int[Tensor, "b t"] | None = None
    ) -> Float[Tensor, "b t d"]:
        """What `output` turns into logits.

        Where a row holds several documents, `documents` tells of which each token is, and no
        document sees another. Positions do not begin anew with each: they count from the beginning
        of the row, which makes no difference to relative and rotary ones.
        """
        if documents is None:
            return self.decoder.hidden(tokens)
        same = documents.unsqueeze(2) == documents.unsqueeze(1)
        return self.decoder.hidden(tokens, mask=masks.causal() & masks.dense(same))

    def start(self, prompt: Int[Tensor, "b n"] | None = None) -> Any:
        """The state after a prompt, whose last token is left for the first step to write."""
        state = self.decoder.start()
        if prompt is not None and prompt.shape[1] > 1:
            _, state = self.decoder.extend(prompt[:, :-1], state)
        return state

    def step(self, tokens: Int[Tensor, " b"], state: Any) -> tuple[Float[Tensor, "b v"], Any]:
        """One more token for each row; the logits of what follows, and the state after it."""
        return self.decoder.step(tokens, state)

    def select(self, state: Any, rows: Int[Tensor, " n"]) -> Any:
        """The state of these rows, in this order."""
        return self.decoder.select(state, rows)


class MaskedLanguageModel(TextEncoder):
    """Says what stood where tokens are masked (Devlin et al. 2019).

    `transform` stands between the states and the output (BERT: linear, activation, norm).
    """

    def __init__(
        self, encoder: nn.Module, output: OutputProjection, transform: nn.Module | None = None
    ) -> None:
        super().__init__(encoder)
        self.transform = nn.Identity() if transform is None else transform
        self.output = output

    def forward(
        self,
        tokens: Int[Tensor, "b s"],
        mask: Bool[Tensor, "b s"] | None = None,
        segments: Int[Tensor, "b s"] | None = None,
    ) -> Float[Tensor, "b s v"]:
        """Logits of each token."""
        return self.output(self.hidden(tokens, mask, segments))

    def hidden(
        self,
        tokens: Int[Tensor, "b s"],
        mask: Bool[Tensor, "b s"] | None = None,
        segments: Int[Tensor, "b s"] | None = None,
    ) -> Float[Tensor, "b s d"]:
        """What `output` turns into logits; a loss needs it at the masked places only."""
        return self.transform(self.read(tokens, mask, segments).states)


@dataclass(frozen=True, kw_only=True)
class LanguageModelConfig:
    """A decoder without a memory.

    dim                the width throughout
    tie_output         the embedding is also the output's matrix
    scale_embedding    embeddings are multiplied by √dim
    embedding_dropout  on the embeddings, where it differs from the decoder's dropout
    """

    decoder: TransformerDecoderConfig = TransformerDecoderConfig()
    dim: Count = 256
    tie_output: bool = True
    scale_embedding: bool = True
    embedding_dropout: Fraction | None = None

    def conflicts(self) -> Iterator[Conflict]:
        """Options of the decoder that do not fit."""
        yield from decoder_conflicts(self.decoder, tie_output=self.tie_output)

    def build(self, vocabulary: int) -> LanguageModel:
        """The model over this vocabulary."""
        width = self.decoder.position.token_dim(self.dim)
        embedding = TokenEmbedding(vocabulary, width, scale=self.scale_embedding)
        tied = embedding if self.tie_output and width == self.dim else None
        output = OutputProjection(self.dim, vocabulary, tied=tied)
        decoder = self.decoder.build(embedding, output, self.dim)
        if self.embedding_dropout is not None:
            decoder.dropout = Dropout(self.embedding_dropout)
        return LanguageModel(decoder)


@dataclass(frozen=True, kw_only=True)
class MaskedLanguageModelConfig(TextReaderConfig):
    """A reader of text and an output over its vocabulary.

    head_activation  between the states and the output; the norm there is as the encoder's
    tie_output       the embedding is also the output's matrix
    """

    head_activation: Activation = "gelu"
    tie_output: bool = True

    def conflicts(self) -> Iterator[Conflict]:
        """Those of the reader, and an output that cannot be tied."""
        yield from super().conflicts()
        if self.tie_output and self.dim - self.encoder.position.widening != self.memory_dim:
            yield Conflict(
                "tie_output",
                f"the embedding is {self.dim - self.encoder.position.widening} wide and the "
                f"states are {self.memory_dim}, so they cannot share a matrix; set tie_output = "
                "false, or make the widths equal (dim, encoder.dim, encoder.bidirectional, "
                "encoder.position.fuse)",
            )

    def build(self, vocabulary: int) -> MaskedLanguageModel:
        """The model over this vocabulary."""
        embedding, width = self.make_embedding(vocabulary), self.memory_dim
        tied = embedding if self.tie_output and embedding.dim == width else None
        eps = self.encoder.norm_eps if isinstance(self.encoder, TransformerEncoderConfig) else 1e-5
        return MaskedLanguageModel(
            self.make_encoder(embedding),
            OutputProjection(width, vocabulary, tied=tied, bias=True),
            nn.Sequential(
                nn.Linear(width, width),
                activation(self.head_activation),
                nn.LayerNorm(width, eps=eps),
            ),
        )
