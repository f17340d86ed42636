"""The fewest changes to the options of a model that make a family able to express it.

They are not listed anywhere: the options of the family's own default model are merged into those of
a model, and each change is undone again if the model can be written without it.
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import torch
from torch import nn

from saccade import config
from saccade.errors import SaccadeError
from saccade.interop.huggingface.family import Family

SIZE = 8
"""Size of the vocabularies and labels of models that are built for a comparison only."""
SIDES = ("encoder", "decoder")
"""Options that no assignment turns into those of another class."""


@dataclass(frozen=True)
class _Change:
    """A value of one option: the keys that lead to it, and the value there; None removes it."""

    keys: tuple[str, ...]
    value: Any

    @property
    def is_size(self) -> bool:
        """Whether it is a number of something, of which families take any."""
        return type(self.value) is int

    def apply(self, table: dict[str, Any]) -> None:
        """Make the change in the table of a model's options."""
        for key in self.keys[:-1]:
            table = table[key]
        if self.value is None:
            table.pop(self.keys[-1], None)
        else:
            table[self.keys[-1]] = (
                config.plain(self.value) if is_dataclass(self.value) else self.value
            )

    def assignment(self) -> str:
        """Return the change as `--set` takes it, with the keys of a table that are not usual."""
        path = ".".join(("model", *self.keys))
        if not is_dataclass(self.value):
            return f"{path}={_toml(self.value)}"
        kind: Any = type(self.value)
        usual = config.plain(kind())
        table = {
            key: value
            for key, value in config.plain(self.value).items()
            if key == "kind" or value != usual.get(key)
        }
        if list(table) == ["kind"]:
            return f"{path}.kind={table['kind']}"
        inside = ", ".join(f"{key} = {_toml(value, quoted=True)}" for key, value in table.items())
        return f"{path}={{ {inside} }}"


def recipe_changes(
    options: object,
    candidates: Sequence[tuple[type[Family], str]],
    require: Callable[[object, nn.Module], object],
) -> list[str]:
    """Return the assignments of the family that needs the fewest; none if no family can do.

    Args:
        options: The options of a model, as a recipe has them.
        candidates: Families and the names of their architectures.
        require: Called with options and their model, which has no weights; raises a `SaccadeError`
            if the model cannot be written.
    """

    def fits(changes: Sequence[_Change]) -> bool:
        table = config.plain(options)
        for change in changes:
            change.apply(table)
        try:
            changed = config.read(type(options), table)
            require(changed, _built(changed))
        except SaccadeError:
            return False
        return True

    ways = []
    for family, architecture in candidates:
        template = family().config(architecture)
        if type(template) is not type(options):
            continue
        changes = [change for change in _changes(options, template) if not change.is_size]
        if not fits(changes):
            continue
        for group in _groups(changes):
            if fits(others := [change for change in changes if change not in group]):
                changes = others
        if all(change.value is not None for change in changes):
            own = (change for change in changes if change.keys[-1] != "grid")  # that of the images
            ways.append([change.assignment() for change in own])
    return min(ways, key=len, default=[])


def _groups(changes: Sequence[_Change]) -> list[list[_Change]]:
    """Return the changes to equal keys of both sides, which may depend on each other, then each."""
    by_key: dict[str, list[_Change]] = {}
    for change in changes:
        by_key.setdefault(change.keys[-1], []).append(change)
    return [*by_key.values(), *([change] for change in changes)]


def _changes(ours: object, theirs: object, keys: tuple[str, ...] = ()) -> Iterator[_Change]:
    assert is_dataclass(theirs)
    for field in fields(theirs):
        before, after = getattr(ours, field.name), getattr(theirs, field.name)
        path = (*keys, field.name)
        if is_dataclass(before) and type(before) is type(after):
            yield from _changes(before, after, path)
        elif before != after and field.name not in SIDES:
            yield _Change(path, after)


def _built(options: Any) -> nn.Module:
    parameters = inspect.signature(options.build).parameters
    with torch.device("meta"):
        model: nn.Module = options.build(*(SIZE for _ in parameters))
    return model


def _toml(value: object, *, quoted: bool = False) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return f'"{value}"' if quoted else value
        case _:
            return str(value)
