"""Captioner: an image in, text out. Translation whose reader looks at an image."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from saccade.config import Conflict, Count
from saccade.encoders.convolutional import ResNetConfig
from saccade.encoders.efficientnet import EfficientNetConfig
from saccade.encoders.patches import PatchReaderConfig
from saccade.interfaces import Memory
from saccade.models.seq2seq import DecoderConfig, Seq2SeqModel, build_decoder, decoder_conflicts
from saccade.shapes import Float, Int, Tensor

ImageReaderConfig = ResNetConfig | PatchReaderConfig | EfficientNetConfig


class Captioner(Seq2SeqModel):
    """Reads an image (or a grid of features) and writes a text about it.

    `target` is the writer's input, start token first; logits[:, t] predict what follows
    target[:, t].
    """

    def forward(
        self, image: Float[Tensor, "b c height width"], target: Int[Tensor, "b t"]
    ) -> Float[Tensor, "b t v"]:
        """Logits of every next token, all at once (teacher forcing)."""
        return self.decoder(target, self.read(image))

    def hidden(
        self, image: Float[Tensor, "b c height width"], target: Int[Tensor, "b t"]
    ) -> Float[Tensor, "b t d"]:
        """What `output` turns into logits."""
        return self.decoder.hidden(target, self.read(image))

    def read(self, image: Float[Tensor, "b c height width"]) -> Memory:
        """The image, read."""
        return self.encoder(image)

    def start(self, image: Float[Tensor, "b c height width"]) -> Any:
        """The state before the first token."""
        return self.decoder.start(self.read(image))


@dataclass(frozen=True, kw_only=True)
class CaptionerConfig:
    """A reader of images and a writer.

    dim          the width of the writer's embeddings, and of a Transformer throughout
    tie_output   the embedding is also the output's matrix
    """

    encoder: ImageReaderConfig = ResNetConfig()
    decoder: DecoderConfig
    dim: Count = 256
    tie_output: bool = True

    def conflicts(self) -> Iterator[Conflict]:
        """Options of the decoder that do not fit."""
        yield from decoder_conflicts(self.decoder, tie_output=self.tie_output)

    def build(self, vocabulary: int) -> Captioner:
        """The model over this vocabulary."""
        encoder, width = self.encoder.build(), self.encoder.memory_dim
        decoder = build_decoder(
            self.decoder,
            vocabulary,
            self.dim,
            memory_dim=width,
            summary_dim=width,
            tie_output=self.tie_output,
        )
        return Captioner(encoder, decoder)
