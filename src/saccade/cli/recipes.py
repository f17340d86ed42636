"""saccade recipes: what can be trained, and on what built-in data."""

from typing import Annotated

import typer


def run(
    name: Annotated[
        str | None, typer.Argument(help="Print this recipe with every key written out.")
    ] = None,
) -> None:
    """List recipes and built-in data, or print one recipe in full."""
    from saccade.data import builtin
    from saccade.training import recipe

    if name is not None:
        print(recipe.load(name).to_toml(), end="")
        return
    print("Recipes (saccade train NAME --data ... --out ...):")
    for each in recipe.names():
        print(f"  {each:<20} {recipe.description(each)}")
    print("\nBuilt-in data (--data builtin:NAME):")
    for each, text in builtin.descriptions().items():
        print(f"  {each:<20} {text}")
    print("\n`saccade recipes NAME` prints one in full; save it as a .toml file to change it.")
