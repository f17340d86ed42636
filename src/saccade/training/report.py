"""The numbers of report.html: measurements of a run, and predictions for some validation items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any

from saccade.data.corpus import Item
from saccade.errors import WatchError
from saccade.files import parse_json, write_file
from saccade.lens.page.report import report_page
from saccade.tasks import Baseline, Evaluation, Task
from saccade.tasks.measures import with_attention
from saccade.training.run import Run

PREDICTIONS = 12
"""Items whose predictions are shown."""
MEASURED, REHEARSED = 24, 3
"""Items by which attention is measured: for the report, and for its rehearsal."""
VALIDATIONS = 20
"""The last validations that are listed."""


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
        evaluation: predictions for validation items, and their metrics.
        baselines: the baselines on the same items.
        remarks: sentences about the result.
        samples: whether the report may quote inputs, references and predictions.
    """
    if evaluation is not None:
        evaluation = _measured(task, evaluation, MEASURED)
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
        evaluation = _measured(task, evaluation, REHEARSED)
    measured = monotonic()
    _page(run, task, evaluation, baselines, (), samples=True)
    times = min(MEASURED, len(items)) / max(1, len(few))
    return times * (measured - began) + monotonic() - measured


def _measured(task: Task, evaluation: Evaluation, most: int) -> Evaluation:
    """Return the evaluation with measures of attention, if the model has any."""
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
    last = validations[-1] if validations else {}
    parameters = sum(p.numel() for p in task.parameters())
    predictions: list[dict[str, str]] = []
    tables: dict[str, Sequence[Mapping[str, Any]]] = {}
    if evaluation is not None:
        tables = _results(evaluation, baselines)
        if samples:
            predictions = _predictions(evaluation)
        else:
            evaluation = evaluation.without_samples()
        tables |= {**evaluation.tables, **_attention_tables(evaluation)}
    remarks = [*(() if evaluation is None else evaluation.remarks), *remarks]
    return report_page(
        title=f"Saccade: {run.folder.resolve().name}",
        summary=f"{type(task.model).__name__}, {parameters:,} parameters; "
        f"{last.get('step', 0):,} steps, {last.get('seconds', 0) / 60:.1f} minutes."
        + "".join(f" {remark[0].upper()}{remark[1:]}." for remark in remarks),
        records=records,
        predictions=predictions,
        tables={**tables, "Validations": validations[-VALIDATIONS:]},
        recipe=(run.folder / "recipe.toml").read_text(encoding="utf-8"),
    )


def read_metrics(run: Run) -> list[dict[str, Any]]:
    """Return the lines of metrics.jsonl; a last line that a crash tore is left out."""
    records = []
    for line in run.metrics.read_text(encoding="utf-8").splitlines():
        try:
            records.append(parse_json(line))
        except ValueError:
            continue
    return records


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
    names = [name for name in evaluation.scores if any(name in b.scores for b in baselines)]
    if not names:
        return {}
    methods = {"this model": evaluation.values()}
    methods |= {f"{b.name} ({b.kind} baseline)": b.values() for b in baselines}
    return {
        f"Result and baselines on {len(evaluation.items):,} validation items": [
            {"method": method, **{name: values.get(name) for name in names}}
            for method, values in methods.items()
        ]
    }


def _attention_tables(evaluation: Evaluation) -> dict[str, Sequence[Mapping[str, Any]]]:
    """Return each measure of attention with its sentence, and the measures of each head."""
    if not evaluation.attention:
        return {}
    rows = [
        {"measure": name, "value": evaluation.scores[name].value, "that is": meaning}
        for name, meaning in evaluation.meanings.items()
    ]
    return {"How far to believe its attention": rows, "Heads": evaluation.attention["heads"]}
