"""saccade accept: files of a run that were changed on purpose."""

from pathlib import Path
from typing import Annotated

import typer


def run(
    run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
) -> None:
    """Trust the weights and vocabularies of a run as they are now.

    Saccade refuses to load files whose SHA-256 differs from that in the run's MANIFEST.json. This
    writes a new MANIFEST.json: use it after you changed such a file on purpose.
    """
    from saccade.training.run import Run

    changed = Run(run_folder).accept()
    print(f"{run_folder}: accepted {', '.join(changed) if changed else 'all files, none changed'}")
