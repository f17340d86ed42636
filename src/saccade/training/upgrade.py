"""Recipes of earlier formats, as the option classes read them now.

Format 1 had the keys of all kinds of positions in one table, and those of all scores in another. A
run's recipe had all of them written out, as did a recipe that `saccade recipes` printed. The keys
of other kinds had no effect and are dropped.
"""

from collections.abc import Mapping
from typing import Any

FORMAT = 2
"""Format of a run folder; it counts up when the meaning of the files changes."""

_EFFECTIVE: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "position": {
        "sinusoidal": ("fuse", "width", "layout"),
        "learned": ("fuse", "width", "length", "grid"),
        "relative": ("max_distance",),
        "relative_2d": ("grid",),
        "rotary": ("layout",),
    },
    "score": {"low_rank": ("hidden_dim",), "additive": ("hidden_dim",)},
}
"""The keys of format 1 that had an effect, by table and kind."""

_WRITTEN_OUT = {"kind", "fuse", "width", "length", "max_distance", "layout"}
"""The keys of positions that format 1 always wrote out, and that no later format has together."""


def upgraded(table: Mapping[str, Any], number: int | None = None) -> dict[str, Any]:
    """Return a recipe's tables without keys that had no effect in their format.

    Args:
        table: the tables of the recipe.
        number: the format; if left out, only tables that format 1 wrote out in full are changed.
    """
    return {
        key: _effective(key, upgraded(value, number), number) if isinstance(value, dict) else value
        for key, value in table.items()
    }


def _effective(name: str, table: dict[str, Any], number: int | None) -> dict[str, Any]:
    if name not in _EFFECTIVE or not (number == 1 or table.keys() >= _WRITTEN_OUT):
        return table
    kept = ("kind", *_EFFECTIVE[name].get(str(table.get("kind")), ()))
    return {key: table[key] for key in table if key in kept}
