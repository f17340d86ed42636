"""compare.html: what a comparison found, in one file that needs nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from typing import Any

from saccade.compare import charts
from saccade.compare.comparison import Comparison, Contender, Shown, against
from saccade.compare.folder import ATTENTION, PAGE
from saccade.lens.chart import COLOURS, Chart
from saccade.lens.page import View, page_of, view_model, view_of
from saccade.lens.page.document import document
from saccade.training.report import table

STYLE = """
.lead { font-size: 1.2rem } .wide { overflow-x: auto } td, th { white-space: nowrap }
.free td { white-space: normal; overflow-wrap: anywhere }
.legend { display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; list-style: none; padding: 0 }
.legend b { display: inline-block; width: .8em; height: .8em; border-radius: 50% }
.grid { display: grid; gap: 1rem;
 grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)) }
.grid figure { margin: 0 }
img { max-width: 100%; height: auto; border: 1px solid var(--line); border-radius: .625rem }
blockquote { margin: .5rem 0; padding-left: 1rem; border-left: 3px solid var(--line);
 white-space: pre-wrap; overflow-wrap: anywhere }
""" + "".join(f".colour-{i} {{ background: {ink} }}\n" for i, ink in enumerate(COLOURS))
MEGABYTE = 1 << 20
MOST = 4 * MEGABYTE
"""Letters of attention on the page; more than that has a page of its own."""


def pages(comparison: Comparison) -> dict[str, str]:
    """The page by its name; and, if it would be too large with it, another for attention."""
    title = "Saccade: " + " · ".join(e.name for e in comparison.entrants)
    looks = _looks(comparison)
    if not looks:
        return {PAGE: _page(comparison, title, _without, View("", "", ""))}
    view = view_of(looks)
    if len(view.element) <= MOST:
        return {PAGE: _page(comparison, title, _without, view)}
    link = f'<p><a href="{ATTENTION}">All layers and heads</a> have a page of their own.</p>'
    return {
        PAGE: _page(comparison, title, _drawn, View(link, "", "")),
        ATTENTION: page_of(looks, title=f"{title}: attention"),
    }


def _page(
    comparison: Comparison, title: str, looked: Callable[[Shown], str], attention: View
) -> str:
    """The page; `looked` says beside each answer where it looked, `attention` below all of them."""
    parts = [f'<p class="lead">{escape(comparison.summary())}</p>', _told(comparison)]
    if comparison.failures:
        rows = [{"recipe": n, "seed": s, "reason": why} for n, s, why in comparison.failures]
        parts.append(f"<h2>Did not come to their end</h2>{_wide(rows, 'free')}")
    if comparison.contenders:
        parts += [
            f"<h2>Quality</h2>{_legend(comparison)}{_picture(charts.scores(comparison))}",
            _wide([_quality(each) for each in comparison.contenders]),
            _differences(comparison),
            f"<h2>Cost</h2>{_wide([_cost(each) for each in comparison.contenders])}",
            _lengths(comparison),
            _curves(comparison),
            f"<h2>The same inputs, answered by all</h2>{_samples(comparison, looked)}",
            f"<h2>Where they looked</h2>{attention.element}" if attention.element else "",
            f"<h2>How it was measured</h2>{_signatures(comparison)}",
        ]
    return document(title, "".join(parts), style=STYLE + attention.style, script=attention.script)


def _looks(comparison: Comparison) -> list[list[dict[str, Any]]]:
    """The samples as the lens's view has them: the models that look, side by side."""
    every = [
        [view_model(shown.record, name) for name, shown in answers.items() if shown.record]
        for answers in comparison.samples()
    ]
    return [models for models in every if models]


def _told(comparison: Comparison) -> str:
    seeds = ", ".join(map(str, comparison.seeds))
    said = [f"Data: {comparison.data}. Each training: {comparison.budget}. Seeds: {seeds}."]
    if comparison.contenders and comparison.some.split == "valid":
        said.append(
            "There is no test split, so quality is that on validation data, by which the weights "
            "of each training were chosen: it is a little too good."
        )
    return "".join(f"<p>{escape(text)}</p>" for text in said)


def _quality(each: Contender) -> dict[str, Any]:
    return {"recipe": each.name, **{name: str(q) for name, q in each.qualities.items()}}


