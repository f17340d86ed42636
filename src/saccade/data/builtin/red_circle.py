"""Synthetic scenes with or without a red circle, with the box of the circle.

The scenes are those of `builtin:shapes`, with one to four objects. The label is "yes" if one of
them is a red circle, which half of the scenes have. Most other objects are circles of another
colour or other shapes in red, so neither colour nor shape alone gives the label.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from saccade.data.builtin import _shapes_drawing as drawing
from saccade.data.builtin import shapes
from saccade.data.builtin._shapes_drawing import Box
from saccade.data.builtin._shared import Sampler, image_name, image_number, split_slice

if TYPE_CHECKING:
    from PIL.Image import Image

DESCRIPTION = "synthetic: does a scene of 64×64 pixels contain a red circle? 13 000 images"
COLUMNS = ("image", "label")
SIZES = {"train": 12000, "valid": 500, "test": 500}
COUNT = sum(SIZES.values())
WANTED = ("red", "circle")
SIMILAR = 0.7  # probability that an object has the colour or the shape of a red circle
FIRST = 1_000_000  # seed of the first scene; `builtin:shapes` uses smaller ones


def rows(split: str) -> Iterator[tuple[str, ...]]:
    """Yield the image's name, and "yes" or "no"."""
    for number in range(COUNT)[split_slice(SIZES, split)]:
        yield image_name("red_circle", number), "yes" if _has_circle(_sampler(number)) else "no"


def image(name: str) -> "Image":
    """Return the scene of a name such as `builtin:red_circle/123`."""
    number = _number(name)
    return shapes.drawn(_scene(number), FIRST + number)


def boxes(name: str) -> list[tuple[int, Box]]:
    """Return the box of the red circle, as that of the first word of the label; none for "no"."""
    things = _scene(_number(name)).things
    return [(0, drawing.box(thing.drawn)) for thing in things if _is_wanted(thing)]


def _number(name: str) -> int:
    return image_number(name, "red_circle", COUNT)


def _sampler(number: int) -> Sampler:
    return Sampler(FIRST + number)


def _has_circle(sampler: Sampler) -> bool:
    return sampler.happens(0.5)


def _is_wanted(thing: shapes.Thing) -> bool:
    return (thing.colour, thing.drawn.shape) == WANTED


def _scene(number: int) -> shapes.Scene:
    """Return the scene of a number; the first random choice is its label."""
    sampler = _sampler(number)
    things = [shapes.any_thing(sampler, *WANTED)] if _has_circle(sampler) else []
    count = sampler.one_of(shapes.NUMBERS)
    while len(things) < count:
        thing = _other(sampler)
        if not _is_wanted(thing) and all(thing.words[-2:] != x.words[-2:] for x in things):
            things.append(thing)
    return shapes.arranged(sampler, things)


def _other(sampler: Sampler) -> shapes.Thing:
    """Return an object that often has the colour or the shape of a red circle."""
    colour, shape = WANTED
    if not sampler.happens(SIMILAR):
        return shapes.any_thing(sampler)
    if sampler.happens(0.5):
        return shapes.any_thing(sampler, colour=colour)
    return shapes.any_thing(sampler, shape=shape)
