"""compare.html: what a comparison found, in one file that needs nothing else."""

from __future__ import annotations

from typing import Any

from saccade.compare import charts
from saccade.compare.comparison import Comparison, Contender, against
from saccade.compare.folder import ATTENTION, PAGE
from saccade.lens.drawing.chart import COLOURS, Chart
from saccade.lens.page import page_of, view_json, view_model
from saccade.lens.page.document import document

MEGABYTE = 1 << 20
MOST = 4 * MEGABYTE
"""Letters of attention on the page; more than that has a page of its own."""


def pages(comparison: Comparison) -> dict[str, str]:
    """Return the page by its name and, if attention would make it too large, another for that."""
    title = "Saccade: " + " · ".join(e.name for e in comparison.entrants)
    looks = _looks(comparison)
    inputs = view_json(looks) if looks else ""
    if len(inputs) <= MOST:
        return {PAGE: _page(comparison, title=title, inputs=inputs, apart="")}
    return {
        PAGE: _page(comparison, title=title, apart=ATTENTION),
        ATTENTION: page_of(looks, title=f"{title}: attention"),
    }


def _page(comparison: Comparison, **values: Any) -> str:
    """Return the page; `apart` is the address of the page of attention, if that is another."""
    failures = [{"recipe": n, "seed": s, "reason": why} for n, s, why in comparison.failures]
    values |= {"comparison": comparison, "failures": failures, "colours": COLOURS}
    if contenders := comparison.contenders:
        first = comparison.first
        values |= {
            "charts": charts,
            "metric": comparison.metric.replace("_", " "),
            "named": [(each.number, each.name) for each in contenders],
            "qualities": [_quality(each) for each in contenders],
            "differences": _differences(comparison),
            "costs": [_cost(each) for each in contenders],
            "lengths": _lengths(comparison),
            "curves": _curves(comparison),
            "together": next(iter(first.measured.values())).answering.together,
            "signatures": [
                {"metric": n, "signature": q.signature} for n, q in first.qualities.items()
            ],
        }
    return document("compare/page.html", **values)


def _looks(comparison: Comparison) -> list[list[dict[str, Any]]]:
    """The samples as the lens's view has them: the models that look, side by side."""
    every = [
        [view_model(shown.record, name) for name, shown in answers.items() if shown.record]
        for answers in comparison.samples()
    ]
    return [models for models in every if models]


def _quality(each: Contender) -> dict[str, Any]:
    return {"recipe": each.name, **{name: str(q) for name, q in each.qualities.items()}}


def _differences(comparison: Comparison) -> list[dict[str, str]]:
    """Each recipe beside the best and the first, by the metric that decides."""
    if len(comparison.contenders) < 2:
        return []
    others = {"best": comparison.best, "first": comparison.first}
    if comparison.best is comparison.first:
        del others["first"]
    rows = []
    for each in comparison.contenders:
        told = {
            f"against the {title} ({other.name})": ""
            if each is other
            else str(against(each, other)[comparison.metric])
            for title, other in others.items()
        }
        rows.append({"recipe": each.name, **told})
    return rows


def _cost(each: Contender) -> dict[str, Any]:
    training = next(iter(each.measured.values())).training
    memory, epochs = each.mean("training", "peak_memory"), each.mean("training", "epochs")
    speed, seconds = each.mean("training", "tokens_per_second"), each.mean("training", "seconds")
    latency, rate = (each.mean("answering", n) for n in ("latency_seconds", "inputs_per_second"))
    return {
        "recipe": each.name,
        "parameters": f"{each.parameters:,}",
        "steps": f"{each.mean('training', 'steps'):,.0f}",
        "epochs": _number(epochs, ".3g"),
        "minutes": _number(None if seconds is None else seconds / 60, ".3g"),
        "training speed": f"{_number(speed, ',.0f')} {training.unit}/s",
        "peak memory": f"{_number(None if memory is None else memory / MEGABYTE, ',.0f')} MiB",
        "one answer": f"{_number(None if latency is None else latency * 1000, ',.3g')} ms",
        "many at once": f"{_number(rate, ',.3g')} inputs/s",
    }


def _lengths(comparison: Comparison) -> list[dict[str, Any]]:
    rows = []
    for found in zip(*(each.by_length() for each in comparison.contenders), strict=True):
        row = {
            found[0]["unit"]: f"{found[0]['from']} to {found[0]['to']}",
            "items": found[0]["count"],
        }
        named = zip(comparison.contenders, found, strict=True)
        rows.append(row | {each.name: bucket.get(comparison.metric, "") for each, bucket in named})
    return rows


def _curves(comparison: Comparison) -> list[Chart]:
    chosen = ("valid_loss", comparison.metric)
    drawn = [charts.curves(comparison, what, by) for what in chosen for by in ("step", "minutes")]
    return [chart for chart in drawn if chart is not None]


def _number(value: float | None, form: str) -> str:
    return "?" if value is None else format(value, form)
