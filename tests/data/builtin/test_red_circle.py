"""Scenes with or without a red circle: labels, boxes and drawings."""

from itertools import islice

import numpy as np
import pytest

from saccade.data import builtin
from saccade.data.builtin import red_circle, shapes
from saccade.errors import DataError

ROWS = list(red_circle.rows("test"))
SCENES = {name: red_circle._scene(red_circle._number(name)) for name, _ in ROWS}


def kinds(name):
    return [(thing.colour, thing.drawn.shape) for thing in SCENES[name].things]


def test_the_label_says_whether_there_is_a_red_circle():
    for name, label in ROWS:
        assert (label == "yes") == (("red", "circle") in kinds(name)), name
        assert len(kinds(name)) == len(set(kinds(name)))
    assert 0.45 < np.mean([label == "yes" for _, label in ROWS]) < 0.55


def test_neither_colour_nor_shape_alone_gives_the_label():
    without = [name for name, label in ROWS if label == "no"]
    red = np.mean([any(colour == "red" for colour, _ in kinds(name)) for name in without])
    circles = np.mean([any(shape == "circle" for _, shape in kinds(name)) for name in without])
    assert red > 0.5
    assert circles > 0.5
    assert {len(kinds(name)) for name, _ in ROWS} == {1, 2, 3, 4}


def test_the_box_holds_the_circle():
    for name, label in islice(ROWS, 60):
        boxes = builtin.boxes(name)
        assert len(boxes) == (label == "yes")
        for word, (left, top, right, bottom) in boxes:
            assert word == 0
            assert 0 <= left < right <= 64
            assert 0 <= top < bottom <= 64
            pixels = np.asarray(builtin.image(name)).astype(int)
            middle = pixels[(top + bottom) // 2, (left + right) // 2]
            assert abs(middle - shapes.COLOURS["red"]).max() <= shapes.TINT + 6


def test_splits_do_not_share_scenes():
    names = [name for split in red_circle.SIZES for name, _ in red_circle.rows(split)]
    assert len(names) == len(set(names)) == 13000


def test_raises_on_images_that_do_not_exist():
    with pytest.raises(DataError, match="does not exist"):
        builtin.image("builtin:red_circle/13000")
