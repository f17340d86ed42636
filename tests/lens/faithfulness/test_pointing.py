"""The pointing game by hand, at the edges, and on scenes whose boxes are known."""

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

# 2 × 3 cells over 20 × 30 pixels: middles at x = 5, 15, 25 and y = 5, 15
GRID, SIZE = (2, 3), (20, 30)


@pytest.mark.parametrize(
    ("box", "cells"),
    [
        ((0, 0, 30, 20), [0, 1, 2, 3, 4, 5]),
        ((0, 0, 10, 10), [0]),
        ((20, 10, 30, 20), [5]),
        ((0, 10, 16, 20), [3, 4]),
        ((5, 5, 15, 15), [0]),  # the left and the upper edge are in it, the others are not
        ((4.5, 0, 25.5, 5.5), [0, 1, 2]),
        ((6, 6, 14, 14), []),
    ],
)
def test_cells_in_a_box(box, cells):
    assert np.flatnonzero(cells_in(box, GRID, SIZE)).tolist() == cells


def test_by_hand():
    """Word 1 looks at cell 1 (a hit), word 3 at cell 0 (a miss); the other caption at cell 5."""
    first, second = np.zeros((4, 6)), np.zeros((2, 6))
    first[1, [1, 4]] = 0.6, 0.4
    first[3, 0] = 1
    second[1, 5] = 0.2
    first[0, 2] = first[2, 2] = 1  # no object words
    boxes = [[(1, (10, 0, 20, 10)), (3, (0, 10, 20, 20))], [(1, (10, 0, 30, 20))]]
    found = pointing_game([first, second], boxes, GRID, SIZE)
    assert (found.hits, found.count) == (2, 3)
    assert found.rate == pytest.approx(2 / 3)
    assert found.chance == pytest.approx((1 / 6 + 2 / 6 + 4 / 6) / 3)
    assert found.counts.tolist() == [[1, 2], [1, 1]]
    score = pointing(found.counts, samples=50)
    assert score.value == found.rate
    assert score.interval == (1 / 2, 1)


def test_equally_strong_cells_count_by_their_share():
    """Of cells 0, 1 and 5 two are in the box; nowhere to look is everywhere."""
    maps = np.zeros((2, 6), dtype=np.float32)
    maps[0, [0, 1, 5]] = 0.25
    box = (0, 0, 20, 10)
    found = pointing_game([maps], [[(0, box), (1, box)]], GRID, SIZE)
    assert found.hits == pytest.approx(2 / 3 + 2 / 6)


@settings(max_examples=40, deadline=None)
@given(
    maps=arrays(np.float64, (3, 6), elements=st.floats(0, 1)),
    left=st.integers(0, 29),
    top=st.integers(0, 19),
    word=st.integers(0, 2),
)
def test_more_of_the_same_attention_changes_nothing(maps, left, top, word):
    boxes = [[(word, (left, top, 30, 20))]]
    found = pointing_game([maps], boxes, GRID, SIZE)
    assert 0 <= found.hits <= found.count == 1
    assert pointing_game([maps * 2], boxes, GRID, SIZE).hits == found.hits
    everywhere = pointing_game([np.ones((3, 6))], boxes, GRID, SIZE)
    assert everywhere.rate == pytest.approx(everywhere.chance) == pytest.approx(found.chance)


def test_on_scenes():
    """Attention that is the object itself points at it, that of another object does not."""
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
    found, lost = (pointing_game(maps, boxes, (8, 8), (64, 64)) for maps in (right, wrong))
    assert found.rate > 0.9
    assert lost.rate == 0
    assert 0.01 < found.chance < 0.1


@pytest.mark.parametrize(
    ("weights", "boxes", "error", "said"),
    [
        ([np.ones((1, 6))], [], MetricError, "weights of 1 and boxes of 0 captions"),
        ([], [], MetricError, "nothing to point at"),
        ([np.ones((1, 6))], [[]], MetricError, "nothing to point at"),
        ([np.ones((1, 5))], [[]], ShapeError, r"caption 0 has weights \(1, 5\).* \(words, 6\)"),
        ([np.ones((2, 6))], [[(2, (0, 0, 1, 1))]], MetricError, "its word 2, .* 0 to 1 only"),
        ([np.ones((2, 6))], [[(-1, (0, 0, 1, 1))]], MetricError, "its word -1"),
        ([np.full((1, 6), np.nan)], [[(0, (0, 0, 1, 1))]], MetricError, "caption 0 hold NaN"),
        ([np.ones((1, 6))], [[(0, (0, 0, 31, 1))]], MetricError, "30 pixels wide and 20 high"),
        ([np.ones((1, 6))], [[(0, (3, 0, 3, 1))]], MetricError, r"the box \(3, 0, 3, 1\)"),
        ([np.ones((1, 6))], [[(0, (0, float("nan"), 3, 1))]], MetricError, "the box"),
    ],
)
def test_what_cannot_be_played_is_refused(weights, boxes, error, said):
    with pytest.raises(error, match=said):
        pointing_game(weights, boxes, GRID, SIZE)


def test_a_grid_has_cells():
    with pytest.raises(ShapeError, match=r"got \(0, 3\)"):
        pointing_game([np.ones((1, 0))], [[]], (0, 3), SIZE)
