"""Tasks that CTranslate2 can run, told by their descriptions and the options of their models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from saccade.attention import Dot, ScaledDot
from saccade.config import kinds
from saccade.decoders.transformer import TransformerDecoderConfig
from saccade.decoding import TextEngine
from saccade.encoders.transformer import TransformerEncoderConfig
from saccade.errors import InteropError
from saccade.interfaces import HasEngine
from saccade.interop.advice import Obstacle, advice, changes_of
from saccade.interop.ctranslate2.running import FolderEngine, open_folder
from saccade.interop.ctranslate2.sides import Sides
from saccade.interop.ctranslate2.specs import ACTIVATIONS
from saccade.models import TranslatorConfig
from saccade.models.language_models import LanguageModelConfig
from saccade.positions import Buckets, Position, PositionConfig, Relative, Rotary
from saccade.positions.base import Absolute
from saccade.tasks import GeneratedText, Task, TextInput


@dataclass(frozen=True, kw_only=True)
class Runnable(Sides):
    """A task that CTranslate2 can run.

    Attributes:
        task: The task.
        host: The same task, as the owner of an engine.
        model: The options of its model.
    """

    task: Task
    host: HasEngine
    model: TranslatorConfig | LanguageModelConfig

    @property
    def engine(self) -> TextEngine:
        """The engine that the task answers with now."""
        return self.host.engine


def require_runnable(task: Task) -> Runnable:
    """Return the task as CTranslate2 runs it.

    Raises:
        InteropError: CTranslate2 cannot run the task exactly as it is; the message names the
            options in the way.
    """
    about = task.describe()
    match about.reads, about.writes, about.model, task:
        case (
            TextInput() as reads,
            GeneratedText() as writes,
            TranslatorConfig() | LanguageModelConfig() as model,
            HasEngine() as host,
        ):
            if obstacles := list(_obstacles(model)):
                reasons = "; ".join(obstacle.reason for obstacle in obstacles)
                tip = advice("ctranslate2", task.name, changes_of(obstacles))
                raise InteropError(f"CTranslate2 cannot run this model: {reasons}{tip}")
            return Runnable(task=task, host=host, reads=reads, writes=writes, model=model)
    raise InteropError(
        f"CTranslate2 runs translators and language models, not {task.name}; use another format, "
        "such as onnx"
    )


def open_engine(task: Task, folder: Path, quantization: str) -> FolderEngine:
    """Return the engine of a folder that was written from this task.

    Raises:
        InteropError: CTranslate2 cannot read the folder.
    """
    return open_folder(require_runnable(task), folder, quantization)


def _obstacles(model: TranslatorConfig | LanguageModelConfig) -> Iterator[Obstacle]:
    match model:
        case TranslatorConfig(
            encoder=TransformerEncoderConfig() as encoder,
            decoder=TransformerDecoderConfig() as decoder,
        ):
            yield from _in_block("model.encoder", encoder)
            yield from _in_block("model.decoder", decoder)
            if decoder.qk_norm:
                yield Obstacle(
                    "model.decoder.qk_norm is true, and it has no such norm in cross-attention",
                    "model.decoder.qk_norm=false",
                )
            if encoder.norm_eps != decoder.norm_eps:
                yield Obstacle(
                    "model.encoder.norm_eps and model.decoder.norm_eps differ, and it has one for "
                    "both",
                    f"model.decoder.norm_eps={encoder.norm_eps}",
                )
        case TranslatorConfig():
            sides = (("encoder", model.encoder.kind), ("decoder", model.decoder.kind))
            for name, kind in sides:
                if kind != "transformer":
                    yield Obstacle(f'model.{name}.kind is "{kind}", and it runs Transformers only')
        case LanguageModelConfig():
            yield from _in_block("model.decoder", model.decoder)


def _in_block(
    path: str, block: TransformerEncoderConfig | TransformerDecoderConfig
) -> Iterator[Obstacle]:
    if block.norm == "batch":
        yield Obstacle(
            f'{path}.norm is "batch", and it has layer and rms norms', f"{path}.norm=layer"
        )
    if block.activation not in ACTIVATIONS:
        yield Obstacle(
            f'{path}.activation is "{block.activation}", and it has {", ".join(ACTIVATIONS)}',
            f"{path}.activation=relu",
        )
    if block.score.score not in (Dot, ScaledDot):
        yield Obstacle(
            f'{path}.score.kind is "{block.score.kind}", and it has scaled_dot and dot',
            f"{path}.score.kind=scaled_dot",
        )
    position = block.position
    if not _is_known(position.encoding):
        names = [kind for kind, other in kinds(PositionConfig).items() if _is_known(other.encoding)]
        yield Obstacle(
            f'{path}.position.kind is "{position.kind}", and it has {", ".join(names)}',
            f"{path}.position.kind={names[0]}",
        )
    if position.widening:
        yield Obstacle(
            f'{path}.position.fuse is "concat", and it can only add positions',
            f"{path}.position.fuse=add",
        )


def _is_known(encoding: type[Position]) -> bool:
    """Return whether it has the encoding: tables that are added, and three inside attention."""
    return encoding in (Position, Relative, Buckets, Rotary) or issubclass(encoding, Absolute)
