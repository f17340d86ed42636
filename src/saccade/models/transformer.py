"""Transformer: the whole encoder-decoder over vectors, as torch.nn has it."""

from torch import nn

from saccade.attention import masks
from saccade.decoders.transformer import TransformerDecoderLayer, TransformerStack
from saccade.encoders.stems import VectorStem
from saccade.encoders.transformer import TransformerEncoder, TransformerEncoderLayer
from saccade.interfaces import Memory
from saccade.layers.block import BlockConfig
from saccade.shapes import Bool, Float, Tensor


class Transformer(nn.Module):
    """Vectors in, vectors out: (b, s, d) and (b, t, d) -> (b, t, d), causal in the target.

    The defaults of Vaswani et al. (2017) as torch.nn.Transformer has them, last norms included.
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
        """The same model with the weights of torch's (ours is always batch first)."""
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
        """The target's vectors, each having read those before it, and the source."""
        memory: Memory = self.encoder(source, mask=source_mask)
        return self.decoder(target, memory, masks.causal())
