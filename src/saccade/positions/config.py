"""The options of positional encodings, and checks of where each encoding works.

Recipes can name every encoding whose options are in `PositionConfig`.
"""

from collections.abc import Callable, Iterator

from saccade.config import Conflict, kinds, without_effect
from saccade.errors import PositionError, RecipeError, ShapeError
from saccade.positions.base import NoPositionConfig, Position
from saccade.positions.buckets import BucketsConfig
from saccade.positions.complex import ComplexConfig
from saccade.positions.conditional import ConditionalConfig
from saccade.positions.learned import LearnedConfig
from saccade.positions.relative import RelativeConfig
from saccade.positions.relative2d import Relative2dConfig
from saccade.positions.rotary import RotaryConfig
from saccade.positions.sinusoidal import SinusoidalConfig

PositionConfig = (
    NoPositionConfig
    | SinusoidalConfig
    | LearnedConfig
    | RelativeConfig
    | BucketsConfig
    | Relative2dConfig
    | RotaryConfig
    | ComplexConfig
    | ConditionalConfig
)


def sized(position: PositionConfig, cells: tuple[int, int]) -> PositionConfig:
    """Return the positions for an image with these cells (rows, columns).

    Raises:
        RecipeError: If the encoding works on text only.
    """
    if not position.encoding.on_grids:
        raise RecipeError(
            f'position.kind = "{position.kind}" works on text only; for images use '
            f"{_kinds(lambda encoding: encoding.on_grids)}"
        )
    return position.with_cells(cells)


def require_grid_width(position: PositionConfig, dim: int, head_dim: int) -> None:
    """Raise `ShapeError` unless waves for rows and for columns fit into these widths."""
    width = position.wave_dim(dim, head_dim)
    if width is not None and width % 4:
        raise ShapeError(
            f'position.kind = "{position.kind}" on an image needs a width divisible by 4, half for '
            f"the rows and half for the columns, got {width}; change dim or num_heads"
        )


def require_writable(position: PositionConfig, key: str) -> None:
    """Raise `PositionError` unless a decoder can use the positions at `key`."""
    if not position.encoding.can_write():
        raise PositionError(
            f'{key}.kind = "{position.kind}" cannot generate text: it looks ahead or needs an '
            f"image; use {_kinds(lambda encoding: encoding.can_write())}"
        )


def require_added(position: PositionConfig) -> None:
    """Raise `RecipeError` unless cells that do not attend to each other can use the positions."""
    if position.encoding.acts_inside:
        allowed = _kinds(lambda encoding: encoding.on_grids and not encoding.acts_inside)
        raise RecipeError(
            f'position.kind = "{position.kind}" does not work on the cells of a grid, which do '
            f"not attend to each other; use {allowed}"
        )
    if position.widening:
        raise RecipeError(
            'position.fuse = "concat" does not work on the cells of a grid, which have the width '
            'of the network; use position.fuse = "add"'
        )


def text_conflicts(position: PositionConfig, key: str) -> Iterator[Conflict]:
    """Yield the conflicts of positions at `key` of a model of text."""
    if not position.encoding.on_text:
        allowed = _kinds(lambda encoding: encoding.on_text)
        yield Conflict(f"{key}.kind", f"works on images only; for text use {allowed}")
    for name in position.grid_only:
        if getattr(position, name) is not None:
            yield Conflict(f"{key}.{name}", "works on images only; leave it out")


def grid_conflicts(position: PositionConfig, key: str) -> Iterator[Conflict]:
    """Yield the conflicts of positions at `key` of an encoder of images."""
    reason = "on images, which have position.grid"
    for conflict in without_effect(position, position.text_only, reason):
        yield conflict._replace(key=f"{key}.{conflict.key}")


def recurrent_conflicts(position: PositionConfig, key: str) -> Iterator[Conflict]:
    """Yield the conflicts of positions at `key` of an encoder without attention."""
    if position.encoding.acts_inside:
        allowed = _kinds(lambda encoding: encoding.on_text and not encoding.acts_inside)
        reason = "acts inside attention, and a recurrent encoder has none; use "
        yield Conflict(f"{key}.kind", reason + allowed)


def _kinds(holds: Callable[[type[Position]], bool]) -> str:
    """Return the kinds whose encoding fulfils a condition, in words."""
    names = [kind for kind, options in kinds(PositionConfig).items() if holds(options.encoding)]
    return f"{', '.join(names[:-1])} or {names[-1]}"
