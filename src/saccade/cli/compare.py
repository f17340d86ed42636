"""saccade compare: several recipes on the same data with the same budget, and which is better."""

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
    recipes: Annotated[
        list[str],
        typer.Argument(
            metavar="RECIPE...", help="Built-in names or .toml files; NAME=RECIPE gives a name."
        ),
    ],
    *,
    data: Data,
    out: Annotated[Path, typer.Option(help="The folder for everything that comes out.")],
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="[NAME:]KEY=VALUE",
            help="Change a key of all recipes, or of the one called NAME; repeatable.",
        ),
    ] = None,
    max_steps: Annotated[int | None, typer.Option(help="Updates of each at most.")] = None,
    minutes: Annotated[float | None, typer.Option(help="Minutes of each at most.")] = None,
    tokens: Annotated[
        int | None,
        typer.Option(help="Tokens that each trains on at most, in full batches, with padding."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Trainings of each, by other seeds.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="The first of the seeds.")] = 0,
    device: Device = "auto",
    precision: Precision = "auto",
    pair: Pair = None,
    columns: Columns = None,
    cache: Cache = None,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Train recipes on the same data and say which is better; again, it goes on."""
    try:
        with Interruption():  # from here on, while torch is loaded too, SIGTERM is like Ctrl-C
            from saccade.compare import compare
            from saccade.training.console import Console

            found = compare(
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
                columns=parse_columns(columns),
                cache=cache,
                threads=threads,
                console=Console(quiet=quiet),
            )
    except StoppedError as error:
        again = shlex.join(sys.argv[1:])
        raise StoppedError(f"{error}. Go on with:\n  saccade {again}") from None
    print(found.summary())
    for name, number, reason in found.failures:
        print(f"{name}, seed {number}, did not come to its end: {reason}")
    print(f"{out / 'compare.html'} shows all of it, {out / 'compare.json'} is for programs.")
    if found.failures:
        raise typer.Exit(1)
