"""saccade clean: remove what a run does not need to predict."""

import sys
from typing import Annotated

import typer

from saccade.cli.options import RunFolder
from saccade.cli.output import size_text
from saccade.errors import RunError


def run(
    run_folder: RunFolder,
    *,
    yes: Annotated[
        bool,
        typer.Option("--yes", help="Remove without asking. Without a terminal, it is needed."),
    ] = False,
) -> None:
    """Remove the files that a run does not need to predict.

    These are checkpoints, engines and the weights that --init copied. Prints them with their sizes
    and asks for confirmation. The run then predicts, serves and exports as before, but cannot be
    resumed; a new run can start from it with `train --init RUN`.
    """
    from saccade.training.run import Run

    chosen = Run(run_folder)
    chosen.about()
    sizes = chosen.removable()
    if not sizes:
        print(f"{run_folder} has nothing to remove.")
        return
    for path, size in sizes.items():
        print(f"{size_text(size):>10}  {path}")
    total = size_text(sum(sizes.values()))
    if not yes:
        if not sys.stdin.isatty():
            raise RunError(
                f"nothing was removed. Give --yes to remove these files ({total}); the run cannot "
                "be resumed after that"
            )
        typer.confirm(f"Remove these files ({total})? The run cannot be resumed", abort=True)
    freed = chosen.clean()
    print(f"removed {size_text(freed)}; {run_folder} has {size_text(chosen.size())} left")
