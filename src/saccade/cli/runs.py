"""saccade runs: a table of the runs below a folder."""

import json
from pathlib import Path
from typing import Annotated

import typer

from saccade.cli.options import AsJson
from saccade.cli.output import counted
from saccade.errors import RunError

HEADER = ["run", "task", "recipe", "metric", "score", "baseline", "minutes", "begun", "state"]
NUMBERS = (4, 5, 6)
"""Right-aligned columns."""


def run(
    folder: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="Folder whose runs are listed, at any depth to 6."),
    ] = Path(),
    *,
    as_json: AsJson = False,
) -> None:
    """List the runs in a folder and below it, also unfinished ones.

    The score is that of the best weights on the validation set, beside the best baseline on the
    same items. `saccade show RUN` prints everything about one.
    """
    if not folder.is_dir():
        raise RunError(f"the folder {folder} does not exist; check the path")

    from saccade.lens.formatting import in_columns
    from saccade.training.console import Console
    from saccade.training.summary import summaries

    with Console().counting(f"reading runs below {folder}:") as bar:
        results = []
        for result in summaries(folder):
            results.append(result)
            bar.to(len(results))
    if as_json:
        listed = [
            {"folder": str(path), "state": "damaged", "error": summary}
            if isinstance(summary, str)
            else summary.as_json()
            for path, summary in results
        ]
        print(json.dumps({"runs": listed}, ensure_ascii=False))
        return
    if not results:
        print(f"There are no runs in {folder}. `saccade train` writes one with --out RUN.")
        return
    rows = [HEADER]
    for path, summary in results:
        if isinstance(summary, str):
            continue
        metric, minutes, standing = summary.metric, summary.minutes, summary.standing
        baseline = None if standing is None else standing.baseline.scores[metric].value
        rows.append(
            [
                str(path),
                summary.task,
                Path(summary.recipe).name,
                metric,
                _number(summary.value),
                _number(baseline),
                "" if minutes is None else f"{minutes:.1f}",
                f"{summary.started:%Y-%m-%d %H:%M}",
                summary.state,
            ]
        )
    if len(rows) > 1:
        print(in_columns(rows, right=NUMBERS))
    damaged = [(path, summary) for path, summary in results if isinstance(summary, str)]
    if damaged:
        print(f"\n{counted(len(damaged), 'folder')} that cannot be read:")
        for path, reason in damaged:
            print(f"  {path}: {reason.removeprefix(f'{path} ')}")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
