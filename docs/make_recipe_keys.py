"""Writes the table of all keys into docs/recipes.md, from the option classes themselves.

python docs/make_recipe_keys.py
"""

import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from saccade import config, tasks
from saccade.config import Key
from saccade.training import recipe
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
        yield from _tables(list(config.keys(tasks.config_of(name))), name)
    yield "\n### Every task\n"
    yield from _tables(list(config.keys(TrainingConfig, "training")), None)
    yield "\n"


def _tables(keys: list[Key], task: str | None) -> Iterator[str]:
    for name, inside in groupby(keys, lambda key: key.path.split(".")[0]):
        yield f"\n`[{name}]`\n\n| key | may be | if left out | |\n|---|---|---|---|\n"
        for key in inside:
            told = descriptions(key.owner).get(key.path.rpartition(".")[2], "")
            yield f"| `{key.path}` | {key.allowed} | {_default(key, keys, task)} | {told} |\n"


def descriptions(owner: type) -> dict[str, str]:
    """What an option class's docstring says of its keys, in lines of `key   what it is`."""
    found: dict[str, str] = {}
    names: list[str] = []
    for line in (owner.__doc__ or "").splitlines()[1:]:
        if entry := re.fullmatch(r" {4}(\w+(?:, \w+)*)  +(\S.*)", line):
            names = entry[1].split(", ")
            found |= dict.fromkeys(names, entry[2])
        elif names and line.startswith(" " * 8):
            found |= {name: f"{found[name]} {line.strip()}" for name in names}
    return found


def _default(key: Key, keys: list[Key], task: str | None) -> str:
    value: Any = (
        {"training": config.plain(TrainingConfig())} if task is None else _said(key, keys, task)
    )
    for name in re.sub(r"<\w+>", "", key.path).split("."):
        if not isinstance(value, dict) or name not in value:
            value = key.default
            break
        value = value[name]
    return {"True": "true", "False": "false"}.get(str(value), str(value)).replace("'", '"')


def _said(key: Key, keys: list[Key], task: str) -> Any:
    """A recipe that says nothing but the kinds that the key needs."""
    kinds: dict[str, str] = {}
    for path in [key.path, *(other.path for other in keys)]:
        if union := re.match(r"([\w.]+)<(\w+)>", path):
            kinds.setdefault(union[1], union[2])
    given: dict[str, Any] = {"task": task}
    for path, kind in kinds.items():
        config.set_key(given, f"{path}.kind={kind}")
    return recipe.from_table(given, "a recipe").table()


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
