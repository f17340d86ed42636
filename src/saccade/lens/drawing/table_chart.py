"""Tables as charts: columns of text, and a bar for each row."""

from collections.abc import Sequence
from typing import Any

from matplotlib.patches import Rectangle

from saccade.errors import FigureError
from saccade.lens.drawing.chart import COLOURS, Chart
from saccade.lens.drawing.fonts import families, inches, short, wrapped

MOST_ROWS = 400

# of the drawing, in inches; letters in points
_EDGE, _LINE, _BETWEEN, _BAR = 0.15, 0.2, 0.25, 1.5
_SIZE, _TITLE = 9.0, 10.0
_LONGEST_CELL = 60  # letters


def table_chart(
    numbers: dict[str, Any],
    cells: Sequence[Sequence[str]],
    shares: Sequence[float],
    *,
    right: Sequence[int] = (),
    title: str = "",
) -> Chart:
    """Rows of cells under their heads, with the sum as the last.

    The rows between have `shares` and bars as long as these, the longest of the largest. The
    columns in `right` end at one line, the others begin at one.
    """
    if len(cells) > MOST_ROWS:
        raise FigureError(
            f"a picture shows tables of up to {MOST_ROWS} rows, this one has {len(cells)}: "
            "join rows (parameters(..., depth=2)), or print the table"
        )
    shown = [[short(cell, _LONGEST_CELL) for cell in row] for row in cells]
    widths = [max(inches(cell, _SIZE) for cell in column) for column in zip(*shown, strict=True)]
    starts = [_EDGE + sum(widths[:i]) + i * _BETWEEN for i in range(len(widths) + 1)]
    wide = starts[-1] + _BAR + _EDGE
    head = wrapped(title, wide - 2 * _EDGE, _TITLE)
    top = _EDGE + _LINE * (len(head.splitlines()) + bool(head) / 2)
    high = top + _LINE * len(shown) + _EDGE
    chart = Chart(numbers, figsize=(wide, high), layout="none")
    axes = chart.add_axes((0, 0, 1, 1), xlim=(0, wide), ylim=(high, 0))
    axes.set_axis_off()
    for line, row in enumerate(shown):
        y = top + _LINE * (line + 0.7)
        for i, cell in enumerate(row):
            x, side = (starts[i] + widths[i], "right") if i in right else (starts[i], "left")
            chart.text(x / wide, 1 - y / high, cell, ha=side, size=_SIZE, family=families([cell]))
    longest = max(shares, default=0.0) or 1.0
    for line, share in enumerate(shares, start=1):
        place = starts[-1], top + _LINE * (line + 0.2)
        bar = Rectangle(place, _BAR * share / longest, 0.6 * _LINE, color=COLOURS[0], linewidth=0)
        axes.add_patch(bar)
    for y in (top + _LINE, high - _EDGE - _LINE):
        axes.plot([_EDGE, wide - _EDGE], [y, y], color="0.5", linewidth=0.6)
    if head:
        chart.suptitle(head, y=1 - _EDGE / high, va="top", size=_TITLE, family=families([head]))
    return chart
