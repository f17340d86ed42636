"""Synthetic scenes: captions match images, boxes enclose objects, nothing ever changes."""

import hashlib
import math
import re
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image

from saccade.data import builtin
from saccade.data.builtin import _shapes_drawing as drawing
from saccade.data.builtin import shapes
from saccade.data.builtin._shapes_drawing import Drawn, Ground
from saccade.errors import DataError

ROWS = list(shapes.rows("test"))
SOME = ROWS[::6]
OBJECT = rf"a (small|large) ({'|'.join(shapes.COLOURS)}) ({'|'.join(drawing.INSIDE)})"
RELATION = "left of|above|below"


def test_captions_follow_the_grammar():
    lengths = {}
    for _, caption in ROWS:
        assert re.fullmatch(rf"{OBJECT}(?: (?:{RELATION}) {OBJECT}){{0,3}}", caption), caption
        objects = len(re.findall(OBJECT, caption))
        lengths.setdefault(objects, []).append(len(caption.split()))
        named = [(colour, shape) for _, colour, shape in re.findall(OBJECT, caption)]
        assert len(set(named)) == len(named)  # no two objects alike
    means = {objects: sum(of) / len(of) for objects, of in lengths.items()}
    assert means[1] == 4
    assert 9 <= means[2] <= 10 < 14 <= means[3] <= 16 < 19 <= means[4] <= 22
    assert len(lengths[4]) > 150


def test_words_of_one_kind_are_about_equally_frequent():
    counts = Counter(word for _, caption in ROWS for word in caption.split())
    relations = ("left", "above", "below")
    for like in (shapes.COLOURS, drawing.INSIDE, relations, shapes.REACHES):
        most, least = (pick(counts[word] for word in like) for pick in (max, min))
        assert most < 2 * least
    words = {*relations, *shapes.REACHES, *shapes.COLOURS, *drawing.INSIDE}
    assert set(counts) == {"a", "of", *words}


def test_boxes_belong_to_the_nouns():
    for name, caption in SOME:
        words, boxes = caption.split(), shapes.boxes(name)
        assert [words[place] for place, _ in boxes] == [w for w in words if w in drawing.INSIDE]
        for place, (left, top, right, bottom) in boxes:
            assert 0 <= left < right <= 64
            assert 0 <= top < bottom <= 64
            longer = max(right - left, bottom - top)
            assert (longer < 14) == (words[place - 2] == "small"), (name, caption)
        for (_, one), (_, other) in pairwise(boxes):
            apart = (one[2] <= other[0], other[2] <= one[0], one[3] <= other[1], other[3] <= one[1])
            assert any(apart)


def test_each_box_encloses_the_colour_of_its_object():
    """Pixels of about the named colour lie inside its boxes and reach their edges."""
    for name, caption in SOME:
        pixels = np.asarray(shapes.image(name)).astype(int)
        words = caption.split()
        boxes = [(words[place - 1], box) for place, box in shapes.boxes(name)]
        for colour in {colour for colour, _ in boxes}:
            near = abs(pixels - shapes.COLOURS[colour]).max(2) <= shapes.TINT + drawing.NOISE
            for left, top, right, bottom in (box for other, box in boxes if other == colour):
                rows, columns = near[top:bottom, left:right].nonzero()
                assert len(rows) > 12
                # the tips of a star are thinner than a pixel
                assert max(rows.min(), columns.min()) <= 3
                assert max(bottom - top - rows.max(), right - left - columns.max()) <= 4
                near[top:bottom, left:right] = False
            assert not near.any(), (name, caption)


def middle(box):
    left, top, right, bottom = box
    return (left + right) / 2, (top + bottom) / 2


def test_the_caption_follows_from_the_boxes():
    """Objects are listed from left to right, without ambiguity."""
    for name, caption in SOME:
        middles = [middle(box) for _, box in shapes.boxes(name)]
        relations = re.findall(RELATION, caption)
        for (here, there), relation in zip(pairwise(middles), relations, strict=True):
            across, down = there[0] - here[0], there[1] - here[1]
            assert across > 1
            below = "above" if down > 0 else "below"
            assert relation == ("left of" if across > abs(down) else below)


def test_captions_of_two_objects_by_hand():
    circle, star = Drawn("circle", (0, 0, 0), 80, 100, 40), Drawn("star", (0, 0, 0), 300, 200, 72)
    things = [shapes.Thing("small", "red", circle), shapes.Thing("large", "blue", star)]
    caption = " ".join(word for words, _ in shapes._words(things) for word in words)
    assert caption == "a small red circle left of a large blue star"
    assert shapes._relation(circle, circle._replace(x=90, y=200)) == "above"
    assert shapes._relation(circle, circle._replace(x=90, y=20)) == "below"


def test_the_order_of_objects_by_hand():
    """Positions are in eighths of a pixel; differences below 3 pixels are ambiguous."""
    assert shapes._order([(256, 100), (300, 230), (100, 80)]) == [2, 0, 1]
    assert shapes._order([(256, 100), (256, 412)]) == []  # neither is further to the right
    assert shapes._order([(256, 100), (279, 412)]) == []
    assert shapes._order([(256, 100), (280, 412)]) == [0, 1]
    assert shapes._order([(256, 256), (200, 210)]) == []  # as far up as to the left
    assert shapes._order([(256, 256), (200, 224)]) == [1, 0]
    assert shapes._order([]) == []


