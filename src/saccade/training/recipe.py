"""Recipes: all options of a training run in one TOML file.

    task = "text_to_text"        the other tables, except [training], are that task's options
    [model] ...
    [training] ...

A recipe is built in (by its name) or a file. `--set a.b=v` changes single keys.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

from annotated_types import Ge, Lt

from saccade import config, tasks
from saccade import recipes as builtin
from saccade.config import Count, Positive, Whole
from saccade.data.batches.plan import Plan
from saccade.data.store.ragged import Integers
from saccade.errors import RecipeError, brief
from saccade.files import read_text
from saccade.tasks import TaskConfig
from saccade.training.optim import AverageConfig, OptimConfig
from saccade.training.upgrade import upgraded

names, description = builtin.names, builtin.description

Seed = Annotated[int, Ge(0), Lt(2**32)]
"""As many seeds as torch tells apart."""
LARGEST = 2**18
"""Bytes of a recipe at most; a complete one has a few thousand."""


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """The budget of a training run, the size of its updates, and how often it validates and saves.

    max_steps          maximum number of updates; raise it and resume to train longer
    minutes            maximum minutes, over all resumptions together, measured on the wall clock
                       with the preparation of the data and the report; the training ends with
                       whichever of steps and minutes runs out first. `--minutes` without
                       `--max-steps` lifts the limit of steps
    learning_rate      highest learning rate, reached after the warm-up; lower it (by 3 to 10 times)
                       if the loss jumps or becomes NaN, and for fine-tuning
    batch_tokens       maximum tokens in a batch, over all sides, padding included; lower it if
                       memory runs out
    update_tokens      tokens of an update over all processes, rounded up to batches of
                       `batch_tokens`, which the processes divide among them, so that any number
                       of processes makes the same updates; 0: one batch. Raise it if the loss is
                       noisy
    accumulate         batches per update over all processes; above 1 it replaces `update_tokens`.
                       For recipes of earlier versions
    recompute          compute the activations of each Transformer layer again in the backward
                       pass, in place of keeping them: less memory, about a third more time
    validate_every     updates between validations; 0 is about every 2 % of the budget, less often
                       where validation would take more than a tenth of the time, and measures the
                       loss on 1000 validation examples at most
    validate_items     validation items that are predicted greedily and measured at each
                       validation; 0 measures the loss only
    checkpoint_every   updates between checkpoints; a crash loses no more than this
    keep_checkpoints   number of checkpoints to keep; older ones are removed
    select_by          the best weights have the lowest validation "loss" or the best "metric" of
                       the task; "metric" where the loss and the metric disagree
    log_every          updates between two lines of metrics.jsonl; lower it for a finer curve
    patience           validations in a row without an improvement after which training stops; 0
                       never stops early
    adapt              whether dropout, warm-up, batch size and vocabulary size adapt to small data
                       and short budgets, and the learning rate to a width and a size of an update
                       that were changed, where they are not set by hand; what is chosen is printed
                       and recorded in run.json
    seed               random seed of the first weights, the order of the data and dropout; change
                       it to see how much a result depends on chance
    """

    max_steps: Whole = 20_000
    minutes: Positive | None = None
    learning_rate: Positive = 1e-3
    batch_tokens: Count = 4096
    update_tokens: Whole = 0
    accumulate: Count = 1
    recompute: bool = False
    validate_every: Whole = 0
    validate_items: Whole = 200
    checkpoint_every: Count = 500
    keep_checkpoints: Count = 2
    select_by: Literal["loss", "metric"] = "loss"
    log_every: Count = 10
    patience: Whole = 0
    adapt: bool = True
    seed: Seed = 0
    optim: OptimConfig = OptimConfig()
    average: AverageConfig = AverageConfig()

    def __post_init__(self) -> None:
        if self.select_by == "metric" and self.validate_items == 0:
            raise RecipeError(
                'select_by = "metric" needs predictions to measure: set validate_items above 0, '
                'or select_by = "loss"'
            )

    def batches_per_update(self) -> int:
        """Return the number of batches of an update over all processes.

        Example:
            >>> TrainingConfig(batch_tokens=1000, update_tokens=4000).batches_per_update()
            4
        """
        if not self.update_tokens or self.accumulate > 1:
            return self.accumulate
        return math.ceil(self.update_tokens / self.batch_tokens)

    def require_divisible(self, processes: int) -> None:
        """Raise a RecipeError if there are more processes than batches of an update.

        Example:
            >>> TrainingConfig(batch_tokens=1000, update_tokens=4000).require_divisible(3)
        """
        batches, tokens = self.batches_per_update(), self.batch_tokens
        if processes > batches:
            update = self.update_tokens or batches * tokens
            raise RecipeError(
                f"{processes} processes cannot divide an update among them: batches per update: "
                f"{batches}, of training.batch_tokens = {tokens}. Start at most {batches}; or give "
                f"each a smaller batch, with --set training.update_tokens={update} "
                f"--set training.batch_tokens={math.ceil(update / processes)}; or make larger "
                f"updates, with --set training.update_tokens={processes * tokens}"
            )

    def plan(self, lengths: Integers, *, rank: int = 0, processes: int = 1) -> Plan:
        """Return the plan of the batches that a process reads of examples of these lengths."""
        return Plan(
            lengths=lengths,
            budget=self.batch_tokens,
            seed=self.seed,
            size=self.batches_per_update(),
            rank=rank,
            world=processes,
        )


UNLIMITED_STEPS = 10**9
"""`max_steps` of a training that ends by the clock."""
FINE_TUNING = TrainingConfig(learning_rate=5e-5)
"""Training options of an imported model: a low learning rate, for fine-tuning."""


@dataclass(frozen=True)
class Recipe:
    """All options of a training run.

    Args:
        task: name of the task, such as "text_to_text".
        options: the options of the task: its model, text, generation and metrics.
        training: the budget, the optimizer, and how often to validate and save.
        by_hand: keys and tables that were set by hand, in a file or by a change; they do not adapt
            to the data.
        tuned: the values that a built-in recipe has for the keys that a change has set.

    Example:
        >>> recipe = load("transformer-tiny", ["training.max_steps=100"])
        >>> recipe.task, recipe.training.max_steps
        ('text_to_text', 100)
    """

    task: str
    options: TaskConfig
    training: TrainingConfig
    by_hand: frozenset[str] = field(default=frozenset(), compare=False)
    tuned: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def sets(self, key: str) -> bool:
        """Return whether a key, or a table that it stands in, was set by hand."""
        return any(f"{key}.".startswith(f"{name}.") for name in self.by_hand)

    def conflicts(self) -> Iterator[config.Conflict]:
        """Yield the keys that have no effect or cannot work with the others."""
        yield from config.conflicts(self.options)
        yield from config.conflicts(self.training, "training")

    @property
    def separator(self) -> str | None:
        """The text between several labels of one row; None if a row has one label, or none."""
        labels = getattr(self.options, "labels", None)
        return labels.separator if labels is not None and labels.kind == "several" else None

    def table(self) -> dict[str, Any]:
        """Return the recipe as tables of plain values."""
        return {
            "task": self.task,
            **config.plain(self.options),
            "training": config.plain(self.training),
        }

    def to_toml(self) -> str:
        """Return the recipe as the text of a TOML file, every key written out."""
        import tomlkit

        return tomlkit.dumps(self.table())


def load(
    name: str | Path, changes: Sequence[str] = (), model: Mapping[str, Any] | None = None
) -> Recipe:
    """Load a built-in recipe or a recipe file.

    Args:
        name: name of a built-in recipe, or path of a .toml file.
        changes: assignments such as "training.seed=3", made last.
        model: options of another model, which replace the recipe's own where it has such keys.

    Returns:
        The recipe, with a default for every key that it leaves out.

    Raises:
        RecipeError: if there is no such recipe, a key is unknown, a value cannot be used, or a key
            has no effect together with the others. The message names the key.

    Example:
        >>> recipe = load("rnn-attention", ["training.seed=3"])
        >>> recipe.training.seed
        3
        >>> model = recipe.options.model.build(100, 100)  # sizes of the vocabularies
    """
    table = upgraded(parse(_text(name), str(name)))
    by_hand = {change.partition("=")[0].strip() for change in changes}
    by_hand |= flat(table).keys() if Path(name).suffix == ".toml" else set()
    if model is not None:
        _require_task(table, str(name))
        by_hand.add("model")
        options = tasks.config_of(table["task"])
        model = options.start_from(model)
        kinds = config.classes(get_type_hints(options)["model"])
        known = {entry.name for kind in kinds for entry in fields(kind)}
        shared = {key: value for key, value in model.items() if key in known}
        own = table.get("model", {})
        same = "kind" not in shared or shared["kind"] == own.get("kind")
        table["model"] = {**(own if same else {}), **shared}
    unchanged = copy.deepcopy(table)
    for change in changes:
        set_key(table, change)
    recipe = from_table(table, str(name), by_hand)
    for conflict in recipe.conflicts():
        # a change may make another key of the recipe idle, which is not a mistake
        mistake = not conflict.idle or sets(changes, conflict.key)
        if mistake or conflict in _conflicts_of(unchanged):
            raise RecipeError(f"{name}: {conflict.reason}")
    if Path(name).suffix == ".toml" or not changes:
        return recipe
    tuned = {key: value for key, value in flat(unchanged).items() if key in by_hand}
    return replace(recipe, tuned=tuned)


def set_key(table: dict[str, Any], change: str) -> None:
    """Make a change such as "training.seed=3" to the tables of a recipe, in place.

    Raises:
        RecipeError: if the change cannot be read, or leads through a value.
    """
    _require_task(table, "the recipe")
    hints = get_type_hints(tasks.config_of(table["task"]))
    config.set_key(table, change, {**hints, "training": TrainingConfig})


def sets(changes: Sequence[str], key: str) -> bool:
    """Return whether one of "a.b=v" sets this key, a key inside it, or the table it stands in."""
    paths = [f"{change.partition('=')[0].strip()}." for change in changes]
    return any(path.startswith(f"{key}.") or f"{key}.".startswith(path) for path in paths)


def _conflicts_of(table: dict[str, Any]) -> list[config.Conflict]:
    try:
        return list(from_table(table, "").conflicts())
    except RecipeError:
        return []


def parse(text: str, name: str) -> dict[str, Any]:
    """Return the tables of a TOML text; `name` is for the error."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        return tomlkit.parse(text).unwrap()
    except (TOMLKitError, ValueError, RecursionError) as error:
        raise RecipeError(f"{name} is not a valid TOML file: {brief(error)}; correct it") from None


