"""Charts of a comparison: a colour for each recipe, the same in all of them."""

from __future__ import annotations

from saccade.compare.comparison import Comparison
from saccade.lens.drawing.chart import Chart
from saccade.lens.drawing.fonts import plain
from saccade.lens.drawing.line_chart import SIZE, colour, label, line_chart
from saccade.lens.record import AttentionRecord, ImageSide, Side

MOST_TOKENS = 60
"""On a side of a map; of longer texts the words are shown, if they are not too many either."""


def scores(comparison: Comparison) -> Chart:
    """The metric that decides: its mean and interval for each recipe, and each training."""
    found = {each.name: each.qualities[comparison.metric] for each in comparison.contenders}
    numbers = {name: [q.mean, q.interval, list(q.by_seed.values())] for name, q in found.items()}
    height = 1.0 + 0.4 * len(found)
    chart = Chart({"metric": comparison.metric, "scores": numbers}, figsize=(SIZE[0], height))
    axes = chart.add_subplot()
    for row, each in enumerate(comparison.contenders):
        shown, ink = found[each.name], colour(each.number)
        if shown.interval is not None:
            axes.plot(shown.interval, (row, row), color=ink, linewidth=2)
        if len(shown.by_seed) > 1:
            values = list(shown.by_seed.values())
            axes.plot(values, [row] * len(values), "|", color=ink, markersize=9)
        axes.plot([shown.mean], [row], "o", color=ink, markersize=7)
    axes.set_yticks(range(len(found)), [plain(name) for name in found])
    axes.set_ylim(len(found) - 0.5, -0.5)
    label(axes, comparison.metric, "")
    return chart


def curves(comparison: Comparison, what: str, by: str) -> Chart | None:
    """How a number of the validations went on, by "step" or "minutes"; a line for each training."""
    series = {
        (each.name, each.number): [
            [
                (record["seconds"] / 60 if by == "minutes" else float(record["step"]), record[what])
                for record in measured.curve
                if isinstance(record.get(what), float)
            ]
            for measured in each.measured.values()
        ]
        for each in comparison.contenders
    }
    return line_chart(series, by, what)


def lengths(comparison: Comparison) -> Chart | None:
    """The metric that decides by length of the input, at the middle of each bucket."""
    metric = comparison.metric
    rows = {(each.name, each.number): each.by_length() for each in comparison.contenders}
    series = {
        name: [[((row["from"] + row["to"]) / 2, row[metric]) for row in found if metric in row]]
        for name, found in rows.items()
    }
    unit = next((row["unit"] for found in rows.values() for row in found), "")
    return line_chart(series, f"{unit} of the input", metric)


def attention(record: AttentionRecord) -> Chart | None:
    """Where an answer looked, unless the texts are too long for a map."""
    sides = (record.read, record.wrote)
    if isinstance(record.read, ImageSide) or all(len(side.tokens) <= MOST_TOKENS for side in sides):
        return record.figure()
    if all(isinstance(side, Side) and 0 < len(side.words) <= MOST_TOKENS for side in sides):
        return record.figure(words=True)
    return None
