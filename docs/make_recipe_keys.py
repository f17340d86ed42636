"""Writes the table of all keys into docs/recipes.md, from the option classes themselves.

python docs/make_recipe_keys.py
"""

import re
from collections.abc import Iterator
from dataclasses import is_dataclass
from itertools import groupby
from pathlib import Path

from saccade import config, tasks
from saccade.config import Key
from saccade.training.recipe import TrainingConfig

PAGE = Path(__file__).with_name("recipes.md")
BEGIN, END = "<!-- keys: begin -->\n", "<!-- keys: end -->\n"


def page() -> str:
    """The whole page with a new table."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    return before + BEGIN + "".join(table()) + END + rest.split(END)[1]


def table() -> Iterator[str]:
    """The keys of each task and of `[training]`, in a table for each table of the recipe."""
    for name in tasks.names():
        yield f'\n### `task = "{name}"`\n'
        yield from _tables(config.keys(tasks.config_of(name)))
    yield "\n### Every task\n"
    yield from _tables(config.keys(TrainingConfig, "training"))
    yield "\n"


def _tables(keys: Iterator[Key]) -> Iterator[str]:
    for name, inside in groupby(keys, lambda key: key.path.split(".")[0]):
        yield f"\n`[{name}]`\n\n| key | may be | if left out | |\n|---|---|---|---|\n"
        for key in inside:
            told = descriptions(key.owner).get(key.path.rpartition(".")[2], "")
            yield f"| `{key.path}` | {key.allowed} | {key.default} | {told} |\n"


def descriptions(owner: type) -> dict[str, str]:
    """What an option class's docstring says of its keys, in lines of `key   what it is`."""
    found: dict[str, str] = {}
    names: list[str] = []
    documented = [each.__doc__ or "" for each in reversed(owner.__mro__) if is_dataclass(each)]
    for line in (line for text in documented for line in text.splitlines()[1:]):
        if entry := re.fullmatch(r" {4}(\w+(?:, \w+)*)  +(\S.*)", line):
            names = entry[1].split(", ")
            found |= dict.fromkeys(names, entry[2])
        elif names and line.startswith(" " * 8):
            found |= {name: f"{found[name]} {line.strip()}" for name in names}
    return found


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
