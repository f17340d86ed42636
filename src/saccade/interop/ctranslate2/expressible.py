"""What CTranslate2 can express of our models, told by the options of a recipe."""

from collections.abc import Iterator

from saccade.attention import Dot, ScaledDot
from saccade.config import kinds
from saccade.decoders.transformer import TransformerDecoderConfig
from saccade.encoders.transformer import TransformerEncoderConfig
from saccade.errors import InteropError
from saccade.layers.block import BlockConfig
from saccade.models import TranslatorConfig
from saccade.models.language_models import LanguageModelConfig
from saccade.models.seq2seq import DecoderConfig
from saccade.models.translator import EncoderConfig
from saccade.positions import Position, PositionConfig, Relative, Rotary
from saccade.positions.base import Absolute


def require_expressible(config: TranslatorConfig | LanguageModelConfig) -> None:
    """Refuse a model that it could not run just as it is, naming the options in the way."""
    found = list(_obstacles(config))
    if found:
        raise InteropError(f"CTranslate2 cannot run this model: {'; '.join(found)}")


def _obstacles(config: TranslatorConfig | LanguageModelConfig) -> Iterator[str]:
    sides: dict[str, EncoderConfig | DecoderConfig] = {}
    if isinstance(config, TranslatorConfig):
        sides["encoder"] = config.encoder
    sides["decoder"] = config.decoder
    blocks = []
    for name, side in sides.items():
        if isinstance(side, TransformerEncoderConfig | TransformerDecoderConfig):
            blocks.append(side)
            yield from _in_block(f"model.{name}", side)
            yield from _in_position(f"model.{name}.position", side.position)
        else:
            yield f'model.{name}.kind is "{side.kind}", and it runs Transformers only'
    reads = isinstance(config, TranslatorConfig)
    if reads and isinstance(config.decoder, TransformerDecoderConfig) and config.decoder.qk_norm:
        yield "model.decoder.qk_norm is true, and it has no such norm where a memory is read"
    if len({block.norm_eps for block in blocks}) > 1:
        yield "model.encoder.norm_eps and model.decoder.norm_eps differ, and it has one for all"


def _in_block(path: str, block: BlockConfig) -> Iterator[str]:
    if block.norm == "batch":
        yield f'{path}.norm is "batch", and it has layer and rms norms'
    if block.score.score not in (Dot, ScaledDot):
        yield f'{path}.score.kind is "{block.score.kind}", and it has scaled_dot and dot'


def _in_position(path: str, position: PositionConfig) -> Iterator[str]:
    if not _is_known(position.encoding):
        names = [kind for kind, other in kinds(PositionConfig).items() if _is_known(other.encoding)]
        yield f'{path}.kind is "{position.kind}", and it has {", ".join(names)}'
    if position.widening:
        yield f'{path}.fuse is "concat", and it can only add positions'


def _is_known(encoding: type[Position]) -> bool:
    """It has tables that are added to the tokens, and two encodings inside attention."""
    return encoding in (Position, Relative, Rotary) or issubclass(encoding, Absolute)
