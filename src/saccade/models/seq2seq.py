"""What Translator and Captioner share: a reader, a writer, and generation through the Stepper."""

from collections.abc import Iterator
from typing import Any

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


class Seq2SeqModel(nn.Module):
    """Anything that reads with `encoder` and writes with `decoder`."""

    def __init__(self, encoder: nn.Module, decoder: Decoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder

    @property
    def output(self) -> OutputProjection:
        """What turns hidden states into logits."""
        return self.decoder.output

    def cross_attentions(self) -> list[str]:
        """The dotted names of the attentions with which the writer looks at what was read."""
        return [f"decoder.{name}".rstrip(".") for name in self.decoder.cross_attentions()]

    def step(self, tokens: Int[Tensor, " b"], state: Any) -> tuple[Float[Tensor, "b v"], Any]:
        """One more token for each row; the logits of what follows, and the state after it."""
        return self.decoder.step(tokens, state)

    def select(self, state: Any, rows: Int[Tensor, " n"]) -> Any:
        """The state of these rows, in this order."""
        return self.decoder.select(state, rows)


def decoder_conflicts(config: DecoderConfig, *, tie_output: bool) -> Iterator[Conflict]:
    """Yield the conflicts of a decoder at the key `decoder` with its model."""
    if not isinstance(config, TransformerDecoderConfig):
        return
    yield from text_conflicts(config.position, "decoder.position")
    if tie_output and config.position.widening:
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
    """A decoder over a vocabulary; `embedding` shares the reader's, `tie_output` the output's."""
    if isinstance(config, TransformerDecoderConfig):
        width = config.position.token_dim(dim)
        if embedding is None:
            embedding = TokenEmbedding(vocabulary, width, scale=True)
        tied = embedding if tie_output and width == dim else None
        output = OutputProjection(dim, vocabulary, tied=tied, bias=output_bias)
        return config.build(embedding, output, dim, memory_dim)
    if embedding is None:
        embedding = TokenEmbedding(vocabulary, dim)
    tied = embedding if tie_output else None
    output = OutputProjection(dim, vocabulary, tied=tied, bias=output_bias)
    return config.build(embedding, output, memory_dim, summary_dim)
