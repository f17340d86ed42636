"""saccade recipes: list recipes and built-in data sets."""

import json
from typing import Annotated

import typer

from saccade.cli.options import AsJson


def run(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Recipe to print in full, with every key and its value. Default: list all.",
        ),
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """List recipes and built-in data sets, or print one recipe.

    Save a printed recipe as a .toml file to change it, and pass that file to train.
    """
    if name is not None:
        from saccade.training import recipe

        chosen = recipe.load(name)
        print(json.dumps(chosen.table(), indent=1) if as_json else chosen.to_toml().rstrip("\n"))
        return

    from saccade import recipes
    from saccade.data import builtin
    from saccade.lens.formatting import in_columns

    exports = recipes.exports()
    if as_json:
        listed = [
            {
                "name": known,
                "task": recipes.task(known),
                "description": recipes.description(known),
                "exports_to": exports[known],
            }
            for known in recipes.names()
        ]
        print(json.dumps({"recipes": listed, "data": builtin.descriptions()}, indent=1))
        return
    print("Recipes (saccade train NAME --data DATA --out RUN):")
    rows = [["  name", "exports to", "description"]]
    for known in recipes.names():
        rows.append([f"  {known}", ", ".join(exports[known]), recipes.description(known)])
    print(in_columns(rows))
    print("\nBuilt-in data (--data builtin:NAME):")
    print(in_columns([[f"  {known}", text] for known, text in builtin.descriptions().items()]))
    print("\n`saccade recipes NAME` prints one in full. Save it as a .toml file to change it.")
    print("`saccade export RUN --to FORMAT OUT` writes a trained run in another tool's format.")
