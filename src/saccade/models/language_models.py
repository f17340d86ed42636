"""Language models: how a text goes on, and what its holes hold."""

from dataclasses import dataclass
from typing import Any

from torch import nn

from saccade.config import Count
from saccade.decoders.transformer import TransformerDecoder, TransformerDecoderConfig
from saccade.encoders.stems import TokenStem
from saccade.layers.activations import Activation, activation
from saccade.layers.embeddings import OutputProjection, TokenEmbedding
from saccade.models.text_classifier import TextEncoder, TextEncoderConfig
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

    def forward(self, tokens: Int[Tensor, "b t"]) -> Float[Tensor, "b t v"]:
        """Logits of what follows each token."""
        return self.decoder(tokens)

    def hidden(self, tokens: Int[Tensor, "b t"]) -> Float[Tensor, "b t d"]:
        """What `output` turns into logits."""
        return self.decoder.hidden(tokens)

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
    """A decoder without a memory."""

    decoder: TransformerDecoderConfig = TransformerDecoderConfig()
    dim: Count = 256
    tie_output: bool = True

    def build(self, vocabulary: int) -> LanguageModel:
        """The model over this vocabulary."""
        width = self.dim - self.decoder.position.widening
        embedding = TokenEmbedding(vocabulary, width, scale=True)
        tied = embedding if self.tie_output and width == self.dim else None
        output = OutputProjection(self.dim, vocabulary, tied=tied)
        return LanguageModel(self.decoder.build(embedding, output, self.dim))


@dataclass(frozen=True, kw_only=True)
class MaskedLanguageModelConfig(TextEncoderConfig):
    """A reader of text and an output over its vocabulary, which shares the embedding."""

    head_activation: Activation = "gelu"

    def build_masked(self, vocabulary: int) -> MaskedLanguageModel:
        """The model over this vocabulary."""
        embedding, width = self.build_embedding(vocabulary), self.memory_dim
        tied = embedding if embedding.dim == width else None
        return MaskedLanguageModel(
            self.encoder.build(TokenStem(embedding), self.dim),
            OutputProjection(width, vocabulary, tied=tied, bias=True),
            nn.Sequential(
                nn.Linear(width, width), activation(self.head_activation), nn.LayerNorm(width)
            ),
        )
