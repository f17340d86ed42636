"""What is compared: recipes by their names, with one budget and one choice of metrics for all."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from saccade.errors import RecipeError
from saccade.training import recipe as recipes
from saccade.training.recipe import Recipe, TrainingConfig

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
NAMED = re.compile(rf"({NAME.pattern})=(.+)")
ADDRESSED = re.compile(r"([^:=]+):(.+)")
NO_END = 10**9
"""Steps of a training that ends by the clock."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What each training may use up; the least of what is given, the first recipe's own if nothing.

    max_steps   updates
    minutes     by the clock, validations included
    tokens      in batches as the recipe sizes them (batch_tokens), padding included
    """

    max_steps: int | None = None
    minutes: float | None = None
    tokens: int | None = None

    def __post_init__(self) -> None:
        if self.tokens is not None and self.tokens < 1:
            raise RecipeError(f"tokens must be at least 1, got {self.tokens}")

    def of(self, training: TrainingConfig, first: TrainingConfig) -> dict[str, Any]:
        """The keys of `[training]` that keep to it, for a recipe beside the first one."""
        if self.max_steps is self.minutes is self.tokens is None:
            return {"max_steps": first.max_steps, "minutes": first.minutes}
        steps = [NO_END] if self.max_steps is None else [self.max_steps]
        if self.tokens is not None:
            steps.append(math.ceil(self.tokens / (training.batch_tokens * training.accumulate)))
        return {"max_steps": min(steps), "minutes": self.minutes}


@dataclass(frozen=True)
class Entrant:
    """A recipe that takes part, and the name it goes by."""

    name: str
    recipe: Recipe


def entrants(
    given: Sequence[str], changes: Sequence[str] = (), budget: Budget | None = None
) -> list[Entrant]:
    """The recipes of a comparison, each given as "recipe" or "name=recipe".

    A change "key=value" is for all of them, "name:key=value" for one. All get the budget, and the
    metrics of the first.
    """
    sources = _named(given)
    own = _changes(changes, list(sources))
    loaded = {name: recipes.load(source, own[name]) for name, source in sources.items()}
    first, recipe = next(iter(loaded.items()))
    for name, other in loaded.items():
        if other.task != recipe.task:
            raise RecipeError(
                f"one comparison is of one task: {first} is of {recipe.task} and {name} of "
                f"{other.task}; compare them apart"
            )
    budget = budget or Budget()
    return [Entrant(name, _fair(other, recipe, budget, name)) for name, other in loaded.items()]


def _named(given: Sequence[str]) -> dict[str, str]:
    """The recipes by their names."""
    if not given:
        raise RecipeError("there is nothing to compare: give recipes, built-in or .toml files")
    found: dict[str, str] = {}
    for text in given:
        named = NAMED.fullmatch(text)
        name, source = named.groups() if named else (Path(text).name.removesuffix(".toml"), text)
        if not NAME.fullmatch(name):
            raise RecipeError(
                f"{name!r} cannot be the name of a folder here; give another: NAME={text}, of "
                "letters, digits, dots, dashes and underscores"
            )
        if name.casefold() in map(str.casefold, found):
            raise RecipeError(
                f"two of the recipes are called {name}; tell them apart by names: "
                f"one={source} two={source}"
            )
        found[name] = source
    return found


def _changes(changes: Sequence[str], names: list[str]) -> dict[str, list[str]]:
    """The changes of each recipe, those for all of them first."""
    found: dict[str, list[str]] = {name: [] for name in names}
    for change in changes:
        if not ADDRESSED.fullmatch(change):
            for own in found.values():
                own.append(change)
    for change in changes:
        if addressed := ADDRESSED.fullmatch(change):
            name, assignment = addressed.groups()
            if name not in found:
                raise RecipeError(
                    f"--set {change}: no recipe here is called {name!r}; there are: "
                    f"{', '.join(names)}"
                )
            found[name].append(assignment)
    return found


def _fair(recipe: Recipe, first: Recipe, budget: Budget, name: str) -> Recipe:
    """The recipe with the budget and the metrics that all have."""
    table = recipe.table()
    limits = budget.of(recipe.training, first.training)
    table["training"] = _without_none({**table["training"], **limits})
    table["metrics"] = first.table()["metrics"]
    return recipes.from_table(table, name)


def _without_none(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if value is not None}
