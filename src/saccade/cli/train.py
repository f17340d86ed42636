"""saccade train: train a recipe on data into a run folder."""

import os
import shlex
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from saccade.cli.options import (
    Cache,
    Changes,
    Columns,
    Data,
    Device,
    MaxSteps,
    Minutes,
    NoSamples,
    Pair,
    Precision,
    Quiet,
    SkipBroken,
    Threads,
    ValidFraction,
)
from saccade.errors import StoppedError
from saccade.training.interruption import Interruption


class ParallelChoice(StrEnum):
    """How processes divide the weights among them."""

    DDP = "ddp"
    FSDP = "fsdp"


def run(
    recipe: Annotated[
        str | None,
        typer.Argument(
            metavar="RECIPE",
            help="Built-in recipe (listed by `saccade recipes`) or a .toml file. Default: chosen "
            "from the columns and the size of the data.",
        ),
    ] = None,
    *,
    data: Data,
    out: Annotated[
        Path,
        typer.Option(
            metavar="RUN", help="Run folder to create; with --resume, the one to continue."
        ),
    ],
    set_: Changes = None,
    max_steps: MaxSteps = None,
    minutes: Minutes = None,
    seed: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Random seed of the weights, the order of the data and dropout. Default: "
            "training.seed of the recipe, usually 0.",
        ),
    ] = None,
    init: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Start from the weights and vocabulary of a run or a Hugging Face folder. "
            "Default: random weights and a new vocabulary.",
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Resume the run in --out from its newest checkpoint."),
    ] = False,
    device: Device = "auto",
    precision: Precision = "auto",
    pair: Pair = None,
    columns: Columns = None,
    valid_fraction: ValidFraction = None,
    skip_broken: SkipBroken = False,
    cache: Cache = None,
    threads: Threads = None,
    processes: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Processes that train together, each with its part of the cores and of the "
            "batches of an update. Default: on a CPU, one per core for recipes whose updates have "
            "several batches (training.update_tokens), else 1.",
        ),
    ] = None,
    parallel: Annotated[
        ParallelChoice,
        typer.Option(
            help="How processes divide the weights: not at all (ddp), or each has a part of them "
            "(fsdp), for models that do not fit into the memory of one.",
        ),
    ] = ParallelChoice.DDP,
    no_samples: NoSamples = False,
    quiet: Quiet = False,
) -> None:
    """Train a recipe on your data.

    Writes a run folder with the best weights, checkpoints, metrics and report.html. Ctrl-C saves a
    checkpoint and prints the command that resumes the training.
    """
    began = time.monotonic()
    from saccade.cli.processes import command_line, end_with_launcher, launch, usual_count

    if "RANK" not in os.environ:
        if processes is None:
            usual = usual_count(recipe, set_ or (), device=device)
            processes = usual if threads is None else 1
        if processes > 1:
            raise typer.Exit(launch(processes, sys.argv[1:]))
    end_with_launcher()
    try:
        with Interruption():  # also while torch is being imported, SIGTERM acts like Ctrl-C
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
                columns=columns,
                valid_fraction=valid_fraction,
                skip_broken=skip_broken,
                samples=not no_samples,
                cache=cache,
                elapsed=time.monotonic() - began,
                world=world,
                parallel=parallel.value,
                console=Console(quiet=quiet or not world.first),
            )
    except StoppedError as error:
        again = [*(arg for arg in sys.argv[1:] if arg != "--resume"), "--resume"]
        line = shlex.join(command_line(again))
        raise StoppedError(f"{error}. To resume:\n  {line}") from None
