"""The encoder-decoder Transformer over vectors, like `torch.nn.Transformer`."""

from torch import nn

from saccade.attention import masks
from saccade.decoders.transformer import TransformerDecoderLayer, TransformerStack
from saccade.encoders.stems import VectorStem
from saccade.encoders.transformer import TransformerEncoder, TransformerEncoderLayer
from saccade.interfaces import Memory
from saccade.layers.block import BlockConfig
from saccade.shapes import Bool, Float, Tensor


class Transformer(nn.Module):
    """Encoder-decoder Transformer over vectors, causal in the target (Vaswani et al. 2017).

    The defaults are those of `torch.nn.Transformer`, including the norms after both stacks.

    Args:
        dim: Width of the vectors.
        num_encoder_layers: Number of encoder layers.
        num_decoder_layers: Number of decoder layers.
        config: Options of the blocks.

    Examples:
        >>> import torch
        >>> from saccade.models import Transformer
        >>> model = Transformer(dim=16, num_encoder_layers=1, num_decoder_layers=1).eval()
        >>> model(torch.randn(2, 5, 16), torch.randn(2, 3, 16)).shape
        torch.Size([2, 3, 16])
    """

    def __init__(
        self,
        dim: int = 512,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        config: BlockConfig | None = None,
    ) -> None:
        super().__init__()
        if config is None:
            config = BlockConfig(norm_order="post", attention_dropout=0.1, activation_dropout=0.1)
        self.encoder = TransformerEncoder(
            VectorStem(dim),
            [TransformerEncoderLayer(dim, config) for _ in range(num_encoder_layers)],
            norm=config.make_norm(dim),
        )
        self.decoder = TransformerStack(
            [TransformerDecoderLayer(dim, config, dim) for _ in range(num_decoder_layers)],
            norm=config.make_norm(dim),
        )

    @classmethod
    def from_torch(cls, twin: nn.Transformer) -> "Transformer":
        """Return the same model with the weights of torch's module, but always batch first."""
        ours = cls(twin.d_model, 0, 0)
        ours.encoder = TransformerEncoder.from_torch(twin.encoder)
        ours.decoder = TransformerStack.from_torch(twin.decoder)
        return ours.train(twin.training)

    def forward(
        self,
        source: Float[Tensor, "b s d"],
        target: Float[Tensor, "b t d"],
        source_mask: Bool[Tensor, "b s"] | None = None,
    ) -> Float[Tensor, "b t d"]:
        """Return a vector (b, t, d) for each target vector.

        Args:
            source: Vectors (b, s, d).
            target: Vectors (b, t, d); each sees itself, those before it, and the source.
            source_mask: True at real source vectors; all are real if None.
        """
        memory: Memory = self.encoder(source, mask=source_mask)
        return self.decoder(target, memory, masks.causal())