def lens_area(reach, other, apart):
    """Return the area of the intersection of two circles."""
    one = math.acos((apart**2 + reach**2 - other**2) / (2 * apart * reach))
    two = math.acos((apart**2 + other**2 - reach**2) / (2 * apart * other))
    return reach**2 * (one - math.sin(2 * one) / 2) + other**2 * (
        two - math.sin(2 * two) / 2
    )  # two segments


AREAS = {
    "circle": math.pi,
    "ring": math.pi * (1 - 0.36),
    "moon": math.pi - lens_area(1, 0.85, 0.55),
    "square": 1.7**2,
    "diamond": 2,
    "triangle": 1.8 * (2 * 0.54 * 1.8) / 2,
    "cross": 2 * 2 * 0.56 - 0.56**2,
    "star": 10 * math.tan(math.pi / 10) / (3 - math.tan(math.pi / 10) ** 2),
}


@pytest.mark.parametrize("shape", drawing.INSIDE)
@pytest.mark.parametrize(("x", "y"), [(256, 256), (203, 311)])
def test_shapes_have_their_area_and_box(shape, x, y):
    reach = 160  # 20 pixels
    drawn = Drawn(shape, (0, 0, 0), x, y, reach)
    covered = drawing.coverage(drawn)
    assert covered.sum() / 16 == pytest.approx(AREAS[shape] * (reach / 8) ** 2, rel=0.02)
    left, top, right, bottom = drawing.box(drawn)
    assert (covered > 0)[top:bottom, left:right].any(0).all()
    assert (covered > 0)[top:bottom, left:right].any(1).all()
    assert covered[top:bottom, left:right].sum() == covered.sum()
    # its centre is about that of its box
    assert (left + right) / 2 == pytest.approx(x / 8, abs=0.05 * reach / 8 + 0.5)
    assert (top + bottom) / 2 == pytest.approx(y / 8, abs=0.1 * reach / 8 + 0.5)


@pytest.mark.parametrize("shape", drawing.INSIDE)
def test_coverage_equals_a_check_of_every_point(shape):
    drawn = Drawn(shape, (0, 0, 0), 77, 430, 45)
    places = [2 * i + 1 for i in range(256)]
    slow = np.zeros((64, 64), dtype=int)
    for i, y in enumerate(places):
        inside = drawing.INSIDE[shape](np.array([places]) - 77, np.array([[y - 430]]), 45)
        slow[i // 4] += inside.reshape(64, 4).sum(1)
    assert (drawing.coverage(drawn) == slow).all()


def test_drawing_of_a_square_by_hand():
    """A black square from 67 to 101 eighths across, on grey that gets lighter to the right."""
    square = Drawn("square", (0, 0, 0), 84, 160, 20)
    pixels = drawing.draw(Ground((128, 128, 128), 64, 0), [square], seed=1).astype(int)
    ground = 128 + 64 * (np.arange(64) * 2 - 63) // 128
    assert 0 < abs(pixels[0] - ground[:, None]).max() <= drawing.NOISE
    assert pixels[19:21, 9:12].max() <= drawing.NOISE
    assert ground[8] == 104
    assert abs(pixels[19:21, 8] - 104 / 4).max() <= drawing.NOISE  # 1 point of 4 is uncovered
    again = drawing.draw(Ground((128, 128, 128), 64, 0), [square], seed=2)
    assert (again != pixels).any()


def test_images_are_drawn_identically_every_time():
    name = "builtin:shapes/24100"
    one, again = shapes.image(name), builtin.image(name)
    assert isinstance(one, Image.Image)
    assert (one.mode, one.size) == ("RGB", (64, 64))
    assert one.tobytes() == again.tobytes()
    few = {shapes.image(name).tobytes() for name, _ in SOME}
    assert len(few) == len(SOME)


def test_images_and_boxes_never_change():
    """Scores are comparable between versions and machines only if images are the same."""
    digest = hashlib.sha256()
    for number in (0, 1, 2, 3, 4999, 23999, 24000, 24999):
        name = f"builtin:shapes/{number}"
        digest.update(shapes.image(name).tobytes() + repr(shapes.boxes(name)).encode())
    assert digest.hexdigest()[:16] == "3de5b427aa5f7d91"


@pytest.mark.parametrize(
    "name",
    [
        "builtin:shapes/25000",
        "builtin:shapes/-1",
        "builtin:shapes/007",
        "builtin:shapes/1.png",
        "builtin:shapes/",
        "builtin:shapes/٣",
        "builtin:shapes/99999999999999999999",
        "shapes/1",
    ],
)
def test_raises_on_invalid_image_names(name):
    for ask in (shapes.image, shapes.boxes):
        with pytest.raises(DataError, match=r"builtin:shapes/0 to builtin:shapes/24999"):
            ask(name)
