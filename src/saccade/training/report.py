"""report.html: the curves of a run and some of its answers, in one file that needs nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from saccade.data.corpus import Item
from saccade.errors import WatchError
from saccade.lens.page.document import document
from saccade.tasks.base import Evaluation, Task
from saccade.tasks.measures import with_attention
from saccade.training.files import room_on_disk, write_file
from saccade.training.run import Run

SAMPLES = 12
LOOKED = 24
"""Items by which attention is measured for the report."""
WIDTH, HEIGHT, EDGE = 640, 240, 48
NOT_DRAWN = {"step", "epoch", "seconds", "predictions"}

STYLE = """
figure svg { width: 100%; max-width: 60rem; height: auto }
.curve { fill: none; stroke: var(--looks); stroke-width: 2 } .axis { stroke: var(--line) }
svg text { fill: currentColor; font-size: 12px }
"""
BODY = """<p>{told}</p>
<h2>Curves</h2>{curves}
<h2>Answers to inputs it was not trained on</h2>{answers}
{tables}
{attention}
<h2>Validations</h2>{validations}
<h2>Recipe</h2><pre>{recipe}</pre>"""


def report_due(run: Run) -> bool:
    """Whether there is none, or one from before the last measurement."""
    path = run.folder / "report.html"
    return not path.exists() or path.stat().st_mtime_ns < run.metrics.stat().st_mtime_ns


def write_report(run: Run, task: Task[Any], items: Sequence[Item]) -> None:
    """Write report.html into the run folder."""
    records = read_metrics(run)
    validations = [record for record in records if "valid_loss" in record]
    best = validations[-1] if validations else {}
    parameters = sum(p.numel() for p in task.parameters())
    found = _measured(task, items) if items else None
    body = BODY.format(
        told=escape(
            f"{type(task.model).__name__}, {parameters:,} parameters; "
            f"{best.get('step', 0):,} steps, {best.get('seconds', 0) / 60:.1f} minutes."
        ),
        curves=_curves(records),
        answers=_answers(found, SAMPLES),
        tables="".join(
            f"<h2>{escape(title)}</h2>{table(rows)}" for title, rows in found.tables.items()
        )
        if found
        else "",
        attention=_attention(found),
        validations=table(validations[-20:]),
        recipe=escape((run.folder / "recipe.toml").read_text(encoding="utf-8")),
    )
    page = document(f"Saccade: {run.folder.resolve().name}", body, style=STYLE)
    path = run.folder / "report.html"
    with room_on_disk(path, "the run itself is kept"):
        write_file(path, page.encode())


def _measured(task: Task[Any], items: Sequence[Item]) -> Evaluation:
    """The answers, and how far to believe the attention, where there is any."""
    found = task.evaluate(items, quick=True)
    try:
        return with_attention(task, found, most=LOOKED)
    except WatchError:
        return found


def _attention(found: Evaluation | None) -> str:
    """What was measured of attention, each number with its sentence."""
    if found is None or not found.attention:
        return ""
    rows = [
        {"measure": name, "value": found.scores[name].value, "that is": said}
        for name, said in found.meanings.items()
    ]
    return (
        f"<h2>How far to believe its attention</h2>{table(rows)}"
        f"<h2>Heads</h2>{table(found.attention['heads'])}"
    )


def read_metrics(run: Run) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl; a last line that a crash tore is left out."""
    found = []
    for line in run.metrics.read_text(encoding="utf-8").splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def _curves(records: Sequence[Mapping[str, Any]]) -> str:
    """Of updates, and of validations, whose records may hold the same names."""
    figures = []
    for title in ("", "validation: "):
        group = [record for record in records if ("valid_loss" in record) == bool(title)]
        for name in dict.fromkeys(name for record in group for name in record):
            numbers = (r for r in group if isinstance(r.get(name), int | float))
            drawn = [(int(r["step"]), float(r[name])) for r in numbers]
            told = name not in NOT_DRAWN and not name.endswith("_per_second")
            if told and len(drawn) > 1:
                figures.append(_curve(title + name, drawn))
    return "".join(figures) or "<p>There are too few measurements for a curve.</p>"


def _curve(name: str, points: Sequence[tuple[int, float]]) -> str:
    xs, ys = [x for x, _ in points], [y for _, y in points]
    low, high = min(ys), max(ys)
    across, up = (max(xs) - min(xs)) or 1, (high - low) or 1
    places = " ".join(
        f"{EDGE + (x - min(xs)) / across * (WIDTH - 2 * EDGE):.1f},"
        f"{HEIGHT - EDGE - (y - low) / up * (HEIGHT - 2 * EDGE):.1f}"
        for x, y in points
    )
    bottom, right = HEIGHT - EDGE, WIDTH - EDGE
    label = escape(name.replace("_", " "))
    return (
        f'<figure><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label} by step">'
        f'<line class="axis" x1="{EDGE}" y1="{bottom}" x2="{right}" y2="{bottom}"/>'
        f'<line class="axis" x1="{EDGE}" y1="{EDGE}" x2="{EDGE}" y2="{bottom}"/>'
        f'<text x="{EDGE}" y="24">{label}</text>'
        f'<text x="4" y="{EDGE + 4}">{high:.4g}</text><text x="4" y="{bottom}">{low:.4g}</text>'
        f'<text x="{EDGE}" y="{bottom + 20}">{min(xs):,}</text>'
        f'<text x="{right}" y="{bottom + 20}" text-anchor="end">step {max(xs):,}</text>'
        f'<polyline class="curve" points="{places}"/></svg></figure>'
    )


def _answers(found: Evaluation | None, most: int) -> str:
    if found is None:
        return "<p>None were asked for.</p>"
    return table(
        [
            {
                "input": " | ".join(item.inputs),
                "answer": answer,
                "right": " | ".join(item.references),
            }
            for item, answer in list(zip(found.items, found.answers, strict=True))[:most]
        ]
    )


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as an HTML table, a column for each name in any of them."""
    if not rows:
        return "<p>None.</p>"
    names = list(dict.fromkeys(name for row in rows for name in row))
    head = "".join(f"<th>{escape(name.replace('_', ' '))}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(shown(row.get(name, '')))}</td>" for name in names) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def shown(value: Any) -> str:
    """A value of a table, as text."""
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
