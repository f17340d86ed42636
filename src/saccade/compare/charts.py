"""Charts of a comparison; each recipe has the same colour in all of them."""

from __future__ import annotations

from markupsafe import Markup

from saccade.compare.comparison import Comparison, Contender
from saccade.compare.outcome import baseline_quality, baselines_of
from saccade.lens.drawing.chart import Chart
from saccade.lens.page.charts import Interval, Line, interval_chart, legend, line_chart
from saccade.lens.record import AttentionRecord, ImageSide, Side
from saccade.metrics.labels import metric_axis, metric_unit

MAX_TOKENS = 60
"""Tokens on one side of an attention map; longer texts are drawn by words, up to as many."""


def scores(comparison: Comparison) -> Markup | None:
    """Draw the comparison metric: mean and interval per recipe, and the value of each training."""
    metric = comparison.metric
    unit = metric_unit(metric)
    rows = []
    for contender in comparison.contenders:
        quality = contender.qualities[metric]
        ends = quality.interval
        values = list(quality.by_seed.values())
        rows.append(
            Interval(
                contender.name,
                contender.number,
                unit * quality.mean,
                None if ends is None else (unit * ends[0], unit * ends[1]),
                [unit * value for value in values] if len(values) > 1 else (),
            )
        )
    for baseline in baselines_of(comparison.contenders):
        if metric in baseline.scores:
            quality = baseline_quality(baseline, metric)
            ends = quality.interval
            both = None if ends is None else (unit * ends[0], unit * ends[1])
            rows.append(Interval(baseline.name, None, unit * quality.mean, both))
    return interval_chart(rows, metric_axis(metric))


def curves(comparison: Comparison, metric: str, by: str) -> Markup | None:
    """Draw a number of the validations by "step" or "minutes", one line per training."""
    unit = metric_unit(metric)
    series = [
        Line(
            contender.name,
            contender.number,
            [
                [
                    (record["seconds"] / 60 if by == "minutes" else record["step"], unit * value)
                    for record in measurements.curve
                    if type(value := record.get(metric)) is float
                ]
                for measurements in contender.measured.values()
            ],
        )
        for contender in comparison.contenders
    ]
    return line_chart(series, by, metric_axis(metric))


def lengths(comparison: Comparison) -> Markup | None:
    """Draw the comparison metric by input length, at the middle of each bucket."""
    metric = comparison.metric
    unit = metric_unit(metric)
    rows = {contender.name: contender.by_length() for contender in comparison.contenders}
    series = [
        Line(
            contender.name,
            contender.number,
            [
                [
                    ((row["from"] + row["to"]) / 2, unit * row[metric])
                    for row in rows[contender.name]
                    if metric in row
                ]
            ],
        )
        for contender in comparison.contenders
    ]
    name = next((row["unit"] for buckets in rows.values() for row in buckets), "")
    return line_chart(series, f"{name} of the input", metric_axis(metric))


def names(contenders: list[Contender]) -> Markup:
    """Return the names of the recipes with their colours."""
    return legend([Line(contender.name, contender.number, []) for contender in contenders])


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
