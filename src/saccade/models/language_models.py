"""Language models: next-token prediction, and prediction of masked tokens."""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn

from saccade.attention import masks
from saccade.config import Conflict, Count, Fraction
from saccade.decoders.transformer import (
    TransformerDecoder,
    TransformerDecoderConfig,
    TransformerState,
)
from saccade.encoders.transformer import TransformerEncoderConfig
from saccade.layers.activations import Activation, activation
from saccade.layers.dropout import Dropout
from saccade.layers.embeddings import OutputProjection, TokenEmbedding
from saccade.models.seq2seq import decoder_conflicts
from saccade.models.text_classifier import TextEncoder, TextReaderConfig
from saccade.shapes import Bool, Float, Int, Tensor


class LanguageModel(nn.Module):
    """Language model: a Transformer decoder without a memory (Radford et al. 2018).

    Args:
        decoder: A decoder without cross-attention.

    Examples:
        >>> import torch
        >>> from saccade.decoders.transformer import TransformerDecoderConfig
        >>> from saccade.models import LanguageModelConfig
        >>> options = TransformerDecoderConfig(num_layers=2, num_heads=2, hidden_dim=32)
        >>> model = LanguageModelConfig(dim=16, decoder=options).build(100)
        >>> model(torch.randint(100, (2, 7))).shape
        torch.Size([2, 7, 100])
    """

    def __init__(self, decoder: TransformerDecoder) -> None:
        super().__init__()
        self.decoder = decoder

    @property
    def output(self) -> OutputProjection:
        """The projection from states to logits."""
        return self.decoder.output

    def forward(
        self, tokens: Int[Tensor, "b t"], documents: Int[Tensor, "b t"] | None = None
    ) -> Float[Tensor, "b t v"]:
        """Return the logits (b, t, v); logits[:, t] predict the token after tokens[:, t].

        Args:
            tokens: Token ids.
            documents: The document of each token, if a row contains several.
        """
        return self.output(self.hidden(tokens, documents))

    def hidden(
        self, tokens: Int[Tensor, "b t"], documents: Int[Tensor, "b t"] | None = None
    ) -> Float[Tensor, "b t d"]:
        """Return the states before the output projection.

        If a row contains several documents, `documents` gives the document of each token, and no
        document sees another. Positions count from the beginning of the row, not of the document,
        which makes no difference to relative and rotary positions.
        """
        if documents is None:
            return self.decoder.hidden(tokens)
        same = documents.unsqueeze(2) == documents.unsqueeze(1)
        return self.decoder.hidden(tokens, mask=masks.causal() & masks.dense(same))

    def start(self, prompt: Int[Tensor, "b n"] | None = None) -> TransformerState:
        """Return the state after a prompt without its last token, which is for the first step."""
        state = self.decoder.start()
        if prompt is not None and prompt.shape[1] > 1:
            _, state = self.decoder.extend(prompt[:, :-1], state)
        return state

    def step(
        self, tokens: Int[Tensor, " b"], state: TransformerState
    ) -> tuple[Float[Tensor, "b v"], TransformerState]:
        """Append one token per row; return the logits of the next token and the new state."""
        return self.decoder.step(tokens, state)

    def select(self, state: TransformerState, rows: Int[Tensor, " n"]) -> TransformerState:
        """Return the state of these rows, in this order."""
        return self.decoder.select(state, rows)


class MaskedLanguageModel(TextEncoder):
    """Masked language model: predicts the original of masked tokens (Devlin et al. 2019).

    Args:
        encoder: A module `encoder(tokens, segments, mask=mask) → Memory`.
        output: Projection to logits.
        transform: A module between the states and the projection (BERT: linear, activation, norm);
            none if None.
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
        """Return the logits (b, s, v) of the token at every place.

        Args:
            tokens: Token ids.
            mask: True at real tokens; all are real if None.
            segments: Segment of each token, counted from 0; all 0 if None.
        """
        return self.output(self.hidden(tokens, mask, segments))

    def hidden(
        self,
        tokens: Int[Tensor, "b s"],
        mask: Bool[Tensor, "b s"] | None = None,
        segments: Int[Tensor, "b s"] | None = None,
    ) -> Float[Tensor, "b s d"]:
        """Return the states before the output projection; a loss needs only masked places."""
        return self.transform(self.read(tokens, mask, segments).states)


@dataclass(frozen=True, kw_only=True)
class LanguageModelConfig:
    """Options of a language model.

    decoder             the Transformer decoder
    dim                 width of the model, in numbers per token
    tie_output          whether the output projection shares the matrix of the embedding; saves
                        parameters
    scale_embedding     whether embeddings are multiplied by √dim; GPT-2 does not
    embedding_dropout   dropout on the embeddings, a fraction; default: dropout of the decoder
    """

    decoder: TransformerDecoderConfig = TransformerDecoderConfig()
    dim: Count = 256
    tie_output: bool = True
    scale_embedding: bool = True
    embedding_dropout: Fraction | None = None

    def conflicts(self) -> Iterator[Conflict]:
        """Yield the options of the decoder that do not fit."""
        yield from decoder_conflicts(self.decoder, tie_output=self.tie_output)

    def build(self, vocabulary: int) -> LanguageModel:
        """Build the model for a vocabulary of this size."""
        width = self.decoder.token_dim(self.dim)
        embedding = TokenEmbedding(vocabulary, width, scale=self.scale_embedding)
        tied = embedding if self.tie_output and width == self.dim else None
        output = OutputProjection(self.dim, vocabulary, tied=tied)
        decoder = self.decoder.build(embedding, output, self.dim)
        if self.embedding_dropout is not None:
            decoder.dropout = Dropout(self.embedding_dropout)
        return LanguageModel(decoder)


@dataclass(frozen=True, kw_only=True)
class MaskedLanguageModelConfig(TextReaderConfig):
    """Options of a masked language model.

    head_activation   activation between the states and the output projection; BERT uses gelu
    tie_output        whether the output projection shares the matrix of the embedding; saves
                      parameters
    """

    head_activation: Activation = "gelu"
    tie_output: bool = True

    def conflicts(self) -> Iterator[Conflict]:
        """Yield the conflicts of the encoder, and an output that cannot be tied."""
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
        """Build the model for a vocabulary of this size."""
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
