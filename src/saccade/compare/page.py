"""compare.html: the results of a comparison, in one file that needs nothing else."""

from __future__ import annotations

from saccade.compare import charts
from saccade.compare.comparison import Comparison, Contender, metric_label, verdicts_of
from saccade.compare.folder import ATTENTION, PAGE
from saccade.compare.measurements import Record
from saccade.compare.outcome import baseline_quality, baselines_of
from saccade.lens.drawing.chart import COLOURS, Chart
from saccade.lens.page import page_of, view_json, view_model
from saccade.lens.page.document import document
from saccade.tasks import Baseline

MEGABYTE = 1 << 20
MAX_ATTENTION = 4 * MEGABYTE
"""Characters of attention on the page; more than that gets a page of its own."""


def pages(comparison: Comparison) -> dict[str, str]:
    """Return the page by its name and, if attention would make it too large, another for that."""
    title = "Saccade: " + " · ".join(e.name for e in comparison.entrants)
    records = _records(comparison)
    inputs = view_json(records) if records else ""
    if len(inputs) <= MAX_ATTENTION:
        return {PAGE: _page(comparison, title=title, inputs=inputs)}
    return {
        PAGE: _page(comparison, title=title, attention_page=ATTENTION),
        ATTENTION: page_of(records, title=f"{title}: attention"),
    }


def _page(comparison: Comparison, *, title: str, inputs: str = "", attention_page: str = "") -> str:
    """Return the page; `attention_page` is the address of a separate page of attention."""
    failures = [{"recipe": n, "seed": s, "reason": why} for n, s, why in comparison.failures]
    values: Record = {
        "title": title,
        "inputs": inputs,
        "attention_page": attention_page,
        "comparison": comparison,
        "failures": failures,
        "colours": COLOURS,
    }
    if contenders := comparison.contenders:
        first = comparison.first
        values |= {
            "charts": charts,
            "metric": metric_label(comparison.metric),
            "named": [(contender.number, contender.name) for contender in contenders],
            "qualities": [_quality(contender) for contender in contenders]
            + [_baseline(baseline) for baseline in baselines_of(contenders)],
            "differences": _differences(comparison),
            "attention": [
                {"recipe": contender.name, **row, "interval": _interval(row)}
                for contender in contenders
                for row in contender.first.attention
            ],
            "costs": [_cost(contender) for contender in contenders],
            "lengths": _lengths(comparison),
            "curves": _curves(comparison),
            "together": first.first.answering.together,
            "signatures": [
                {"metric": n, "signature": q.signature} for n, q in first.qualities.items()
            ],
        }
    return document("compare/page.html", **values)


def _records(comparison: Comparison) -> list[list[Record]]:
    """Return the samples for the lens's view: the models with attention, side by side."""
    by_sample = [
        [view_model(shown.record, name) for name, shown in samples.items() if shown.record]
        for samples in comparison.samples()
    ]
    return [models for models in by_sample if models]


def _quality(contender: Contender) -> Record:
    return {"recipe": contender.name, **{name: str(q) for name, q in contender.qualities.items()}}


def _interval(row: Record) -> str:
    """Return the interval of a measure of attention, for people."""
    return "" if row["interval"] is None else "{:+.3f} to {:+.3f}".format(*row["interval"])


def _baseline(baseline: Baseline) -> Record:
    scores = {name: str(baseline_quality(baseline, name)) for name in baseline.scores}
    return {"recipe": f"{baseline.name} ({baseline.kind} baseline)", **scores}


def _differences(comparison: Comparison) -> list[dict[str, str]]:
    """Compare each recipe with the best and with the first by the comparison metric."""
    if len(comparison.contenders) < 2:
        return []
    others = {"best": comparison.best, "first": comparison.first}
    if comparison.best is comparison.first:
        del others["first"]
    return [
        {"recipe": contender.name}
        | {
            f"against the {title} ({other.name})": ""
            if contender is other
            else str(verdicts_of(contender, other)[comparison.metric])
            for title, other in others.items()
        }
        for contender in comparison.contenders
    ]


def _cost(contender: Contender) -> dict[str, str]:
    def mean(part: str, name: str, form: str, scale: float = 1.0) -> str:
        value = contender.mean(part, name)
        return "?" if value is None else format(value * scale, form)

    speed = mean("training", "tokens_per_second", ",.0f")
    return {
        "recipe": contender.name,
        "parameters": f"{contender.parameters:,}",
        "steps": mean("training", "steps", ",.0f"),
        "epochs": mean("training", "epochs", ".3g"),
        "minutes": mean("training", "seconds", ".3g", 1 / 60),
        "training speed": f"{speed} {contender.first.training.unit}/s",
        "peak memory": f"{mean('training', 'peak_memory', ',.0f', 1 / MEGABYTE)} MiB",
        "latency": f"{mean('answering', 'latency_seconds', ',.3g', 1000.0)} ms",
        "throughput": f"{mean('answering', 'inputs_per_second', ',.3g')} inputs/s",
    }


def _lengths(comparison: Comparison) -> list[Record]:
    rows = []
    for buckets in zip(
        *(contender.by_length() for contender in comparison.contenders), strict=True
    ):
        first = buckets[0]
        row = {first["unit"]: f"{first['from']} to {first['to']}", "items": first["count"]}
        named = zip(comparison.contenders, buckets, strict=True)
        rows.append(
            row | {contender.name: bucket.get(comparison.metric, "") for contender, bucket in named}
        )
    return rows


def _curves(comparison: Comparison) -> list[Chart]:
    metrics = ("valid_loss", comparison.metric)
    drawn = [
        charts.curves(comparison, metric, by) for metric in metrics for by in ("step", "minutes")
    ]
    return [chart for chart in drawn if chart is not None]