def from_table(table: dict[str, Any], name: str, by_hand: Iterable[str] = ()) -> Recipe:
    """Return the recipe in tables of plain values.

    Args:
        table: the tables, as `Recipe.table` gives them.
        name: name of the recipe or file, for errors.
        by_hand: keys and tables that were set by hand.
    """
    options = dict(table)
    _require_task(options, name)
    task, training = options.pop("task"), options.pop("training", {})
    try:
        kind = tasks.config_of(task)
        names = [entry.name for entry in fields(kind)]  # type: ignore[arg-type]
        _require_known(options, ["task", *names, "training"])
        if not isinstance(training, dict):
            raise RecipeError(
                f"training must be a table of options, got {training!r:.200}; "
                "write it as [training]"
            )
        return Recipe(
            task,
            config.read(kind, options),
            config.read(TrainingConfig, training, "training"),
            frozenset(by_hand),
        )
    except RecipeError as error:
        raise RecipeError(f"{name}: {error}") from None


def flat(table: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """Return the tables of a recipe as one, with keys such as "model.dim".

    >>> flat({"task": "x", "model": {"dim": 8}})
    {'task': 'x', 'model.dim': 8}
    """
    keys: dict[str, Any] = {}
    for name, value in table.items():
        key = f"{path}.{name}" if path else name
        keys.update(flat(value, key) if isinstance(value, Mapping) else {key: value})
    return keys


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
            raise RecipeError(
                f"the recipe {path} cannot be read: {error}. Give a TOML file in UTF-8"
            ) from None
    if str(name) not in names():
        near = get_close_matches(str(name), names(), n=1)
        advice = (
            f"Did you mean {near[0]}? `saccade recipes` lists all"
            if near
            else f"Choose one of {', '.join(names())}"
        )
        raise RecipeError(
            f"there is no recipe {str(name)!r}. {advice}; or give a file that ends with .toml"
        )
    return builtin.text(str(name))