def _differences(comparison: Comparison) -> str:
    """Each recipe beside the best and the first, by the metric that decides."""
    if len(comparison.contenders) < 2:
        return ""
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
    note = (
        f"Differences of {comparison.metric.replace('_', ' ')} by paired bootstrap over the items "
        "(Koehn 2004), two-sided, with 95 % intervals"
    )
    if len(comparison.seeds) > 1:
        note += "; each resample draws items and trainings"
    else:
        note += ". They are of these trained models: with another seed the order may turn round"
    if len(comparison.contenders) > 2:
        note += ". Each p-value is of one pair: among many, one below 0.05 comes by chance"
    return f"<h3>Differences</h3>{_wide(rows)}<p>{escape(note)}.</p>"


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


def _lengths(comparison: Comparison) -> str:
    chart = charts.lengths(comparison)
    rows: list[dict[str, Any]] = []
    for found in zip(*(each.by_length() for each in comparison.contenders), strict=True):
        row = {
            found[0]["unit"]: f"{found[0]['from']} to {found[0]['to']}",
            "items": found[0]["count"],
        }
        named = zip(comparison.contenders, found, strict=True)
        rows.append(row | {each.name: bucket.get(comparison.metric, "") for each, bucket in named})
    if not rows:
        return ""
    metric = escape(comparison.metric.replace("_", " "))
    return f"<h2>By length of the input: {metric}</h2>{_picture(chart)}{_wide(rows)}"


def _curves(comparison: Comparison) -> str:
    chosen = ("valid_loss", comparison.metric)
    drawn = [charts.curves(comparison, what, by) for what in chosen for by in ("step", "minutes")]
    figures = "".join(map(_picture, drawn))
    if not figures:
        return ""
    note = (
        "On validation data, a line for each training; metrics are of greedy answers to some of "
        "it. Losses of a token compare models of one vocabulary only."
    )
    legend = _legend(comparison)
    return f'<h2>Learning curves</h2>{legend}<div class="grid">{figures}</div><p>{note}</p>'


def _samples(comparison: Comparison, looked: Callable[[Shown], str]) -> str:
    return "".join(_sample(answers, looked) for answers in comparison.samples())


def _sample(answers: Mapping[str, Shown], looked: Callable[[Shown], str]) -> str:
    """An input and all answers, each with what `looked` says of its attention."""
    asked = next(iter(answers.values())).sample
    right = "".join(f"<li>{escape(text)}</li>" for text in asked.references)
    figures = "".join(
        f"<figure><figcaption><strong>{escape(name)}</strong>"
        f"<blockquote>{escape(shown.sample.answer)}</blockquote></figcaption>"
        f"{looked(shown)}</figure>"
        for name, shown in answers.items()
    )
    return (
        f"<h3>Input</h3><blockquote>{escape(asked.input)}</blockquote>"
        + (f"<p>Right:</p><ul>{right}</ul>" if right else "")
        + f'<div class="grid">{figures}</div>'
    )


def _without(shown: Shown) -> str:
    """Only that there is none."""
    return "<p>It has no attention to show.</p>" if shown.record is None else ""


def _drawn(shown: Shown) -> str:
    if shown.record is None:
        return _without(shown)
    chart = charts.attention(shown.record)
    return "<p>Too long for a map.</p>" if chart is None else _picture(chart)


def _signatures(comparison: Comparison) -> str:
    answering = next(iter(comparison.first.measured.values())).answering
    note = (
        "Intervals hold 95 %; ± is the standard deviation over seeds. One answer: the median time "
        f"of an input alone; many at once: {answering.together} inputs in one call; both in "
        "float32, after a call that warms up. Peak memory: main memory of the process that "
        "trained. Training speed: the median over the training."
    )
    rows = [{"metric": n, "signature": q.signature} for n, q in comparison.first.qualities.items()]
    return f"<p>{escape(note)}</p>{_wide(rows, 'free')}"


def _legend(comparison: Comparison) -> str:
    entries = "".join(
        f'<li><b class="colour-{each.number % len(COLOURS)}"></b> {escape(each.name)}</li>'
        for each in comparison.contenders
    )
    return f'<ul class="legend">{entries}</ul>'


def _picture(chart: Chart | None) -> str:
    """As an image, light or dark as the page is."""
    if chart is None:
        return ""
    return (
        '<figure><picture><source media="(prefers-color-scheme: dark)" '
        f'srcset="{chart.address(theme="dark")}">'
        f'<img alt="" src="{chart.address()}"></picture></figure>'
    )


def _wide(rows: list[dict[str, Any]], kind: str = "") -> str:
    """A table that scrolls by itself where the page is narrow."""
    return f'<div class="wide {kind}">{table(rows)}</div>'


def _number(value: float | None, form: str) -> str:
    return "?" if value is None else format(value, form)
