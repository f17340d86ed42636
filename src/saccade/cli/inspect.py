"""saccade inspect: report what data holds, which recipes fit, and what training would cost."""

from pathlib import Path
from typing import Annotated

import typer

from saccade.cli.options import Changes, Columns, Pair, Quiet, SkipBroken, ValidFraction


def run(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="Data to inspect: a folder, a file, builtin:NAME or hf:NAME, as for train --data.",
            show_default=False,
        ),
    ],
    recipe: Annotated[
        str | None,
        typer.Argument(
            metavar="RECIPE",
            help="Recipe whose columns are read and whose cost is estimated. Default: chosen from "
            "the columns and the size of the data.",
        ),
    ] = None,
    *,
    set_: Changes = None,
    pair: Pair = None,
    columns: Columns = None,
    valid_fraction: ValidFraction = None,
    skip_broken: SkipBroken = False,
    trial: Annotated[
        float,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help="Seconds of training to estimate the cost from; 0 skips the estimate.",
        ),
    ] = 10.0,
    json_: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of text.")
    ] = False,
    page: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write an HTML page with charts. Default: no page."),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Report the contents and faults of data before you train on it.

    Prints files, columns, rows, lengths, labels, scripts and image sizes; duplicates, rows in two
    splits, empty and broken rows; the recipes that fit; and the cost of training on this machine.
    """
    from saccade.files import write_file
    from saccade.inspection import inspect
    from saccade.lens.formatting import readable_json
    from saccade.training.console import Console

    inspection = inspect(
        data,
        recipe,
        pair=pair,
        columns=columns,
        changes=set_ or (),
        valid_fraction=valid_fraction,
        skip_broken=skip_broken,
        trial=trial,
        console=Console(quiet=quiet),
    )
    if page is not None:
        write_file(page, inspection.page().encode(), "the data is unchanged")
    print(readable_json(inspection.as_json()) if json_ else inspection.summary())
