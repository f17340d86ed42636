"""An inspection as a page: one file that needs nothing else."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from saccade.data.sources.columns import spaced
from saccade.data.survey import Images, LabelFacts
from saccade.inspection.cost import Cost
from saccade.inspection.findings import Findings
from saccade.inspection.text import MEGABYTE, duration, percent
from saccade.lens.page.charts import bar_chart
from saccade.lens.page.document import document

BARS = 30
"""Maximum number of bars in the chart of labels."""


def page(inspection: Findings) -> str:
    """Return the page of an inspection."""
    survey = inspection.survey
    train = next(iter(survey.splits.values()))
    labels, images = train.labels, train.images
    fault, noun = train.broken_files
    return document(
        "inspection/page.html",
        title=f"Saccade: {inspection.data}",
        inspection=inspection,
        rows=[
            {
                "split": name,
                "rows": spaced(split.rows),
                "empty": split.empty.count,
                "broken": split.broken.count,
                "duplicates": split.duplicates.count,
                "contradictory": split.contradictions.count,
            }
            for name, split in survey.splits.items()
        ],
        leaks=[
            {"split": leak.split, "also in": leak.other, "rows": leak.count, "first": leak.first[0]}
            for leak in survey.leaks
        ],
        lengths=[
            (
                f"{lengths.unit} of {name}: median {lengths.median}, 95 % up to {lengths.p95}, "
                f"longest {lengths.longest}",
                bar_chart(lengths.bars, f"{lengths.unit} of {name}", "rows"),
            )
            for name, lengths in train.lengths.items()
        ],
        labels=_labels(labels) if labels else [],
        label_chart=_label_chart(labels) if labels else None,
        scripts=[
            {"column": column, "script": script, "letters": percent(fraction)}
            for column, scripts in train.scripts.items()
            for script, fraction in scripts.items()
        ],
        images=_images(images) if images else [],
        vectors=[
            {"numbers per vector": width, "sequences": spaced(count)}
            for width, count in (train.vectors.widths if train.vectors else {}).items()
        ],
        broken=[{f"broken {noun}": text} for text in fault.first],
        recipes=[
            {"recipe": fit.recipe, "task": fit.task.replace("_", " "), "for": fit.description}
            for fit in inspection.fits
        ],
        cost=_cost(inspection.cost) if inspection.cost else [],
    )


def _labels(labels: LabelFacts) -> list[dict[str, Any]]:
    rows = max(1, sum(labels.counts.values()))
    return [
        {"label": name, "rows": spaced(count), "fraction": percent(count / rows)}
        for name, count in labels.counts.items()
    ]


def _label_chart(labels: LabelFacts) -> Markup | None:
    counts = list(labels.counts.items())[:BARS]
    shown = [(name if len(name) <= 24 else f"{name[:24]}…", count) for name, count in counts]
    return bar_chart(shown, "label", "rows")


def _images(images: Images) -> list[dict[str, Any]]:
    return [{"size": size, "images": spaced(count)} for size, count in images.sizes.items()] + [
        {"mode": mode, "images": spaced(count)} for mode, count in images.modes.items()
    ]


def _cost(cost: Cost) -> list[dict[str, str]]:
    memory = "?" if cost.peak_memory is None else f"{cost.peak_memory / MEGABYTE:,.0f} MiB"
    row = {
        "recipe": cost.recipe,
        "parameters": spaced(cost.parameters),
        "time per epoch": duration(cost.minutes_per_epoch),
        "updates per epoch": spaced(round(cost.updates_per_epoch)),
        "seconds per update": f"{cost.seconds_per_update:.3g}",
        "time of the recipe's budget": duration(cost.minutes),
        "memory": memory,
        "device": f"{cost.device}, threads: {cost.threads}",
    }
    if cost.tokens is not None:
        row["above the limit of tokens"] = f"{percent(cost.tokens.above)} of {cost.tokens.limit}"
    return [row]
