"""Charts of pages as SVG, in the colours of page.css: light and dark, on screen and on paper.

The classes `c0` to `c7` give a series the same colour in all charts of a page. Texts are escaped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

COLOURS = 8
"""The classes of colours; the ninth series has the colour of the first."""
WIDTH, HEIGHT = 480, 250
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 12, 42
MOST = 400
"""Points of a line that are drawn."""
MARKED = 60
"""Maximum number of points of a line that have a marker with their numbers."""
LETTER = 6.6
"""Width of a letter of a label."""

Number = float | int
Points = Sequence[tuple[Number, Number]]
Place = Callable[[Number], float]
"""Return where a number is drawn."""


@dataclass(frozen=True)
class Line:
    """The lines of a series.

    Attributes:
        name: Its name.
        number: The number of its colour.
        lines: The points (x, y) of each of its lines.
    """

    name: str
    number: int
    lines: Sequence[Points]


@dataclass(frozen=True)
class Interval:
    """A value with its interval.

    Attributes:
        name: The name beside it.
        number: The number of its colour; None for grey.
        value: The value.
        interval: Its lower and upper end.
        marks: Further values, such as those of single trainings.
    """

    name: str
    number: int | None
    value: Number
    interval: tuple[Number, Number] | None = None
    marks: Sequence[Number] = ()


def line_chart(
    series: Sequence[Line],
    x: str,
    y: str,
    *,
    best: tuple[Number, Number] | None = None,
    rule: tuple[str, Number] | None = None,
) -> Markup | None:
    """Draw lines with axes, a grid and a legend.

    Args:
        series: the series.
        x: the label of the x axis.
        y: the label of the y axis.
        best: the point that is marked as the best.
        rule: the name and the height of a horizontal line.

    Returns:
        The chart, or None if no line has two points.
    """
    series = [
        Line(one.name, one.number, [_thinned(points) for points in one.lines if len(points) > 1])
        for one in series
    ]
    points = [point for one in series for line in one.lines for point in line]
    if not points:
        return None
    xs = _ticks([x for x, _ in points])
    ys = _ticks([y for _, y in points] + ([rule[1]] if rule else []), most=5)
    across = _scale(xs, LEFT, WIDTH - RIGHT)
    up = _scale(ys, HEIGHT - BOTTOM, TOP)
    parts = [*_grid(xs, ys, across, up, x, y)]
    for one in series:
        for line in one.lines:
            path = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in line)
            parts.append(_element("polyline", ("line", one.number), points=path))
            parts += [
                _element(
                    "circle",
                    ("dot", one.number),
                    f"{one.name}, {tick_text(x)}: {y:.4g}",
                    cx=across(x),
                    cy=up(y),
                    r=2.5,
                )
                for x, y in (line if len(line) <= MARKED else ())
            ]
    if rule:
        name, height = rule
        parts.append(
            _element("line", "rule", x1=LEFT, x2=WIDTH - RIGHT, y1=up(height), y2=up(height))
        )
        low = height < (ys[0] + ys[-1]) / 2  # at the right, curves are usually high
        place = WIDTH - RIGHT - 4 if low else LEFT + 4
        anchor = "end" if low else "start"
        parts.append(_text(name, place, up(height) - 5, "ruled", anchor=anchor))
    if best:
        at, height = best
        near = at > (xs[0] + xs[-1]) / 2
        parts.append(_element("line", "best", x1=across(at), x2=across(at), y1=TOP, y2=up(ys[0])))
        parts.append(
            _element(
                "circle", "bestdot", f"best: {tick_text(at)}", cx=across(at), cy=up(height), r=5
            )
        )
        shift = -6 if near else 6
        anchor = "end" if near else "start"
        middle = (ys[0] + ys[-1]) / 2  # of the height, away from the point
        y_text = TOP + 10 if height < middle else up(middle)
        parts.append(
            _text(f"best: {tick_text(at)}", across(at) + shift, y_text, "ruled", anchor=anchor)
        )
    ends = "; ".join(
        f"{one.name} from {line[0][1]:.3g} to {line[-1][1]:.3g}"
        for one in series
        for line in one.lines
    )
    chosen = f"; the best at {tick_text(best[0])}" if best else ""
    chart = _svg(parts, HEIGHT, f"{y} by {x}: {ends}{chosen}", first=xs[0], last=xs[-1])
    return chart + legend(series) if len(series) > 1 else chart


def interval_chart(rows: Sequence[Interval], x: str) -> Markup | None:
    """Draw values with their intervals in rows, the first at the top."""
    if not rows:
        return None
    room = min(190.0, 12 + LETTER * max(len(row.name) for row in rows))
    ends = [end for row in rows for end in (row.value, *(row.interval or ()), *row.marks)]
    xs = _ticks(ends)
    height = 30 * len(rows) + BOTTOM + TOP
    across = _scale(xs, room, WIDTH - RIGHT - 8)
    parts = []
    for tick in xs:
        parts.append(
            _element("line", "grid", x1=across(tick), x2=across(tick), y1=TOP, y2=height - BOTTOM)
        )
        parts.append(_text(tick_text(tick), across(tick), height - BOTTOM + 16, anchor="middle"))
    for i, row in enumerate(rows):
        y = TOP + 15 + 30 * i
        kind: str | tuple[str, int] = "bound none" if row.number is None else ("bound", row.number)
        dot: str | tuple[str, int] = "dot none" if row.number is None else ("dot", row.number)
        parts.append(_text(_shortened(row.name, room), room - 10, y + 4, anchor="end"))
        if row.interval:
            low, high = row.interval
            parts.append(_element("line", kind, x1=across(low), x2=across(high), y1=y, y2=y))
        for mark in row.marks:
            parts.append(_element("circle", dot, cx=across(mark), cy=y, r=2))
        parts.append(
            _element("circle", dot, f"{row.name}: {row.value:.4g}", cx=across(row.value), cy=y, r=5)
        )
    parts.append(_text(x, (room + WIDTH - RIGHT) / 2, height - 8, "axis", anchor="middle"))
    values = "; ".join(f"{row.name} {row.value:.4g}" for row in rows)
    return _svg(parts, height, f"{x}: {values}")


def bar_chart(counts: Sequence[tuple[str, Number]], x: str, y: str) -> Markup | None:
    """Draw numbers by name as bars, whose values appear at the pointer."""
    if not counts:
        return None
    ys = _ticks([0.0, *(count for _, count in counts)], most=5)
    up = _scale(ys, HEIGHT - BOTTOM, TOP)
    width = (WIDTH - LEFT - RIGHT) / len(counts)
    parts = [*_grid([], ys, float, up, x, y)]
    every = math.ceil(LETTER * (1 + max(len(name) for name, _ in counts)) / width)
    slanted = every > 1 and len(counts) <= 12
    for i, (name, count) in enumerate(counts):
        left = LEFT + i * width
        parts.append(
            _element(
                "rect",
                ("bar", 0),
                f"{name}: {count:,.4g}",
                x=left + 0.06 * width,
                y=up(count),
                width=0.88 * width,
                height=up(ys[0]) - up(count),
            )
        )
        if slanted or i % every == 0:
            shown = _shortened(name, width) if slanted else name
            parts.append(_text(shown, left + width / 2, HEIGHT - BOTTOM + 16, anchor="middle"))
    values = "; ".join(f"{name} {count:,.4g}" for name, count in counts[:MARKED])
    return _svg(parts, HEIGHT, f"{y} by {x}: {values}")


def legend(series: Sequence[Line]) -> Markup:
    """Return the names of series with their colours."""
    items = Markup("").join(
        Markup('<li><b class="c{}"></b> {}</li>').format(one.number % COLOURS, one.name)
        for one in series
    )
    return Markup('<ul class="legend">{}</ul>').format(items)


def tick_text(number: Number) -> str:
    """Return a number beside an axis."""
    if abs(number) >= 10_000:
        return f"{number / 1000:,.4g}k"
    return f"{number:.10g}" if number == round(number) else f"{number:.4g}"


def _ticks(values: Sequence[Number], most: int = 6) -> list[Number]:
    """Return round numbers, evenly spaced, that enclose all values."""
    low, high = min(values), max(values)
    if low == high:
        low, high = (low / 2, high * 1.5) if low > 0 else (high * 1.5, low / 2 + 1.0)
    rough = (high - low) / (most - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= 0.999 * rough)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def _scale(ticks: Sequence[Number], start: Number, end: Number) -> Place:
    """Return where numbers are drawn if the ticks reach from `start` to `end`."""
    low, high = ticks[0], ticks[-1]
    return lambda value: start + (value - low) / (high - low) * (end - start)


def _grid(
    xs: Sequence[Number], ys: Sequence[Number], across: Place, up: Place, x: str, y: str
) -> Iterator[Markup]:
    """Yield both axes, the grid and the labels."""
    for tick in ys:
        yield _element("line", "grid", x1=LEFT, x2=WIDTH - RIGHT, y1=up(tick), y2=up(tick))
        yield _text(tick_text(tick), LEFT - 8, up(tick) + 4, anchor="end")
    for tick in xs:
        at = across(tick)
        anchor = "end" if at > WIDTH - 30 else "middle"
        yield _text(tick_text(tick), at, HEIGHT - BOTTOM + 16, anchor=anchor)
    yield _text(x, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, "axis", anchor="middle")
    middle = (TOP + HEIGHT - BOTTOM) / 2
    yield Markup(
        '<text class="axis" text-anchor="middle" transform="translate(11 {:.1f}) rotate(-90)">'
        "{}</text>"
    ).format(middle, y)


def _svg(parts: Sequence[Markup], height: Number, described: str, **data: Number) -> Markup:
    """Return the parts as a chart; `data` are the ends of its x axis, for scripts."""
    if data:
        data |= {"left": LEFT, "right": WIDTH - RIGHT, "top": TOP, "bottom": height - BOTTOM}
    attributes = Markup("").join(
        Markup(' data-{}="{:g}"').format(name, value) for name, value in data.items()
    )
    return Markup(
        '<svg class="chart" viewBox="0 0 {} {:g}" role="img" aria-label="{}"{}>{}</svg>'
    ).format(WIDTH, height, described, attributes, Markup("").join(parts))


def _element(
    tag: str, kind: str | tuple[str, int], title: str = "", /, **numbers: Number | str
) -> Markup:
    name = kind if isinstance(kind, str) else f"{kind[0]} c{kind[1] % COLOURS}"
    values = Markup("").join(
        Markup(' {}="{}"').format(
            key, value if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")
        )
        for key, value in numbers.items()
    )
    inner = Markup("<title>{}</title>").format(title) if title else ""
    return Markup('<{} class="{}"{}>{}</{}>').format(Markup(tag), name, values, inner, Markup(tag))


def _text(words: str, x: Number, y: Number, kind: str = "tick", *, anchor: str) -> Markup:
    return Markup('<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(
        kind, x, y, anchor, escape(words)
    )


def _shortened(name: str, room: Number) -> str:
    most = max(3, int(room / LETTER))
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _thinned(points: Points) -> Points:
    """Return at most `MOST` points, among them the first and the last."""
    step = -(-len(points) // MOST)
    return [*points[:-1:step], points[-1]]
