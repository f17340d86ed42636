"""Made: drawn scenes of one to four objects, a caption of each, and where its objects are.

A caption goes through the scene from left to right. Between two objects it says where the former is
from the latter, along the longer way: left of, above or below. Scenes in which any of that would be
close are not made, so every scene has one right caption.

Images are made when they are asked for, from the number in their name.
"""

import random
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from saccade.data.builtin import _shapes_drawing as drawing
from saccade.data.builtin import image_name, image_number
from saccade.data.builtin._shapes_drawing import Box, Colour, Drawn, Ground

if TYPE_CHECKING:
    from PIL.Image import Image

DESCRIPTION = "made: drawn scenes of 64×64 pixels and their captions, with boxes, 25 000 images"
COLUMNS = ("image", "text")
SIZES = {"train": 24000, "valid": 500, "test": 500}
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
NUMBERS = (1, 2, 2, 3, 3, 3, 4, 4, 4, 4)  # of objects, as often as they stand here
PIXEL = drawing.EIGHTHS
END = drawing.SIDE * PIXEL
# from the middle of an object to its end
REACHES = {"small": (5 * PIXEL, 6 * PIXEL), "large": (17 * PIXEL // 2, 10 * PIXEL)}
APART = 2 * PIXEL  # the least room between objects, and around them
CLEARLY = 3 * PIXEL  # the least difference of two lengths that a caption depends on
TRIES = 12  # of places for an object, before all are placed anew
TINT = 10  # levels by which a colour may differ from its own
GROUND = (105, 150)  # levels
SHADE = 40  # levels from one end of the ground to the other
Place = tuple[int, int]  # x, y
Choice = TypeVar("Choice")


class Thing(NamedTuple):
    """An object, in the words of a caption and as it is drawn."""

    size: str
    colour: str
    drawn: Drawn

    @property
    def words(self) -> list[str]:
        """What a caption calls it; the noun stands last."""
        return ["a", self.size, self.colour, self.drawn.shape]


class Scene(NamedTuple):
    """Objects in the order of the caption, on their ground."""

    things: tuple[Thing, ...]
    ground: Ground


def rows(split: str) -> Iterator[tuple[str, ...]]:
    """24 000 scenes to train on, 500 and 500 others."""
    starts = {"train": 0, "valid": SIZES["train"], "test": SIZES["train"] + SIZES["valid"]}
    for number in range(starts[split], starts[split] + SIZES[split]):
        yield image_name("shapes", number), _caption(number)


def image(name: str) -> "Image":
    """The scene of a name such as `builtin:shapes/123`."""
    from PIL import Image

    number = _number(name)
    scene = _scene(number)
    drawn = [thing.drawn for thing in scene.things]
    return Image.fromarray(drawing.draw(scene.ground, drawn, number))


def boxes(name: str) -> list[tuple[int, Box]]:
    """For every noun of the caption its place among the words, and where the object is.

    Words are what white space parts, counted from 0; a box is (left, top, right, bottom) in pixels,
    right and bottom no longer in it.
    """
    found, place = [], -1
    for words, thing in _spoken(_scene(_number(name)).things):
        place += len(words)
        found.append((place, drawing.box(thing.drawn)))
    return found


def _number(name: str) -> int:
    return image_number(name, "shapes", sum(SIZES.values()))


@lru_cache(maxsize=sum(SIZES.values()))
def _caption(number: int) -> str:
    return " ".join(word for words, _ in _spoken(_scene(number).things) for word in words)


def _spoken(things: Sequence[Thing]) -> Iterator[tuple[list[str], Thing]]:
    """The words of a caption, object by object; a relation comes before its second object."""
    yield things[0].words, things[0]
    for before, thing in pairwise(things):
        yield [*_relation(before.drawn, thing.drawn).split(), *thing.words], thing


def _relation(one: Drawn, other: Drawn) -> str:
    """Where one is from the other, which lies further to the right; y grows downwards."""
    down = one.y - other.y
    if other.x - one.x > abs(down):
        return "left of"
    return "below" if down > 0 else "above"


def _scene(number: int) -> Scene:
    """The scene of a number; only `random()` is used, which Python keeps the same."""
    chance = random.Random(number)
    things: list[Thing] = []
    count = _one_of(chance, NUMBERS)
    while len(things) < count:
        thing = _thing(chance)
        if all(thing.words[-2:] != other.words[-2:] for other in things):
            things.append(thing)
    reaches = [thing.drawn.reach for thing in things]
    places, order = list[Place](), list[int]()
    while not order:
        places = _places(chance, reaches)
        order = _order(places)
    placed = [
        thing._replace(drawn=thing.drawn._replace(x=x, y=y))
        for thing, (x, y) in zip(things, places, strict=True)
    ]
    return Scene(tuple([placed[i] for i in order]), _ground(chance))


def _thing(chance: random.Random) -> Thing:
    """An object that has no place yet."""
    size, colour = _one_of(chance, tuple(REACHES)), _one_of(chance, tuple(COLOURS))
    shape, reach = _one_of(chance, tuple(drawing.INSIDE)), _between(chance, *REACHES[size])
    red, green, blue = (level + _between(chance, -TINT, TINT) for level in COLOURS[colour])
    return Thing(size, colour, Drawn(shape, (red, green, blue), 0, 0, reach))


def _places(chance: random.Random, reaches: Sequence[int]) -> list[Place]:
    """Somewhere for each object, nowhere if one of them found no room after the others."""
    places = list[Place]()
    for reach in reaches:
        least = reach + APART
        for _ in range(TRIES):
            x, y = _between(chance, least, END - least), _between(chance, least, END - least)
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
    """In which order the caption goes through the places, none if that is not clear."""
    order = sorted(range(len(places)), key=lambda i: places[i])
    for (x, y), (next_x, next_y) in pairwise(places[i] for i in order):
        across, down = next_x - x, abs(next_y - y)
        if across < CLEARLY or abs(across - down) < CLEARLY:
            return []
    return order


def _ground(chance: random.Random) -> Ground:
    """Plain or shaded, of a dull colour."""
    level = _between(chance, *GROUND)
    red, green, blue = (level + _between(chance, -TINT, TINT) for _ in range(3))
    shade = _one_of(chance, (0, SHADE))
    right, down = (_between(chance, -shade, shade) for _ in range(2))
    return Ground((red, green, blue), right, down)


def _one_of(chance: random.Random, several: Sequence[Choice]) -> Choice:
    return several[int(chance.random() * len(several))]


def _between(chance: random.Random, low: int, high: int) -> int:
    """Both ends included."""
    return low + int(chance.random() * (high - low + 1))
