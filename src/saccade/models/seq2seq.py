"""The base of sequence-to-sequence models: an encoder, a decoder, and generation step by step."""

from collections.abc import Iterator
from typing import Any, TypeAlias

from torch import nn

from saccade.config import Conflict
from saccade.decoders.recurrent import RecurrentDecoder, RecurrentDecoderConfig
from saccade.decoders.transformer import TransformerDecoder, TransformerDecoderConfig
from saccade.layers.embeddings import OutputProjection, TokenEmbedding
from saccade.positions.config import text_conflicts
from saccade.shapes import Float, Int, Tensor

UNTIED = (
    "an output cannot share the matrix of an embedding that is narrower than the model, because "
    '{key} = "concat" adds the positions to its width; set tie_output = false, or {key} = '
    '"add"'
)
"""The reason why `tie_output` cannot work."""

Decoder = TransformerDecoder | RecurrentDecoder
DecoderConfig = TransformerDecoderConfig | RecurrentDecoderConfig
DecoderState: TypeAlias = Any
"""The state of generation of whichever decoder the model has; opaque to its callers."""


class Seq2SeqModel(nn.Module):
    """Base class of models with an encoder and a decoder of text; a `Stepper`.

    Args:
        encoder: A module that returns a `Memory`.
        decoder: The decoder that reads it.
    """

    def __init__(self, encoder: nn.Module, decoder: Decoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder

    @property
    def output(self) -> OutputProjection:
        """The projection from states to logits."""
        return self.decoder.output

    def cross_attentions(self) -> list[str]:
        """Return the dotted names of the attentions from the decoder to the encoder."""
        return [f"decoder.{name}".rstrip(".") for name in self.decoder.cross_attentions()]

    def step(
        self, tokens: Int[Tensor, " b"], state: DecoderState
    ) -> tuple[Float[Tensor, "b v"], DecoderState]:
        """Append one token per row; return the logits of the next token and the new state."""
        return self.decoder.step(tokens, state)

    def select(self, state: DecoderState, rows: Int[Tensor, " n"]) -> DecoderState:
        """Return the state of these rows, in this order."""
        return self.decoder.select(state, rows)


def decoder_conflicts(config: DecoderConfig, *, tie_output: bool) -> Iterator[Conflict]:
    """Yield the conflicts of a decoder at the key `decoder` with its model."""
    if not isinstance(config, TransformerDecoderConfig):
        return
    yield from text_conflicts(config.position, "decoder.position")
    if tie_output and config.widening:
        yield Conflict("tie_output", UNTIED.format(key="decoder.position.fuse"))


def build_decoder(
    config: DecoderConfig,
    vocabulary: int,
    dim: int,
    *,
    memory_dim: int,
    summary_dim: int,
    embedding: TokenEmbedding | None = None,
    tie_output: bool = True,
    output_bias: bool = False,
) -> Decoder:
    """Build a decoder for a vocabulary.

    Args:
        config: Options of the decoder.
        vocabulary: Number of tokens.
        dim: Width of the embedding, and of a Transformer throughout.
        memory_dim: Width of the states of the encoder.
        summary_dim: Width of the summary of the encoder.
        embedding: An embedding to share; a new one if None.
        tie_output: Share the matrix of the embedding with the output projection.
        output_bias: Give the output projection a bias.
    """
    width = config.token_dim(dim)
    if embedding is None:
        embedding = TokenEmbedding(vocabulary, width, scale=config.kind == "transformer")
    tied = embedding if tie_output and width == dim else None
    output = OutputProjection(dim, vocabulary, tied=tied, bias=output_bias)
    if isinstance(config, TransformerDecoderConfig):
        return config.build(embedding, output, dim, memory_dim)
    return config.build(embedding, output, memory_dim, summary_dim)
