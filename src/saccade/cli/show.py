"""saccade show: what a run is, its scores, its cost, and the next commands."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from saccade.cli.options import AsJson, RunFolder
from saccade.cli.output import counted, print_score, size_text

if TYPE_CHECKING:
    from saccade.training.summary import RunSummary

BLOCKS = "▁▂▃▄▅▆▇█"
WIDTH = 40
"""Maximum width of a learning curve, in characters."""


def run(run_folder: RunFolder, *, as_json: AsJson = False) -> None:
    """Show a run: its task, data, scores and cost.

    Also prints its baselines, its learning curves and the commands that use the run. Scores are
    those of the best weights on the validation set, with 95 % confidence intervals.
    """
    from saccade.training.summary import summarize

    summary = summarize(run_folder)
    if as_json:
        print(json.dumps(summary.as_json(), ensure_ascii=False))
        return
    _print_facts(summary)
    _print_scores(summary)
    _print_curves(summary)
    print("\nNext commands:")
    commands = summary.commands()
    width = max(map(len, commands))
    for name, command in commands.items():
        print(f"  {name:<{width}}  {command}")


def _print_facts(summary: "RunSummary") -> None:
    from saccade.lens.formatting import in_columns

    recipe = f", recipe {summary.recipe}" if summary.recipe else ""
    print(f"{summary.folder}: {summary.task}{recipe}, {summary.state}")
    size = size_text(summary.total_bytes)
    weights = "no weights yet"
    if summary.parameters is not None:
        weights = f"{summary.parameters:,} weights, {size_text(summary.model_bytes)}"
    examples = [f"{count:,} {name}" for name, count in summary.valid.examples.items()]
    began = "imported" if summary.state == "imported" else "begun"
    rows = [
        ["data", " · ".join([summary.data or "not recorded", *examples])],
        ["model", f"{summary.model}, {weights} (run folder {size})"],
        [began, f"{summary.started:%Y-%m-%d %H:%M}"],
        ["training", summary.cost()],
    ]
    print(in_columns([[f"  {name}", text] for name, text in rows if text]))


def _print_scores(summary: "RunSummary") -> None:
    if summary.valid.scores:
        print(f"\nScores on {counted(summary.valid.items, 'validation item')}:")
        for score in summary.valid.scores.values():
            print_score(score, indent="  ")
    elif summary.value is not None:
        print(f"\nLast validation: {summary.metric} {summary.value:.4g}")
    for baseline in summary.baselines:
        if summary.metric in baseline.scores:
            print(f"Baseline {baseline.name} ({baseline.kind}):")
            print_score(baseline.scores[summary.metric], indent="  ")
    if summary.standing is not None and not summary.standing.beats:
        print(f"  {summary.standing}")


def _print_curves(summary: "RunSummary") -> None:
    names = [name for name in ("valid_loss", summary.metric) if name in summary.last]
    curves = {
        name: [float(record[name]) for record in summary.curve if record.get(name) is not None]
        for name in dict.fromkeys(names)
    }
    shown = {name: values for name, values in curves.items() if len(values) > 1}
    if not shown:
        return
    print(f"\nLearning curves ({counted(len(summary.curve), 'validation')}, first → last):")
    width = max(map(len, shown))
    for name, values in shown.items():
        print(f"  {name:<{width}}  {values[0]:.4g} {sparkline(values)} {values[-1]:.4g}")


def sparkline(values: Sequence[float], width: int = WIDTH) -> str:
    """Return numbers as a line of block characters, scaled from the lowest to the highest.

    If there are more than `width` numbers, evenly spaced ones are drawn, including both ends.

    Examples:
        >>> sparkline([3.0, 2.0, 1.0, 1.0])
        '█▅▁▁'
    """
    if len(values) > width:
        last = len(values) - 1
        values = [values[round(i * last / (width - 1))] for i in range(width)]
    low, high = min(values), max(values)
    scale = (len(BLOCKS) - 1) / (high - low) if high > low else 0.0
    return "".join(BLOCKS[round((value - low) * scale)] for value in values)
