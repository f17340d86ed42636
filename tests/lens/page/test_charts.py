"""Charts of pages: where numbers are drawn, and that texts are escaped."""

import re

import numpy as np
import pytest

from saccade.lens.page.charts import (
    MOST,
    Interval,
    Line,
    bar_chart,
    interval_chart,
    line_chart,
    tick_text,
)
from saccade.lens.page.shades import covered, strength, tenths
from saccade.lens.record import ImageSide

EVIL = "<script>alert(1)</script>"


def ticks(chart):
    return [text.replace("−", "-") for text in re.findall(r'class="tick"[^>]*>([^<]*)<', chart)]


def test_a_line_chart_has_round_ticks_that_enclose_its_points():
    chart = line_chart([Line("a", 0, [[(0, 0.13), (100, 0.87)]])], "step", "loss", best=(100, 0.87))
    assert {"0", "0.2", "0.4", "0.6", "0.8", "1"} <= set(ticks(chart))
    [points] = re.findall(r'points="([^"]*)"', chart)
    (x1, y1), (x2, y2) = (map(float, point.split(",")) for point in points.split())
    assert x1 < x2
    assert y1 > y2  # larger numbers are higher
    assert 'data-first="0"' in chart
    assert "the best at 100" in chart


@pytest.mark.parametrize("lines", [[], [[(1, 2.0)]]])
def test_a_line_needs_two_points(lines):
    assert line_chart([Line("a", 0, lines)], "x", "y") is None


def test_equal_and_many_points_are_drawn():
    chart = line_chart([Line("a", 9, [[(i, 5.0) for i in range(9000)]])], "x", "y")
    [points] = re.findall(r'points="([^"]*)"', chart)
    assert len(points.split()) <= MOST + 1
    assert 'class="line c1"' in chart


def test_texts_are_escaped():
    charts = [
        line_chart(
            [Line(EVIL, 0, [[(0, 1), (1, 2)]]), Line("b", 1, [])], EVIL, EVIL, rule=(EVIL, 1)
        ),
        interval_chart([Interval(EVIL, None, 1.0, (0.0, 2.0), [1.0])], EVIL),
        bar_chart([(EVIL, 3), ("b", 4)], EVIL, EVIL),
    ]
    assert all("<script" not in chart and "&lt;script" in chart for chart in charts)


def test_ticks_of_large_numbers_are_short():
    assert [tick_text(n) for n in (0, 0.25, 2000, 20_000, 1_500_000)] == [
        "0",
        "0.25",
        "2000",
        "20k",
        "1,500k",
    ]


def test_strength_grows_with_the_weight_and_is_flat_for_flat_attention():
    assert tenths(np.full(8, 1 / 8)) == [1] * 8
    assert tenths(np.array([1.0, 0, 0, 0])) == [10, 0, 0, 0]
    rising = strength(np.linspace(0, 1, 50)[None].repeat(4, 0).T[:, :])
    assert (np.diff(rising[:, 0]) >= 0).all()
    assert strength(np.array([0.5])).tolist() == [0.5]


def test_a_covered_image_is_a_picture_of_limited_size():
    image = ImageSide(np.zeros((400, 800, 3), np.uint8), (2, 4))
    address = covered(image, np.full(8, 1 / 8))
    assert address.startswith("data:image/png;base64,")
    assert len(address) < 60_000
