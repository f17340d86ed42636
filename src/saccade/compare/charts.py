"""Charts of a comparison; each recipe has the same colour in all of them."""

from __future__ import annotations

from saccade.compare.comparison import Comparison, metric_label
from saccade.lens.drawing.chart import Chart
from saccade.lens.drawing.fonts import plain
from saccade.lens.drawing.line_chart import SIZE, colour, label, line_chart
from saccade.lens.record import AttentionRecord, ImageSide, Side

MAX_TOKENS = 60
"""Tokens on one side of an attention map; longer texts are drawn by words, up to as many."""


def scores(comparison: Comparison) -> Chart:
    """Draw the comparison metric: mean and interval per recipe, and the value of each training."""
    qualities = {
        contender.name: contender.qualities[comparison.metric]
        for contender in comparison.contenders
    }
    numbers = {
        name: [quality.mean, quality.interval, list(quality.by_seed.values())]
        for name, quality in qualities.items()
    }
    height = 1.0 + 0.4 * len(qualities)
    chart = Chart({"metric": comparison.metric, "scores": numbers}, figsize=(SIZE[0], height))
    axes = chart.add_subplot()
    for row, contender in enumerate(comparison.contenders):
        quality, ink = qualities[contender.name], colour(contender.number)
        if quality.interval is not None:
            axes.plot(quality.interval, (row, row), color=ink, linewidth=2)
        if len(quality.by_seed) > 1:
            values = list(quality.by_seed.values())
            axes.plot(values, [row] * len(values), "|", color=ink, markersize=9)
        axes.plot([quality.mean], [row], "o", color=ink, markersize=7)
    axes.set_yticks(range(len(qualities)), [plain(name) for name in qualities])
    axes.set_ylim(len(qualities) - 0.5, -0.5)
    label(axes, metric_label(comparison.metric), "")
    return chart


def curves(comparison: Comparison, metric: str, by: str) -> Chart | None:
    """Draw a number of the validations by "step" or "minutes", one line per training."""
    series = {
        (contender.name, contender.number): [
            [
                (record["seconds"] / 60 if by == "minutes" else float(record["step"]), value)
                for record in measurements.curve
                if type(value := record.get(metric)) is float
            ]
            for measurements in contender.measured.values()
        ]
        for contender in comparison.contenders
    }
    return line_chart(series, by, metric_label(metric))


def lengths(comparison: Comparison) -> Chart | None:
    """Draw the comparison metric by input length, at the middle of each bucket."""
    metric = comparison.metric
    rows = {
        (contender.name, contender.number): contender.by_length()
        for contender in comparison.contenders
    }
    series = {
        name: [[((row["from"] + row["to"]) / 2, row[metric]) for row in buckets if metric in row]]
        for name, buckets in rows.items()
    }
    unit = next((row["unit"] for buckets in rows.values() for row in buckets), "")
    return line_chart(series, f"{unit} of the input", metric_label(metric))


def attention(record: AttentionRecord) -> Chart | None:
    """Draw the attention of a prediction; None if the texts are too long for a map."""
    match record.read, record.wrote:
        case ImageSide(), _:
            return record.figure()
        case read, wrote if max(len(read.tokens), len(wrote.tokens)) <= MAX_TOKENS:
            return record.figure()
        case Side(words=read), Side(words=wrote) if all(
            0 < len(words) <= MAX_TOKENS for words in (read, wrote)
        ):
            return record.figure(words=True)
    return None
