"""The content of report.html: the result of a run, how it learned, and where it fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

from markupsafe import Markup

from saccade.data.corpus import Item
from saccade.errors import SaccadeError, WatchError
from saccade.files import parse_json, write_file
from saccade.lens.faithfulness.erasure import attended
from saccade.lens.page.charts import Interval, Line, Number, interval_chart, line_chart
from saccade.lens.page.report import Confusions, Mistake, Report, Result, report_page
from saccade.lens.page.shades import TENTHS, covered, tenths
from saccade.lens.record import AttentionRecord, ImageSide
from saccade.metrics.labels import metric_axis, metric_label, metric_text, metric_unit
from saccade.tasks import Baseline, Evaluation, Task, standing
from saccade.tasks.measures import with_attention
from saccade.training.film import read_film
from saccade.training.run import Run

PREDICTIONS = 6
"""Items whose predictions are shown."""
MEASURED, REHEARSED = 24, 3
"""Items by which attention is measured: for the report, and for its rehearsal."""
MISTAKES = 6
"""Maximum number of confident mistakes that are shown."""
VALIDATIONS = 20
"""The last validations that are listed."""
BELIEF = (
    "alignment_error_rate",
    "comprehensiveness",
    "comprehensiveness_over_random",
    "sufficiency",
    "sufficiency_over_random",
)
"""Measures of attention whose sentences the report shows; the others are folded."""
CONFUSIONS, MISTAKEN = "Confusions", "The most confident mistakes"
"""Titles of the tables of an evaluation that the report shows in another form."""
NOT_DRAWN = {"step", "loss", "predictions"}
"""Measurements of updates without a curve."""


def report_due(run: Run) -> bool:
    """Return whether there is no report, or one from before the last measurement."""
    path = run.folder / "report.html"
    return not path.exists() or path.stat().st_mtime_ns < run.metrics.stat().st_mtime_ns


def validated(task: Task, items: Sequence[Item]) -> Evaluation | None:
    """Return the metrics of greedy predictions for validation items; None if there are none."""
    greedy: dict[str, Any] = {} if task.generation is None else {"beam": 1, "num_best": 1}
    return task.evaluate(items, **greedy) if items else None


def write_report(
    run: Run,
    task: Task,
    evaluation: Evaluation | None,
    baselines: Sequence[Baseline] = (),
    remarks: Sequence[str] = (),
    *,
    samples: bool = True,
) -> None:
    """Write report.html into the run folder.

    Args:
        run: the run folder.
        task: the task with its best weights.
        evaluation: predictions for validation items, their metrics, and measures of attention.
        baselines: the baselines on the same items.
        remarks: sentences about the result.
        samples: whether the report may quote inputs, references and predictions.
    """
    page = _page(run, task, evaluation, baselines, remarks, samples=samples)
    write_file(run.folder / "report.html", page.encode(), "the run itself is kept")


def rehearse_report(
    run: Run, task: Task, items: Sequence[Item], baselines: Sequence[Baseline]
) -> float:
    """Estimate the seconds of `write_report` by making a page with a few items.

    Args:
        run: the run folder; nothing is written into it.
        task: the task, in training.
        items: the validation items.
        baselines: the baselines on the same items.
    """
    few = items[:: -(-len(items) // REHEARSED)] if items else []
    evaluation = validated(task, few)
    began = monotonic()
    if evaluation is not None:
        evaluation = looked_into(task, evaluation, REHEARSED)
    measured = monotonic()
    _page(run, task, evaluation, baselines, (), samples=True)
    times = min(MEASURED, len(items)) / max(1, len(few))
    return times * (measured - began) + monotonic() - measured


def looked_into(task: Task, evaluation: Evaluation, most: int = MEASURED) -> Evaluation:
    """Return the evaluation with measures of attention by a few items, if the model has any."""
    with suppress(WatchError):
        return with_attention(task, evaluation, most=most)
    return evaluation


def _page(
    run: Run,
    task: Task,
    evaluation: Evaluation | None,
    baselines: Sequence[Baseline],
    remarks: Sequence[str],
    *,
    samples: bool,
) -> str:
    """Return report.html."""
    records = read_metrics(run)
    validations = [record for record in records if "valid_loss" in record]
    metric = task.comparison_metric
    result: Result | None = None
    mistakes: list[Mistake] | None = None
    tables: dict[str, Sequence[Mapping[str, Any]]] = {}
    if evaluation is not None:
        result = _result(evaluation, baselines, metric)
        tables = _results(evaluation, baselines)
        if samples:
            mistakes = _mistakes(task, evaluation)
        else:
            evaluation = evaluation.without_samples()
        shown = {CONFUSIONS, MISTAKEN}
        tables |= {title: rows for title, rows in evaluation.tables.items() if title not in shown}
        tables |= _attention_tables(evaluation)
        remarks = [*evaluation.remarks, *remarks[1:]] if result else [*evaluation.remarks, *remarks]
    film = read_film(run) if samples else None
    report = Report(
        title=run.folder.resolve().name,
        about=_about(run, task),
        result=result,
        remarks=remarks,
        cost=_cost(task, records, validations),
        curves=_curves(run, task, validations, baselines, metric),
        confusions=None if evaluation is None else _confusions(evaluation),
        lengths=None if evaluation is None else _lengths(evaluation, metric),
        mistakes=mistakes,
        predictions=_predictions(evaluation) if evaluation is not None and samples else None,
        belief=[]
        if evaluation is None
        else [evaluation.meanings[name] for name in BELIEF if name in evaluation.meanings],
        film=None if film is None else {"inputs": film["inputs"], "frames": film["frames"]},
        details={**tables, "Validations": validations[-VALIDATIONS:]},
        updates=_updates(records),
        recipe=(run.folder / "recipe.toml").read_text(encoding="utf-8"),
    )
    return report_page(report)


def read_metrics(run: Run) -> list[dict[str, Any]]:
    """Return the lines of metrics.jsonl; a last line that a crash tore is left out."""
    records = []
    for line in run.metrics.read_text(encoding="utf-8").splitlines():
        try:
            records.append(parse_json(line))
        except ValueError:
            continue
    return records


def _about(run: Run, task: Task) -> str:
    about = run.about()
    source = about.get("source")
    parts = [f"Saccade report of {type(task.model).__name__}, {task.name.replace('_', ' ')}"]
    if isinstance(about.get("recipe"), str):
        parts.append(f"recipe {Path(about['recipe']).stem}")
    if isinstance(source, str):
        parts.append(f"data {source}")
    if isinstance(about.get("started"), str):
        parts.append(about["started"][:10])
    return " · ".join(parts)


def _result(evaluation: Evaluation, baselines: Sequence[Baseline], metric: str) -> Result | None:
    """Return the main metric with its interval, and the verdict beside the best baseline."""
    score = evaluation.scores.get(metric)
    if score is None:
        return None
    place = standing(evaluation.scores, baselines, metric)
    interval = "" if score.interval is None else _span(metric, score.interval)
    label, value = metric_label(metric), metric_text(metric, score.value)
    verdict = f"The model has {label} {value}; no baseline was measured."
    if place is not None:
        best = place.baseline
        other = metric_text(metric, best.scores[metric].value)
        verdict = f"Better than the best baseline, {best.name} ({other})."
        if not place.beats:
            much = "not better" if place.gain <= 0 else "not significantly better"
            verdict = f"The model is {much} than a {best.kind} baseline, {best.name} ({other})."
    rows = [Interval("this model", 0, score.value, score.interval)]
    rows += [
        Interval(f"{b.name}", None, b.scores[metric].value, b.scores[metric].interval)
        for b in baselines
        if metric in b.scores
    ]
    return Result(
        metric=label,
        value=value,
        interval=interval,
        items=f"{len(evaluation.items):,}",
        verdict=verdict,
        good=None if place is None else place.beats,
        chart=interval_chart(_in_unit(metric, rows), metric_axis(metric))
        if len(rows) > 1
        else None,
    )


def _span(metric: str, interval: tuple[float, float]) -> str:
    low, high = (metric_text(metric, end) for end in interval)
    return f"{low.removesuffix(' %')} to {high}"


def _in_unit(metric: str, rows: Sequence[Interval]) -> list[Interval]:
    unit = metric_unit(metric)
    return [
        Interval(
            row.name,
            row.number,
            unit * row.value,
            None if row.interval is None else (unit * row.interval[0], unit * row.interval[1]),
        )
        for row in rows
    ]


def _cost(
    task: Task, records: Sequence[Mapping[str, Any]], validations: Sequence[Mapping[str, Any]]
) -> dict[str, str]:
    """Return what the training cost, for people."""
    last = validations[-1] if validations else {}
    name = f"{task.unit}_per_second"
    speeds = sorted(record[name] for record in records if record.get(name))
    cost = {
        "training time": _duration(last.get("seconds", 0.0)),
        "updates": f"{last.get('step', 0):,}",
        "epochs": f"{last.get('epoch', 0.0):.3g}",
        "parameters": f"{sum(p.numel() for p in task.parameters()):,}",
    }
    if speeds:
        cost["speed"] = f"{speeds[len(speeds) // 2]:,.0f} {task.unit}/s"
    return cost


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _curves(
    run: Run,
    task: Task,
    validations: Sequence[Mapping[str, Any]],
    baselines: Sequence[Baseline],
    metric: str,
) -> dict[str, Markup]:
    """Return the losses and the main metric by step, with the step of the best weights marked."""
    numbers = [record for record in validations if isinstance(record["valid_loss"], int | float)]
    if len(numbers) < 2:
        return {}
    judged = task.selection_metric
    kept = [b.scores[judged].higher_is_better for b in baselines if judged in b.scores]
    if run.recipe().training.select_by == "loss" or not all(judged in r for r in numbers):
        best = min(numbers, key=lambda record: record["valid_loss"])
    else:
        sign = 1 if not kept or kept[0] else -1
        best = max(numbers, key=lambda record: (sign * record[judged], -record["valid_loss"]))
    curves = {}
    losses = [
        Line(name, number, [[(r["step"], r[key]) for r in numbers if _is_number(r.get(key))]])
        for number, (name, key) in enumerate(
            {"train": "train_loss", "validation": "valid_loss"}.items()
        )
    ]
    if chart := line_chart(losses, "step", "loss", best=(best["step"], best["valid_loss"])):
        curves["Loss"] = chart
    unit = metric_unit(metric)
    line = Line("validation", 1, [[(r["step"], unit * r[metric]) for r in numbers if metric in r]])
    rules = [(b.name, unit * b.scores[metric].value) for b in baselines if metric in b.scores]
    marked = (best["step"], unit * best[metric]) if metric in best else None
    rule = max(rules, key=lambda one: one[1], default=None)
    if chart := line_chart([line], "step", metric_axis(metric), best=marked, rule=rule):
        label = metric_label(metric)
        curves[f"{label[0].upper()}{label[1:]} on validation inputs"] = chart
    return curves


def _updates(records: Sequence[Mapping[str, Any]]) -> list[Markup]:
    """Return charts of the other numbers of the updates."""
    points: dict[str, list[tuple[Number, Number]]] = {}
    for record in records:
        for name, value in record.items() if "valid_loss" not in record else ():
            if name not in NOT_DRAWN and _is_number(value):
                points.setdefault(name.replace("_", " "), []).append((record["step"], value))
    drawn = (line_chart([Line(name, 0, [line])], "step", name) for name, line in points.items())
    return [chart for chart in drawn if chart is not None]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def _confusions(evaluation: Evaluation) -> Confusions | None:
    """Return the confusion matrix: each count shaded by its fraction of the row."""
    table = evaluation.tables.get(CONFUSIONS)
    if not table:
        return None
    rows = []
    for row in table:
        right, *numbers = row.values()
        counts = [number for number in numbers if isinstance(number, int)]
        total = sum(counts)
        shades = [(count, round(TENTHS * count / max(1, total))) for count in counts]
        own = dict(zip(list(row)[1:], counts, strict=True)).get(f"answered {right}", 0)
        rows.append((str(right), shades, f"{100 * own / total:.0f} %" if total else ""))
    names = [name.removeprefix("answered ") for name in list(table[0])[1:]]
    return Confusions(names=names, rows=rows)


def _lengths(evaluation: Evaluation, metric: str) -> Markup | None:
    """Return the main metric by the length of the input, at the middle of each bucket."""
    rows = [row for row in evaluation.by_length if metric in row]
    points = [((row["from"] + row["to"]) / 2, metric_unit(metric) * row[metric]) for row in rows]
    unit = rows[0]["unit"] if rows else ""
    return line_chart(
        [Line("this model", 0, [points])], f"{unit} of the input", metric_axis(metric)
    )


def _mistakes(task: Task, evaluation: Evaluation) -> list[Mistake] | None:
    """Return the most confident mistakes with their attention; None without a table of them."""
    if MISTAKEN not in evaluation.tables:
        return None
    rows = list(evaluation.tables[MISTAKEN])[:MISTAKES]
    by_input = {name: item for item in evaluation.items for name in (item.shown, item.inputs[0])}
    items = [by_input.get(str(row.get("input"))) for row in rows]
    inputs = [task.input_of(item) for item in items if item is not None]
    looks: list[AttentionRecord | None] = [None] * len(rows)
    if len(inputs) == len(rows):
        with suppress(SaccadeError):  # a model without attention
            looks = [answer.attention for answer in task.predict(inputs, attention=True)]
    return [_mistake(row, record) for row, record in zip(rows, looks, strict=True)]


def _mistake(row: Mapping[str, object], record: AttentionRecord | None) -> Mistake:
    if record is None or not record.layers or not record.read.words:
        return Mistake(row=row)
    weights = attended(record)
    if isinstance(record.read, ImageSide):
        return Mistake(row=row, image=covered(record.read, weights))
    mean = weights / max(1.0, float(weights.sum()))
    return Mistake(row=row, words=list(zip(record.read.words, tenths(mean), strict=True)))


def _predictions(evaluation: Evaluation) -> list[dict[str, str]]:
    """Return the rows of the table of predictions."""
    shown = zip(evaluation.items[:PREDICTIONS], evaluation.answers[:PREDICTIONS], strict=True)
    return [
        {
            "input": item.shown,
            "prediction": prediction,
            "reference": " | ".join(item.references),
        }
        for item, prediction in shown
    ]


def _results(
    evaluation: Evaluation, baselines: Sequence[Baseline]
) -> dict[str, Sequence[Mapping[str, Any]]]:
    """Return the metrics of the model and of its baselines, one row per method."""
    names = list(evaluation.scores)
    methods = {"this model": evaluation.values()}
    methods |= {f"{b.name} ({b.kind} baseline)": b.values() for b in baselines}
    beside = "Result and baselines" if baselines else "Result"
    return {
        f"{beside} on {len(evaluation.items):,} validation items": [
            {
                "method": method,
                **{
                    metric_label(name): metric_text(name, values[name]) if name in values else ""
                    for name in names
                },
            }
            for method, values in methods.items()
        ]
    }


def _attention_tables(evaluation: Evaluation) -> dict[str, Sequence[Mapping[str, Any]]]:
    """Return each measure of attention with its sentence, and the measures of each head."""
    if not evaluation.attention:
        return {}
    rows = [
        {"measure": name, "value": evaluation.scores[name].value, "meaning": meaning}
        for name, meaning in evaluation.meanings.items()
    ]
    return {"Measures of attention": rows, "Heads": evaluation.attention["heads"]}
