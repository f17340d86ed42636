"""The report of a training run as a page: curves, predictions, tables and the recipe."""

from collections.abc import Mapping, Sequence
from typing import Any

from saccade.lens.page.document import document

Record = Mapping[str, Any]
"""Measurements by name, among them `step`; None where a number was not finite."""

NOT_DRAWN = {"step", "epoch", "seconds", "predictions"}
"""Measurements without a curve."""


def report_page(
    *,
    title: str,
    summary: str,
    records: Sequence[Record],
    predictions: Sequence[Mapping[str, str]],
    tables: Mapping[str, Sequence[Record]],
    recipe: str,
) -> str:
    """Return the page, which needs no other file.

    Args:
        title: its title.
        summary: one line about the model and its training.
        records: all measurements, of updates and of validations; those of a validation have a
            `valid_loss`.
        predictions: rows of a table of inputs, predictions and references.
        tables: further tables as rows, by their titles.
        recipe: text of the recipe.
    """
    from saccade.lens.drawing.chart import COLOURS  # loads matplotlib

    return document(
        "lens/page/report.html",
        title=title,
        summary=summary,
        colours=COLOURS,
        curves=_curves(records),
        predictions=predictions,
        tables=tables,
        recipe=recipe,
    )


def _curves(records: Sequence[Record]) -> list[dict[str, object]]:
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
    curves: list[dict[str, object]] = []
    for title, lines in drawn.items():
        numbered = {(name, number): [line] for number, (name, line) in enumerate(lines.items())}
        if chart := line_chart(numbered, "step", title):
            names = [(number, name.replace("_", " ")) for name, number in numbered]
            alt = f"{title.replace('_', ' ')} by step"
            curves.append({"chart": chart, "alt": alt, "lines": names if len(names) > 1 else ()})
    return curves
