"""The pointing game by hand, at the edges, and on scenes with known boxes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from saccade.data.builtin import _shapes_drawing as drawing
from saccade.data.builtin import shapes
from saccade.errors import MetricError, ShapeError
from saccade.lens.faithfulness.pointing import cells_in, pointing_game
from saccade.metrics import pointing

# 2 × 3 cells over 20 × 30 pixels: centres at x = 5, 15, 25 and y = 5, 15
GRID, SIZE = (2, 3), (20, 30)


@pytest.mark.parametrize(
    ("box", "cells"),
    [
        ((0, 0, 30, 20), [0, 1, 2, 3, 4, 5]),
        ((0, 0, 10, 10), [0]),
        ((20, 10, 30, 20), [5]),
        ((0, 10, 16, 20), [3, 4]),
        ((5, 5, 15, 15), [0]),  # the left and top edges belong to the box, the others do not
        ((4.5, 0, 25.5, 5.5), [0, 1, 2]),
        ((6, 6, 14, 14), []),
    ],
)
def test_cells_whose_centre_lies_in_a_box(box, cells):
    assert np.flatnonzero(cells_in(box, GRID, SIZE)).tolist() == cells


def test_pointing_game_by_hand():
    """Word 1 attends to cell 1 (hit), word 3 to cell 0 (miss); the other caption to cell 5."""
    first, second = np.zeros((4, 6)), np.zeros((2, 6))
    first[1, [1, 4]] = 0.6, 0.4
    first[3, 0] = 1
    second[1, 5] = 0.2
    first[0, 2] = first[2, 2] = 1  # no object words
    boxes = [[(1, (10, 0, 20, 10)), (3, (0, 10, 20, 20))], [(1, (10, 0, 30, 20))]]
    game = pointing_game([first, second], boxes, GRID, SIZE)
    assert (game.hits, game.count) == (2, 3)
    assert game.rate == pytest.approx(2 / 3)
    assert game.chance == pytest.approx((1 / 6 + 2 / 6 + 4 / 6) / 3)
    assert game.counts.tolist() == [[1, 2], [1, 1]]
    score = pointing(game.counts, samples=50)
    assert score.value == game.rate
    assert score.interval == (1 / 2, 1)


def test_equally_strong_cells_count_as_a_fraction():
    """Two of cells 0, 1 and 5 are in the box; a map of zeros counts as uniform."""
    maps = np.zeros((2, 6), dtype=np.float32)
    maps[0, [0, 1, 5]] = 0.25
    box = (0, 0, 20, 10)
    game = pointing_game([maps], [[(0, box), (1, box)]], GRID, SIZE)
    assert game.hits == pytest.approx(2 / 3 + 2 / 6)


@settings(max_examples=40, deadline=None)
@given(
    maps=arrays(np.float64, (3, 6), elements=st.floats(0, 1)),
    left=st.integers(0, 29),
    top=st.integers(0, 19),
    word=st.integers(0, 2),
)
def test_scaling_the_weights_changes_nothing(maps, left, top, word):
    boxes = [[(word, (left, top, 30, 20))]]
    game = pointing_game([maps], boxes, GRID, SIZE)
    assert 0 <= game.hits <= game.count == 1
    assert pointing_game([maps * 2], boxes, GRID, SIZE).hits == game.hits
    everywhere = pointing_game([np.ones((3, 6))], boxes, GRID, SIZE)
    assert everywhere.rate == pytest.approx(everywhere.chance) == pytest.approx(game.chance)


def test_attention_to_the_object_hits_and_to_another_misses():
    """Maps that cover an object exactly point at it; maps of another object do not."""
    right, wrong, boxes = [], [], []
    for number in range(12):
        name = f"builtin:shapes/{number}"
        named = shapes.boxes(name)
        if len(named) == 1:
            continue
        maps = np.zeros((named[-1][0] + 1, 64))
        for (word, _), thing in zip(named, shapes._scene(number).things, strict=True):
            maps[word] = drawing.coverage(thing.drawn).reshape(8, 8, 8, 8).sum((1, 3)).ravel()
        other = np.zeros_like(maps)
        for (word, _), (another, _) in zip(named, named[1:] + named[:1], strict=True):
            other[word] = maps[another]
        boxes.append(named)
        right.append(maps)
        wrong.append(other)
    right_game, wrong_game = (
        pointing_game(maps, boxes, (8, 8), (64, 64)) for maps in (right, wrong)
    )
    assert right_game.rate > 0.9
    assert wrong_game.rate == 0
    assert 0.01 < right_game.chance < 0.1


@pytest.mark.parametrize(
    ("weights", "boxes", "error", "message"),
    [
        ([np.ones((1, 6))], [], MetricError, "weights of 1 and boxes of 0 captions"),
        ([], [], MetricError, "at least one object word with a box"),
        ([np.ones((1, 6))], [[]], MetricError, "at least one object word with a box"),
        ([np.ones((1, 5))], [[]], ShapeError, r"caption 0 has weights \(1, 5\).* \(words, 6\)"),
        ([np.ones((2, 6))], [[(2, (0, 0, 1, 1))]], MetricError, "for word 2, .* 0 to 1 only"),
        ([np.ones((2, 6))], [[(-1, (0, 0, 1, 1))]], MetricError, "for word -1"),
        ([np.full((1, 6), np.nan)], [[(0, (0, 0, 1, 1))]], MetricError, "caption 0 hold NaN"),
        (
            [np.ones((1, 6))],
            [[(0, (0, 0, 31, 1))]],
            MetricError,
            "30 pixels wide and 20",
        ),
        ([np.ones((1, 6))], [[(0, (3, 0, 3, 1))]], MetricError, r"the box \(3, 0, 3, 1\)"),
        ([np.ones((1, 6))], [[(0, (0, float("nan"), 3, 1))]], MetricError, "the box"),
    ],
)
def test_raises_on_weights_and_boxes_that_do_not_fit(weights, boxes, error, message):
    with pytest.raises(error, match=message):
        pointing_game(weights, boxes, GRID, SIZE)


def test_raises_on_a_grid_without_cells():
    with pytest.raises(ShapeError, match=r"got \(0, 3\)"):
        pointing_game([np.ones((1, 0))], [[]], (0, 3), SIZE)
