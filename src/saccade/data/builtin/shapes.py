"""Synthetic scenes of one to four objects, each with a caption and the boxes of its objects.

A caption lists the objects from left to right. Between two objects it gives the position of the
first relative to the second along the longer axis: left of, above or below. Scenes in which one of
these would be ambiguous are left out, so every scene has exactly one right caption.

Images are drawn on request, from the number in their name.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from saccade.data.builtin import _shapes_drawing as drawing
from saccade.data.builtin._shapes_drawing import Box, Colour, Drawn, Ground
from saccade.data.builtin._shared import Sampler, image_name, image_number, split_slice

if TYPE_CHECKING:
    from PIL.Image import Image

DESCRIPTION = "synthetic: scenes of 64×64 pixels with captions and object boxes, 25 000 images"
COLUMNS = ("image", "text")
SIZES = {"train": 24000, "valid": 500, "test": 500}
COUNT = sum(SIZES.values())
COLOURS: dict[str, Colour] = {
    "red": (205, 40, 40),
    "orange": (240, 140, 25),
    "yellow": (240, 225, 50),
    "green": (35, 150, 55),
    "blue": (40, 75, 210),
    "purple": (140, 45, 165),
    "white": (243, 243, 243),
    "black": (16, 16, 16),
}
NUMBERS = (1, 2, 2, 3, 3, 3, 4, 4, 4, 4)  # of objects in a scene, by frequency
PIXEL = drawing.EIGHTHS
END = drawing.SIDE * PIXEL
# ranges of the distance from the centre of an object to its edge
REACHES = {"small": (5 * PIXEL, 6 * PIXEL), "large": (17 * PIXEL // 2, 10 * PIXEL)}
APART = 2 * PIXEL  # least distance between objects, and to the border
CLEARLY = 3 * PIXEL  # least difference of two lengths that decide a caption
TRIES = 12  # positions tried for an object before all are placed again
TINT = 10  # levels by which an object may differ from its named colour
GROUND = (105, 150)  # levels
SHADE = 40  # levels from one end of the background to the other
Place = tuple[int, int]  # x, y


class Thing(NamedTuple):
    """An object: its words in a caption, and its drawing."""

    size: str
    colour: str
    drawn: Drawn

    @property
    def words(self) -> list[str]:
        """The words of the object in a caption, the noun last."""
        return ["a", self.size, self.colour, self.drawn.shape]


class Scene(NamedTuple):
    """Objects in the order of the caption, and the background."""

    things: tuple[Thing, ...]
    ground: Ground


def rows(split: str) -> Iterator[tuple[str, ...]]:
    """Yield the image's name and its caption."""
    for number in range(COUNT)[split_slice(SIZES, split)]:
        yield image_name("shapes", number), _caption(number)


def image(name: str) -> "Image":
    """Return the scene of a name such as `builtin:shapes/123`."""
    number = _number(name)
    return drawn(_scene(number), number)


def drawn(scene: Scene, seed: int) -> "Image":
    """Return the image of a scene, with noise of this seed."""
    from PIL import Image

    objects = [thing.drawn for thing in scene.things]
    return Image.fromarray(drawing.draw(scene.ground, objects, seed))


def boxes(name: str) -> list[tuple[int, Box]]:
    """Return for every noun of the caption its index among the words, and the box of its object.

    Words are separated by spaces and counted from 0; a box is (left, top, right, bottom) in
    pixels, right and bottom excluded.
    """
    index, boxes_by_word = -1, []
    for words, thing in _words(_scene(_number(name)).things):
        index += len(words)
        boxes_by_word.append((index, drawing.box(thing.drawn)))
    return boxes_by_word


def _number(name: str) -> int:
    return image_number(name, "shapes", COUNT)


@lru_cache(maxsize=COUNT)
def _caption(number: int) -> str:
    return " ".join(word for words, _ in _words(_scene(number).things) for word in words)


def _words(things: Sequence[Thing]) -> Iterator[tuple[list[str], Thing]]:
    """Yield the words of a caption per object; a relation belongs to its second object."""
    yield things[0].words, things[0]
    for before, thing in pairwise(things):
        yield [*_relation(before.drawn, thing.drawn).split(), *thing.words], thing


def _relation(one: Drawn, other: Drawn) -> str:
    """Return the position of one relative to the other, which lies further right; y points down."""
    down = one.y - other.y
    if other.x - one.x > abs(down):
        return "left of"
    return "below" if down > 0 else "above"


def _scene(number: int) -> Scene:
    """Return the scene of a number."""
    sampler = Sampler(number)
    things: list[Thing] = []
    count = sampler.one_of(NUMBERS)
    while len(things) < count:
        thing = any_thing(sampler)
        if all(thing.words[-2:] != other.words[-2:] for other in things):
            things.append(thing)
    return arranged(sampler, things)


def arranged(sampler: Sampler, things: Sequence[Thing]) -> Scene:
    """Return a scene of these objects, placed so that a caption is not ambiguous."""
    reaches = [thing.drawn.reach for thing in things]
    places, order = list[Place](), list[int]()
    while not order:
        places = _places(sampler, reaches)
        order = _order(places)
    placed = [
        thing._replace(drawn=thing.drawn._replace(x=x, y=y))
        for thing, (x, y) in zip(things, places, strict=True)
    ]
    return Scene(tuple([placed[i] for i in order]), _ground(sampler))


def any_thing(sampler: Sampler, colour: str = "", shape: str = "") -> Thing:
    """Return an object that is not placed yet, of any colour and shape that is not named."""
    size, colour = sampler.one_of(tuple(REACHES)), colour or sampler.one_of(tuple(COLOURS))
    shape, reach = shape or sampler.one_of(tuple(drawing.INSIDE)), sampler.between(*REACHES[size])
    red, green, blue = (level + sampler.between(-TINT, TINT) for level in COLOURS[colour])
    return Thing(size, colour, Drawn(shape, (red, green, blue), 0, 0, reach))


def _places(sampler: Sampler, reaches: Sequence[int]) -> list[Place]:
    """Return a position per object, or nothing if one finds no room beside the others."""
    places = list[Place]()
    for reach in reaches:
        least = reach + APART
        for _ in range(TRIES):
            x, y = sampler.between(least, END - least), sampler.between(least, END - least)
            if all(
                abs(x - its_x) >= least + other or abs(y - its_y) >= least + other
                for other, (its_x, its_y) in zip(reaches, places, strict=False)
            ):
                places.append((x, y))
                break
        else:
            return []
    return places


def _order(places: Sequence[Place]) -> list[int]:
    """Return the order in which a caption lists the positions, or nothing if it is ambiguous."""
    order = sorted(range(len(places)), key=lambda i: places[i])
    for (x, y), (next_x, next_y) in pairwise(places[i] for i in order):
        across, down = next_x - x, abs(next_y - y)
        if across < CLEARLY or abs(across - down) < CLEARLY:
            return []
    return order


def _ground(sampler: Sampler) -> Ground:
    """Return a plain or shaded background of a dull colour."""
    level = sampler.between(*GROUND)
    red, green, blue = (level + sampler.between(-TINT, TINT) for _ in range(3))
    shade = sampler.one_of((0, SHADE))
    right, down = (sampler.between(-shade, shade) for _ in range(2))
    return Ground((red, green, blue), right, down)
