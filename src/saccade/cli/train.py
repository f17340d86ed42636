"""saccade train: a recipe, data, and a folder for what comes out."""

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from saccade.cli.options import (
    Cache,
    Columns,
    Data,
    Device,
    Pair,
    Precision,
    Quiet,
    Threads,
    parse_columns,
)
from saccade.errors import StoppedError
from saccade.training.interruption import Interruption


def run(
    recipe: Annotated[str, typer.Argument(help="A built-in recipe's name, or a .toml file.")],
    *,
    data: Data,
    out: Annotated[Path, typer.Option(help="The run folder to make.")],
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the recipe; repeatable."),
    ] = None,
    max_steps: Annotated[int | None, typer.Option(help="Updates at most.")] = None,
    minutes: Annotated[float | None, typer.Option(help="Minutes at most.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of everything that is drawn.")] = None,
    init: Annotated[
        Path | None,
        typer.Option(help="Begin with the model and vocabulary of a run or Hugging Face folder."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    device: Device = "auto",
    precision: Precision = "auto",
    pair: Pair = None,
    columns: Columns = None,
    cache: Cache = None,
    threads: Threads = None,
    processes: Annotated[
        int,
        typer.Option(
            min=1,
            help="Processes that share the work, each with its part of the cores and a batch of "
            "its own in every update. For small models on a CPU faster than threads.",
        ),
    ] = 1,
    quiet: Quiet = False,
) -> None:
    """Train a recipe on your data."""
    if processes > 1 and "RANK" not in os.environ:
        from saccade.cli.processes import launch

        raise typer.Exit(launch(processes, sys.argv[1:]))
    try:
        with Interruption():  # from here on, while torch is loaded too, SIGTERM is like Ctrl-C
            import torch

            from saccade.training import distributed, session
            from saccade.training.console import Console

            if threads is not None:
                torch.set_num_threads(threads)
            world = distributed.from_environment()
            session.train(
                recipe,
                data=data,
                out=out,
                changes=set_ or (),
                max_steps=max_steps,
                minutes=minutes,
                seed=seed,
                resume=resume,
                init=init,
                device=device,
                precision=precision,
                pair=pair,
                columns=parse_columns(columns),
                cache=cache,
                world=world,
                console=Console(quiet=quiet or not world.first),
            )
    except StoppedError as error:
        again = shlex.join([*(arg for arg in sys.argv[1:] if arg != "--resume"), "--resume"])
        raise StoppedError(f"{error}. Go on with:\n  {_program()} {again}") from None


def _program() -> str:
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return "saccade"
    return f"torchrun --nproc-per-node {os.environ['LOCAL_WORLD_SIZE']} -m saccade"
