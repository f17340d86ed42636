"""Recipes: all options of a training in one TOML file.

    task = "text_to_text"        which job; the other tables but [training] are that task's options
    [model] ...
    [training] ...

A recipe is built in (by its name) or a file. `--set a.b=v` changes single keys.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

from annotated_types import Ge, Lt

from saccade import config, tasks
from saccade.config import Count, Positive, Whole
from saccade.errors import RecipeError, brief
from saccade.files import read_text
from saccade.tasks import TaskConfig
from saccade.training.optim import AverageConfig, OptimConfig
from saccade.training.upgrade import upgraded

Seed = Annotated[int, Ge(0), Lt(2**32)]
"""As many as torch tells apart."""
LARGEST = 2**18
"""Bytes of a recipe; a complete one has a few thousand."""


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How long, how fast, and how often to look.

    max_steps          updates at most
    minutes            and minutes at most, over all resumptions together
    learning_rate      the highest, after the warm-up
    batch_tokens       tokens of a batch, padding included, all sides together
    accumulate         batches of each process that make one update
    validate_every     updates between validations
    validate_items     items that are answered and measured at each, greedily; 0 for none
    checkpoint_every   updates between checkpoints
    keep_checkpoints   how many are kept
    select_by          the best weights have the lowest "loss" or the best "metric"
    log_every          updates between lines of metrics.jsonl
    patience           stop after this many validations without a better one; 0 never does
    seed               of everything that is drawn: first weights, order of the data, dropout
    """

    max_steps: Whole = 20_000
    minutes: Positive | None = None
    learning_rate: Positive = 1e-3
    batch_tokens: Count = 4096
    accumulate: Count = 1
    validate_every: Count = 500
    validate_items: Whole = 200
    checkpoint_every: Count = 500
    keep_checkpoints: Count = 2
    select_by: Literal["loss", "metric"] = "loss"
    log_every: Count = 10
    patience: Whole = 0
    seed: Seed = 0
    optim: OptimConfig = OptimConfig()
    average: AverageConfig = AverageConfig()

    def __post_init__(self) -> None:
        if self.select_by == "metric" and self.validate_items == 0:
            raise RecipeError(
                'select_by = "metric" needs answers to measure: set validate_items above 0, '
                'or select_by = "loss"'
            )


@dataclass(frozen=True)
class Recipe:
    """A task's options and how to train it."""

    task: str
    options: TaskConfig
    training: TrainingConfig

    def conflicts(self) -> Iterator[config.Conflict]:
        """Yield the keys that have no effect or cannot work with the others."""
        yield from config.conflicts(self.options)
        yield from config.conflicts(self.training, "training")

    def table(self) -> dict[str, Any]:
        """As tables of plain values."""
        return {
            "task": self.task,
            **config.plain(self.options),
            "training": config.plain(self.training),
        }

    def to_toml(self) -> str:
        """As the text of a TOML file, every key written out."""
        import tomlkit

        return tomlkit.dumps(self.table())


def load(
    name: str | Path, changes: Sequence[str] = (), model: Mapping[str, Any] | None = None
) -> Recipe:
    """The recipe of this name or file, with `changes` such as "training.seed=3".

    `model` holds options of another model, which replace the recipe's where it has such; `changes`
    come last.
    """
    table = upgraded(parse(_text(name), str(name)))
    if model is not None:
        _require_task(table, str(name))
        kinds = config.classes(get_type_hints(tasks.config_of(table["task"]))["model"])
        known = {field.name for kind in kinds for field in fields(kind)}
        shared = {key: value for key, value in model.items() if key in known}
        own = table.get("model", {})
        same = "kind" not in shared or shared["kind"] == own.get("kind")
        table["model"] = {**(own if same else {}), **shared}
    unchanged = copy.deepcopy(table)
    for change in changes:
        config.set_key(table, change)
    recipe = from_table(table, str(name))
    for conflict in recipe.conflicts():
        # a change may make another key of the recipe idle, and that is nobody's mistake
        asked = not conflict.idle or _changes(changes, conflict.key)
        if asked or conflict in _conflicts_of(unchanged):
            raise RecipeError(f"{name}: {conflict.reason}")
    return recipe


def _changes(changes: Sequence[str], key: str) -> bool:
    """Whether one of "a.b=v" sets this key, a key inside it, or the table that it stands in."""
    keys = [f"{change.partition('=')[0].strip()}." for change in changes]
    return any(each.startswith(f"{key}.") or f"{key}.".startswith(each) for each in keys)


def _conflicts_of(table: dict[str, Any]) -> list[config.Conflict]:
    try:
        return list(from_table(table, "").conflicts())
    except RecipeError:
        return []


def parse(text: str, name: str) -> dict[str, Any]:
    """The tables of a TOML file."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        return tomlkit.parse(text).unwrap()
    except (TOMLKitError, ValueError, RecursionError) as error:
        raise RecipeError(f"{name} is not a valid TOML file: {brief(error)}") from None


def from_table(table: dict[str, Any], name: str) -> Recipe:
    """The recipe in tables of plain values."""
    options = dict(table)
    _require_task(options, name)
    task, training = options.pop("task"), options.pop("training", {})
    try:
        kind = tasks.config_of(task)
        names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
        _require_known(options, ["task", *names, "training"])
        if not isinstance(training, dict):
            raise RecipeError(f"training must be a table of options, got {training!r:.200}")
        return Recipe(
            task,
            config.read(kind, options),
            config.read(TrainingConfig, training, "training"),
        )
    except RecipeError as error:
        raise RecipeError(f"{name}: {error}") from None


def names() -> list[str]:
    """The built-in recipes."""
    files = resources.files("saccade.recipes").iterdir()
    return sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml"))


def description(name: str) -> str:
    """What a built-in recipe says of itself: its first line."""
    first = _text(name).splitlines()[0]
    return first.lstrip("# ") if first.startswith("#") else ""


def _require_task(table: Mapping[str, Any], name: str) -> None:
    if not isinstance(table.get("task"), str):
        raise RecipeError(f"{name}: task is missing; it can be: {', '.join(tasks.names())}")


def _require_known(table: Iterable[str], known: Sequence[str]) -> None:
    for key in table:
        if key not in known:
            near = get_close_matches(key[:200], known, n=1)
            hint = f"Did you mean {near[0]}? " if near else ""
            raise RecipeError(f"{key[:200]} is not known. {hint}Known here: {', '.join(known)}")


def _text(name: str | Path) -> str:
    path = Path(name)
    if path.suffix == ".toml":
        try:
            return read_text(path, LARGEST)
        except (OSError, UnicodeDecodeError) as error:
            raise RecipeError(f"the recipe {path} cannot be read: {error}") from None
    if str(name) not in names():
        near = get_close_matches(str(name), names(), n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise RecipeError(
            f"there is no recipe {str(name)!r}.{hint} There are: {', '.join(names())}; "
            "or give a file that ends with .toml"
        )
    return (resources.files("saccade.recipes") / f"{name}.toml").read_text(encoding="utf-8")
