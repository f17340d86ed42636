"""The numbers of report.html: measurements of a run, and predictions for some validation items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from saccade.data.corpus import Item
from saccade.errors import WatchError
from saccade.files import parse_json, write_file
from saccade.lens.page.report import report_page
from saccade.tasks import Evaluation, Task
from saccade.tasks.measures import with_attention
from saccade.training.run import Run
from saccade.training.summary import keep_scores

PREDICTIONS = 12
"""Items whose predictions are shown."""
MEASURED = 24
"""Items by which attention is measured."""
VALIDATIONS = 20
"""The last validations that are listed."""


def report_due(run: Run) -> bool:
    """Return whether there is no report, or one from before the last measurement."""
    path = run.folder / "report.html"
    return not path.exists() or path.stat().st_mtime_ns < run.metrics.stat().st_mtime_ns


def write_report(
    run: Run,
    task: Task,
    items: Sequence[Item],
    *,
    samples: bool = True,
    examples: Mapping[str, int] | None = None,
) -> None:
    """Write report.html and evaluation.json into the run folder.

    Args:
        run: the run folder.
        task: the task with its best weights.
        items: validation items to predict; none if it is empty.
        samples: whether the report may quote inputs, references and predictions.
        examples: the number of encoded examples by split.
    """
    records = read_metrics(run)
    validations = [record for record in records if "valid_loss" in record]
    last = validations[-1] if validations else {}
    parameters = sum(p.numel() for p in task.parameters())
    predictions: list[dict[str, str]] = []
    tables: dict[str, Sequence[Mapping[str, Any]]] = {}
    if items:
        greedy: dict[str, Any] = {} if task.generation is None else {"beam": 1, "num_best": 1}
        evaluation = task.evaluate(items, **greedy)
        keep_scores(run, task, evaluation, examples or {})
        with suppress(WatchError):  # a model without attention
            evaluation = with_attention(task, evaluation, most=MEASURED)
        if samples:
            predictions = _predictions(evaluation)
        else:
            evaluation = evaluation.without_samples()
        tables = {**evaluation.tables, **_attention_tables(evaluation)}
    page = report_page(
        title=f"Saccade: {run.folder.resolve().name}",
        summary=f"{type(task.model).__name__}, {parameters:,} parameters; "
        f"{last.get('step', 0):,} steps, {last.get('seconds', 0) / 60:.1f} minutes.",
        records=records,
        predictions=predictions,
        tables={**tables, "Validations": validations[-VALIDATIONS:]},
        recipe=(run.folder / "recipe.toml").read_text(encoding="utf-8"),
    )
    write_file(run.folder / "report.html", page.encode(), "the run itself is kept")


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
            "input": " | ".join(item.inputs),
            "prediction": prediction,
            "reference": " | ".join(item.references),
        }
        for item, prediction in shown
    ]


def _attention_tables(evaluation: Evaluation) -> dict[str, Sequence[Mapping[str, Any]]]:
    """Return each measure of attention with its sentence, and the measures of each head."""
    if not evaluation.attention:
        return {}
    rows = [
        {"measure": name, "value": evaluation.scores[name].value, "that is": meaning}
        for name, meaning in evaluation.meanings.items()
    ]
    return {"How far to believe its attention": rows, "Heads": evaluation.attention["heads"]}
