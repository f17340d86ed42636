"""report.html: the curves of a run and some of its answers, in one file that needs nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from saccade.data.corpus import Item
from saccade.errors import WatchError
from saccade.files import room_on_disk, write_file
from saccade.lens.page.document import document
from saccade.tasks import Evaluation, Task
from saccade.tasks.measures import with_attention
from saccade.training.run import Run

SAMPLES = 12
LOOKED = 24
"""Items by which attention is measured for the report."""
NOT_DRAWN = {"step", "epoch", "seconds", "predictions"}


def report_due(run: Run) -> bool:
    """Whether there is none, or one from before the last measurement."""
    path = run.folder / "report.html"
    return not path.exists() or path.stat().st_mtime_ns < run.metrics.stat().st_mtime_ns


def write_report(run: Run, task: Task, items: Sequence[Item]) -> None:
    """Write report.html into the run folder."""
    from saccade.lens.drawing.chart import (
        COLOURS,  # with matplotlib, which a training needs only here
    )

    records = read_metrics(run)
    validations = [record for record in records if "valid_loss" in record]
    best = validations[-1] if validations else {}
    parameters = sum(p.numel() for p in task.parameters())
    found = _measured(task, items) if items else None
    page = document(
        "training/report.html",
        title=f"Saccade: {run.folder.resolve().name}",
        summary=f"{type(task.model).__name__}, {parameters:,} parameters; "
        f"{best.get('step', 0):,} steps, {best.get('seconds', 0) / 60:.1f} minutes.",
        colours=COLOURS,
        curves=_curves(records),
        answers=_answers(found) if found else (),
        tables={**(_tables(found) if found else {}), "Validations": validations[-20:]},
        recipe=(run.folder / "recipe.toml").read_text(encoding="utf-8"),
    )
    path = run.folder / "report.html"
    with room_on_disk(path, "the run itself is kept"):
        write_file(path, page.encode())


def _measured(task: Task, items: Sequence[Item]) -> Evaluation:
    """The answers, and how far to believe the attention, where there is any."""
    found = task.evaluate(items, quick=True)
    try:
        return with_attention(task, found, most=LOOKED)
    except WatchError:
        return found


def _tables(found: Evaluation) -> dict[str, Any]:
    """Return the tables of a task and, where attention was measured, each number with its sentence
    and what was found of each head.
    """
    if not found.attention:
        return dict(found.tables)
    rows = [
        {"measure": name, "value": found.scores[name].value, "that is": said}
        for name, said in found.meanings.items()
    ]
    attention = {"How far to believe its attention": rows, "Heads": found.attention["heads"]}
    return {**found.tables, **attention}


def read_metrics(run: Run) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl; a last line that a crash tore is left out."""
    found = []
    for line in run.metrics.read_text(encoding="utf-8").splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def _curves(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Draw all losses in one chart and every other number in its own.

    Updates and validations may hold the same names.
    """
    from saccade.lens.drawing.line_chart import line_chart

    drawn: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for record in records:
        kind = "validation: " if "valid_loss" in record else ""
        for name, value in record.items():
            if name in NOT_DRAWN or name.endswith("_per_second"):
                continue
            if isinstance(value, int | float):
                title = "loss" if name.endswith("loss") else kind + name
                line = name if name.startswith(("train_", "valid_")) else kind + name
                points = drawn.setdefault(title, {}).setdefault(line, [])
                points.append((float(record["step"]), float(value)))
    curves = []
    for title, lines in drawn.items():
        numbered = {(name, number): [line] for number, (name, line) in enumerate(lines.items())}
        if chart := line_chart(numbered, "step", title):
            names = [(number, name.replace("_", " ")) for name, number in numbered]
            alt = f"{title.replace('_', ' ')} by step"
            curves.append({"chart": chart, "alt": alt, "lines": names if len(names) > 1 else ()})
    return curves


def _answers(found: Evaluation) -> list[dict[str, str]]:
    pairs = zip(found.items[:SAMPLES], found.answers[:SAMPLES], strict=True)
    return [
        {"input": " | ".join(item.inputs), "answer": answer, "right": " | ".join(item.references)}
        for item, answer in pairs
    ]
