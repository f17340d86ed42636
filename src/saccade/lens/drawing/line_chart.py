"""Line charts, in which a series has the same colour in all charts of a page."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from saccade.lens.drawing.chart import COLOURS, Chart
from saccade.lens.drawing.fonts import plain

Points = Sequence[tuple[float, float]]

SIZE = (6.4, 3.2)
MARKED = 60
"""The most points of a line that has markers."""


def colour(number: int) -> str:
    """Return the colour of a series by its number; the ninth has that of the first."""
    return COLOURS[number % len(COLOURS)]


def line_chart(series: Mapping[tuple[str, int], Sequence[Points]], x: str, y: str) -> Chart | None:
    """Draw the lines of each series in the colour of its number.

    Args:
        series: the lines of each series, by its name and number.
        x: the label of the x axis; an underscore is shown as a space.
        y: the label of the y axis.

    Returns:
        The chart, or None if no line has two points.
    """
    if not any(len(points) > 1 for lines in series.values() for points in lines):
        return None
    numbers = {name: [list(points) for points in lines] for (name, _), lines in series.items()}
    chart = Chart({"x": x, "y": y, "lines": numbers}, figsize=SIZE, layout="none")
    axes = chart.add_axes((0.14, 0.18, 0.83, 0.77))
    for (_, number), lines in series.items():
        for points in lines:
            marker = "." if len(points) <= MARKED else ""
            axes.plot(
                *zip(*points, strict=True), color=colour(number), marker=marker, linewidth=1.5
            )
    label(axes, x, y)
    return chart


def label(axes: Axes, x: str, y: str) -> None:
    """Label both axes, and draw a light grid instead of a frame."""
    axes.set_xlabel(plain(x.replace("_", " ")))
    axes.set_ylabel(plain(y.replace("_", " ")))
    axes.set_facecolor("none")
    axes.grid(color="#8884", linewidth=0.6)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
