"""The captioner: images in, text out."""

from collections.abc import Iterator
from dataclasses import dataclass

from saccade.config import Conflict, Count
from saccade.encoders.convolutional import ResNetConfig
from saccade.encoders.efficientnet import EfficientNetConfig
from saccade.encoders.patches import PatchReaderConfig
from saccade.interfaces import Memory
from saccade.models.seq2seq import (
    DecoderConfig,
    DecoderState,
    Seq2SeqModel,
    build_decoder,
    decoder_conflicts,
)
from saccade.shapes import Float, Int, Tensor

ImageReaderConfig = ResNetConfig | PatchReaderConfig | EfficientNetConfig


class Captioner(Seq2SeqModel):
    """Image-to-text model: an encoder of images and a decoder of text (Xu et al. 2015).

    It is a translator whose encoder reads an image, or a grid of precomputed features.

    Args:
        encoder: A module `encoder(image) → Memory`.
        decoder: The decoder.
    """

    def forward(
        self, image: Float[Tensor, "b c height width"], target: Int[Tensor, "b t"]
    ) -> Float[Tensor, "b t v"]:
        """Return the logits of the next token at every place, all at once (teacher forcing).

        Args:
            image: Images, or grids of features.
            target: Input of the decoder, start token first.

        Returns:
            Logits (b, t, v); logits[:, t] predict the token after target[:, t].
        """
        return self.decoder(target, self.read(image))

    def hidden(
        self, image: Float[Tensor, "b c height width"], target: Int[Tensor, "b t"]
    ) -> Float[Tensor, "b t d"]:
        """Return the states before the output projection."""
        return self.decoder.hidden(target, self.read(image))

    def read(self, image: Float[Tensor, "b c height width"]) -> Memory:
        """Encode images."""
        return self.encoder(image)

    def start(self, image: Float[Tensor, "b c height width"]) -> DecoderState:
        """Return the state before the first token."""
        return self.decoder.start(self.read(image))


@dataclass(frozen=True, kw_only=True)
class CaptionerConfig:
    """Options of a captioner.

    encoder      the encoder of images: resnet is trained from scratch, efficientnet is pretrained,
                 vit needs many images
    decoder      the decoder of captions
    dim          width of the embeddings, and of a Transformer throughout
    tie_output   whether the output projection shares the matrix of the embedding; saves parameters
    """

    encoder: ImageReaderConfig = ResNetConfig()
    decoder: DecoderConfig
    dim: Count = 256
    tie_output: bool = True

    def conflicts(self) -> Iterator[Conflict]:
        """Yield the options of the decoder that do not fit."""
        yield from decoder_conflicts(self.decoder, tie_output=self.tie_output)

    def build(self, vocabulary: int) -> Captioner:
        """Build the model for a vocabulary of this size."""
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
