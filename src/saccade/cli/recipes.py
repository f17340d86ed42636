"""saccade recipes: list recipes and built-in data sets."""

from typing import Annotated

import typer


def run(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Recipe to print in full, with every key and its value. Default: list all.",
        ),
    ] = None,
) -> None:
    """List recipes and built-in data sets, or print one recipe.

    Save a printed recipe as a .toml file to change it, and pass that file to train.
    """
    from saccade.data import builtin
    from saccade.training import recipe

    if name is not None:
        print(recipe.load(name).to_toml(), end="")
        return
    print("Recipes (saccade train NAME --data DATA --out RUN):")
    for known in recipe.names():
        print(f"  {known:<20} {recipe.description(known)}")
    print("\nBuilt-in data (--data builtin:NAME):")
    for known, text in builtin.descriptions().items():
        print(f"  {known:<20} {text}")
    print("\n`saccade recipes NAME` prints one in full. Save it as a .toml file to change it.")
