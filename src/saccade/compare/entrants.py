"""The recipes of a comparison: their names, one budget and one choice of metrics for all."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from saccade.errors import RecipeError
from saccade.training import recipe as recipes
from saccade.training.recipe import UNLIMITED_STEPS, Recipe, TrainingConfig

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
NAMED = re.compile(rf"({NAME.pattern})=(.+)")
ADDRESSED = re.compile(r"([^:=]+):(.+)")


@dataclass(frozen=True, kw_only=True)
class TrainingBudget:
    """Limits of each training; the first that is reached ends it.

    Without any limit, all recipes get the budget of the first one.

    max_steps   updates
    minutes     wall-clock minutes, validation included
    tokens      tokens in batches of the recipe's size (batch_tokens), padding included
    """

    max_steps: int | None = None
    minutes: float | None = None
    tokens: int | None = None

    def __post_init__(self) -> None:
        if self.tokens is not None and self.tokens < 1:
            raise RecipeError(
                f"tokens must be at least 1, got {self.tokens}; leave it out for no limit"
            )

    def limits(self, training: TrainingConfig, first: TrainingConfig) -> dict[str, int | float]:
        """Return the keys of `[training]` that limit a recipe; `first` is the first recipe's."""
        if self.max_steps is self.minutes is self.tokens is None:
            steps, minutes = first.max_steps, first.minutes
        else:
            steps = UNLIMITED_STEPS if self.max_steps is None else self.max_steps
            minutes = self.minutes
        if self.tokens is not None:
            update = training.batch_tokens * training.batches_per_update()
            steps = min(steps, math.ceil(self.tokens / update))
        return {"max_steps": steps} | ({} if minutes is None else {"minutes": minutes})


@dataclass(frozen=True)
class Entrant:
    """A recipe that takes part, and its name in the comparison."""

    name: str
    recipe: Recipe


def entrants(
    specs: Sequence[str], changes: Sequence[str] = (), budget: TrainingBudget | None = None
) -> list[Entrant]:
    """Return the recipes of a comparison, each given as "recipe" or "name=recipe".

    A change "key=value" applies to all of them, "name:key=value" to one. All get the budget, and
    the metrics of the first.

    Args:
        specs: The recipes.
        changes: Changes to their keys.
        budget: The common budget; None for that of the first recipe.
    """
    sources = _by_name(specs)
    own = _changes_by_name(changes, list(sources))
    loaded = {name: recipes.load(source, own[name]) for name, source in sources.items()}
    first_name, first = next(iter(loaded.items()))
    for name, recipe in loaded.items():
        if recipe.task != first.task:
            raise RecipeError(
                f"{first_name} is a recipe for {first.task}, {name} for {recipe.task}: the recipes "
                "of a comparison must have the same task; compare them separately"
            )
    budget = budget or TrainingBudget()
    return [
        Entrant(name, _comparable(recipe, first, budget, name)) for name, recipe in loaded.items()
    ]


def _by_name(specs: Sequence[str]) -> dict[str, str]:
    """Return the recipes by name."""
    if not specs:
        raise RecipeError(
            "there is nothing to compare: give recipes, by built-in name or as .toml files "
            "(`saccade recipes` lists the names)"
        )
    sources: dict[str, str] = {}
    for text in specs:
        named = NAMED.fullmatch(text)
        name, source = named.groups() if named else (Path(text).name.removesuffix(".toml"), text)
        if not NAME.fullmatch(name):
            raise RecipeError(
                f"{name!r} is not a valid name for a recipe in a comparison: use letters, digits, "
                f"dots, dashes and underscores, as in NAME={text}"
            )
        if name.casefold() in map(str.casefold, sources):
            raise RecipeError(
                f"two recipes are called {name}; give them different names: "
                f"one={source} two={source}"
            )
        sources[name] = source
    return sources


def _changes_by_name(changes: Sequence[str], names: Sequence[str]) -> dict[str, list[str]]:
    """Return the changes of each recipe, with those for all recipes first."""
    by_name: dict[str, list[str]] = {
        name: [change for change in changes if not ADDRESSED.fullmatch(change)] for name in names
    }
    for change in changes:
        if addressed := ADDRESSED.fullmatch(change):
            name, assignment = addressed.groups()
            if name not in by_name:
                raise RecipeError(
                    f"--set {change}: no recipe in this comparison is called {name!r}; "
                    f"the names are: {', '.join(names)}"
                )
            by_name[name].append(assignment)
    return by_name


def _comparable(recipe: Recipe, first: Recipe, budget: TrainingBudget, name: str) -> Recipe:
    """Return the recipe with the common budget and the common metrics."""
    table = recipe.table()
    unlimited = {key: table["training"][key] for key in table["training"] if key != "minutes"}
    table["training"] = unlimited | budget.limits(recipe.training, first.training)
    table["metrics"] = first.table()["metrics"]
    fixed = set() if budget.tokens is None else {"training.batch_tokens"}  # tokens became steps
    return recipes.from_table(table, name, recipe.by_hand | fixed)
