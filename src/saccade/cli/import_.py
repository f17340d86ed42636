"""saccade import: turn a Hugging Face folder into a run."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from saccade.cli.options import NewRun


def run(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER",
            help="Hugging Face folder of a text, translation or image model, with "
            "tokenizer.json or preprocessor_config.json; see docs/how-to/export.md.",
            show_default=False,
        ),
    ],
    *,
    out: NewRun,
    pairs: Annotated[
        bool,
        typer.Option("--pairs", help="The classifier reads two texts per input instead of one."),
    ] = False,
) -> None:
    """Import a Hugging Face model as a run.

    The run can be used for predict, evaluate and serve, and to start training from (train
    --init).
    """
    from saccade.interop.huggingface.task_import import read_task
    from saccade.training.console import Console
    from saccade.training.recipe import FINE_TUNING, Recipe
    from saccade.training.run import Run

    target = Run(out)
    target.require_new()
    with Console().working(f"reading {folder}"):
        read = read_task(folder, pairs=pairs)
        task = read.task
        recipe = Recipe(task.name, read.options, FINE_TUNING)
        target.create(recipe, task, {"imported": folder.resolve().name})
    count = sum(p.numel() for p in task.model.parameters())
    print(f"{out}: {task.name}, a {type(task.model).__name__} with {count:,} parameters")
    print(f"Try it: saccade predict {shlex.join([str(out)])}")
