"""saccade compare: train recipes on the same data and report which is better."""

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


def run(
    recipes: Annotated[
        list[str],
        typer.Argument(
            metavar="RECIPE",
            help="Built-in recipes or .toml files. NAME=RECIPE gives one another name.",
            show_default=False,
        ),
    ],
    *,
    data: Data,
    out: Annotated[
        Path,
        typer.Option(metavar="FOLDER", help="Folder for the runs, compare.html and compare.json."),
    ],
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="[NAME:]KEY=VALUE",
            help="Change a key of all recipes, or of the one called NAME; repeatable. Default: the "
            "recipes as they are.",
        ),
    ] = None,
    max_steps: MaxSteps = None,
    minutes: Minutes = None,
    tokens: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Stop each training after N tokens, counted in full batches with padding. "
            "Default: no limit.",
        ),
    ] = None,
    seeds: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="Training runs per recipe, each with a different random seed."
        ),
    ] = 1,
    seed: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            help="First random seed; further training runs use the next integers.",
        ),
    ] = 0,
    device: Device = "auto",
    precision: Precision = "auto",
    pair: Pair = None,
    columns: Columns = None,
    valid_fraction: ValidFraction = None,
    skip_broken: SkipBroken = False,
    cache: Cache = None,
    threads: Threads = None,
    no_samples: NoSamples = False,
    join: Annotated[
        bool,
        typer.Option(
            "--join",
            help="Share the training runs with other processes, also of other machines, that run "
            "the same command and see the same --out. Training runs of a process that dies are "
            "taken over. Default: this process trains alone.",
        ),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Train recipes on the same data and report which is better. Rerun to resume.

    Every recipe gets the same data and the same budget. The report has quality with significance,
    quality by length, speed, memory, and the attention of each model for the same inputs.
    """
    try:
        with Interruption():  # also while torch is being imported, SIGTERM acts like Ctrl-C
            from saccade.compare import compare
            from saccade.training.console import Console

            comparison = compare(
                recipes,
                data=data,
                out=out,
                changes=set_ or (),
                max_steps=max_steps,
                minutes=minutes,
                tokens=tokens,
                seeds=range(seed, seed + seeds),
                device=device,
                precision=precision,
                pair=pair,
                columns=columns,
                valid_fraction=valid_fraction,
                skip_broken=skip_broken,
                samples=not no_samples,
                cache=cache,
                threads=threads,
                join=join,
                console=Console(quiet=quiet),
            )
    except StoppedError as error:
        again = shlex.join(sys.argv[1:])
        raise StoppedError(f"{error}. To resume:\n  saccade {again}") from None
    print(comparison.summary())
    for name, number, reason in comparison.failures:
        print(f"{name} (seed {number}) failed: {reason}")
    print(f"Report: {out / 'compare.html'}\nAs JSON: {out / 'compare.json'}")
    if comparison.failures:
        raise typer.Exit(1)
