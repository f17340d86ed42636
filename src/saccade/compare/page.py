"""compare.html: the results of a comparison, in one file that needs nothing else."""

from __future__ import annotations

from markupsafe import Markup

from saccade.compare import charts
from saccade.compare.comparison import Comparison, Contender, verdicts_of
from saccade.compare.folder import ATTENTION, PAGE
from saccade.compare.measurements import Record
from saccade.compare.outcome import baseline_quality, baselines_of
from saccade.compare.statistics import Quality
from saccade.lens.page import page_of, view_json, view_model
from saccade.lens.page.document import document
from saccade.metrics.labels import metric_label, metric_text
from saccade.tasks import Baseline
from saccade.tasks.measures import belief

MEGABYTE = 1 << 20
EMPTY = "(empty)"
"""Shown for an empty prediction."""
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
    }
    if contenders := comparison.contenders:
        first = comparison.first
        values |= {
            "charts": charts,
            "metric": metric_label(comparison.metric),
            "leading": metric_text(
                comparison.metric, comparison.best.qualities[comparison.metric].mean
            ),
            "qualities": [_quality(contender) for contender in contenders]
            + [_baseline(baseline) for baseline in baselines_of(contenders)],
            "differences": _differences(comparison),
            "samples": _samples(comparison),
            "silent": [
                contender.name
                for contender in contenders
                if contender.shown and not any(shown.record for shown in contender.shown)
            ],
            "attention": {
                contender.name: contender.first.attention
                for contender in contenders
                if contender.first.attention
            },
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
    beliefs = {
        contender.name: belief(
            {row["measure"]: row["meaning"] for row in contender.first.attention}
        )
        for contender in comparison.contenders
    }
    by_sample = [
        [
            view_model(shown.record.with_belief(beliefs[name] or shown.record.belief), name)
            for name, shown in samples.items()
            if shown.record
        ]
        for samples in comparison.samples()
    ]
    return [models for models in by_sample if models]


def _quality(contender: Contender) -> Record:
    return {
        "recipe": contender.name,
        **{metric_label(name): _number(name, q) for name, q in contender.qualities.items()},
    }


def _number(metric: str, quality: Quality) -> str:
    """Return a metric with its interval, and its deviation over several trainings."""
    text = metric_text(metric, quality.mean)
    if quality.spread is not None:
        text += f" ± {metric_text(metric, quality.spread).removesuffix(' %')}"
    if quality.interval is None:
        return text
    low, high = (metric_text(metric, end).removesuffix(" %") for end in quality.interval)
    return f"{text} [{low}, {high}]"


def _baseline(baseline: Baseline) -> Record:
    scores = {
        metric_label(name): _number(name, baseline_quality(baseline, name))
        for name in baseline.scores
    }
    return {"recipe": f"{baseline.name} ({baseline.kind} baseline)", **scores}


def _differences(comparison: Comparison) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the difference of each recipe (row) from each other (column), by the metric.

    Each cell has its text and its class: "good" or "bad" if the difference is significant.
    """
    contenders, metric = comparison.contenders, comparison.metric
    if len(contenders) < 2:
        return []
    return [
        (
            one.name,
            [("", "") if one is other else _difference(one, other, metric) for other in contenders],
        )
        for one in contenders
    ]


def _difference(one: Contender, other: Contender, metric: str) -> tuple[str, str]:
    verdict = verdicts_of(one, other)[metric]
    text = metric_text(metric, abs(verdict.gain)).removesuffix(" %")
    sign = "+" if verdict.gain > 0 else "−" if verdict.gain < 0 else ""
    chance = "" if verdict.p_value is None else f" (p {_p_value(verdict.p_value)})"
    kind = ("good" if verdict.gain > 0 else "bad") if verdict.significant else ""
    return f"{sign}{text}{chance}", kind


def _p_value(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"= {value:.2g}"


def _samples(comparison: Comparison) -> list[dict[str, str]]:
    """Return each input with its references and what every recipe predicted."""
    rows = []
    for samples in comparison.samples():
        sample = next(iter(samples.values())).sample
        row = {"input": sample.input, "reference": " | ".join(sample.references)}
        rows.append(row | {name: shown.sample.answer or EMPTY for name, shown in samples.items()})
    return rows


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
            row
            | {
                contender.name: metric_text(comparison.metric, bucket[comparison.metric])
                for contender, bucket in named
                if comparison.metric in bucket
            }
        )
    return rows


def _curves(comparison: Comparison) -> dict[str, Markup]:
    """Return charts of the trainings and of quality by length, by their titles."""
    label = metric_label(comparison.metric)
    titled = {"Validation loss": "valid_loss", f"{label[0].upper()}{label[1:]}": comparison.metric}
    drawn = {
        f"{title} by {by}": charts.curves(comparison, metric, by)
        for by in ("step", "minutes")
        for title, metric in titled.items()
    }
    drawn["Quality by input length"] = charts.lengths(comparison)
    return {title: chart for title, chart in drawn.items() if chart is not None}
