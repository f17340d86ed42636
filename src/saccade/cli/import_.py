"""saccade import: a model of another tool becomes a run."""

import shlex
from pathlib import Path
from typing import Annotated

import typer


def run(
    folder: Annotated[
        Path,
        typer.Argument(help="A Hugging Face folder of bert, gpt2 or marian, with tokenizer.json."),
    ],
    *,
    out: Annotated[Path, typer.Option(help="The run folder to make.")],
    pairs: Annotated[
        bool, typer.Option("--pairs", help="The classifier reads two texts at once.")
    ] = False,
) -> None:
    """Make a run of a Hugging Face folder."""
    from saccade.interop.huggingface.reading import read_task
    from saccade.training.recipe import FINE_TUNING, Recipe
    from saccade.training.run import Run

    target = Run(out)
    target.require_new()
    read = read_task(folder, pairs=pairs)
    task = read.task
    recipe = Recipe(task.name, read.options, FINE_TUNING)
    target.create(recipe, task, {"imported": folder.resolve().name})
    count = sum(p.numel() for p in task.model.parameters())
    print(f"{out}: {task.name}, a {type(task.model).__name__} of {count:,} parameters")
    print(f"Ask it: saccade predict {shlex.join([str(out)])}")
