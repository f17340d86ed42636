"""Recipes that adapt to the size of the data and to the budget.

A built-in recipe is tuned for data of a certain size and for long training runs. `adapt` changes a
few of its keys where the data is smaller or the budget shorter. Keys that were set by hand are
never changed. The run records the changes, so that it resumes and repeats exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

from saccade.data.corpus import Split
from saccade.training import recipe as recipes
from saccade.training.optim import FALLING
from saccade.training.recipe import Recipe, flat

DROPOUT = ((3.0, 0.0), (10.0, 1 / 3), (20.0, 2 / 3))
"""Fractions of a recipe's dropout for budgets of up to so many epochs; above, all of it."""
KEEP_DROPOUT = ("tagging",)
"""Tasks whose recipes keep their dropout: after 447 updates (2.8 epochs of builtin:entities),
rnn-tagger has a span F1 of 99.6 % with it and of 97.7 % without."""
WARMUP = 0.1
"""Longest warm-up, as a fraction of the updates of the budget."""
UPDATES_PER_EPOCH = 4
"""Updates that an epoch has at least, if batches can be made smaller."""
SMALLEST_BATCH = 1 / 8
"""Smallest batch, as a fraction of the recipe's."""
WORDS_PER_ENTRY, SMALLEST_VOCABULARY = 20, 1000
"""Words of training text per entry of a vocabulary of text pairs, and its smallest size (Sennrich
and Zhang 2019: 2000 entries for 100,000 words)."""
FINE_TUNING = 1e-4
"""Highest learning rate, by AdamW, of a model that starts from trained weights."""
LONGEST_WORD = 15
"""Mean number of characters above which a text is taken to have no spaces between its words."""


@dataclass(frozen=True, kw_only=True)
class TrainingFacts:
    """Facts that a recipe is adapted to; rules whose facts are not known yet are left out.

    Attributes:
        warm_start: Whether the model starts from trained weights.
        words: The words of the training data.
        updates_per_epoch: The updates that read the training data once.
        updates: The updates of the budget.
        epochs: How often the budget reads the training data.
    """

    warm_start: bool = False
    words: int | None = None
    updates_per_epoch: int | float | None = None
    updates: int | float | None = None
    epochs: int | float | None = None


class Change(NamedTuple):
    """A key of a recipe, its adapted value, and why it has this value."""

    key: str
    value: int | float | str
    reason: str


@dataclass(frozen=True)
class Adaptation:
    """A recipe with the changes that were made to it.

    Attributes:
        recipe: The adapted recipe.
        changes: The values of the changed keys.
        reasons: One sentence per group of changes.
    """

    recipe: Recipe
    changes: Mapping[str, int | float | str] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()

    def to(self, facts: TrainingFacts) -> Adaptation:
        """Return this adaptation with the changes that these facts require, too."""
        more = adapt(self.recipe, facts)
        return Adaptation(
            more.recipe, {**self.changes, **more.changes}, self.reasons + more.reasons
        )

    def as_json(self) -> dict[str, Any]:
        """Return what run.json records."""
        return {"changes": dict(self.changes), "reasons": list(self.reasons)}


def adapt(recipe: Recipe, facts: TrainingFacts) -> Adaptation:
    """Adapt the keys of a recipe that were not set by hand to data and budget.

    Args:
        recipe: the recipe.
        facts: what is known of the data and the budget.

    Returns:
        The adaptation; without changes if `training.adapt` is false.

    Example:
        >>> recipe = recipes.load("transformer-tiny")
        >>> short = adapt(recipe, TrainingFacts(updates=1500, epochs=1.7))
        >>> short.changes
        {'model.encoder.dropout': 0.0, 'model.decoder.dropout': 0.0}
        >>> print(*short.reasons)
        dropout of encoder and decoder is 0, not 0.3: the budget reads the training data 1.7 times
    """
    if not recipe.training.adapt:
        return Adaptation(recipe)
    before = flat(recipe.table())
    rate = _fine_tuning(before) if facts.warm_start else _rate(before, recipe.tuned)
    rules = (rule(before, facts) for rule in (_vocabulary, _batch, _dropout, _warmup))
    changes = [
        change
        for change in chain(rate, *rules)
        if change.value != before[change.key] and not recipe.sets(change.key)
    ]
    values = {change.key: change.value for change in changes}
    return Adaptation(repeated(recipe, values), values, tuple(_sentences(changes, before)))


def repeated(recipe: Recipe, changes: Mapping[str, int | float | str]) -> Recipe:
    """Return a recipe with changes, except those of keys set by hand."""
    table = recipe.table()
    for key, value in changes.items():
        if not recipe.sets(key):
            recipes.set_key(table, f"{key}={value!r}")
    return recipes.from_table(table, "the adapted recipe", recipe.by_hand)


def adaptable(recipe: Recipe) -> bool:
    """Return whether encoded data or the budget could change a key."""
    smallest = TrainingFacts(updates_per_epoch=0, updates=0, epochs=0)
    return bool(adapt(recipe, smallest).changes)


def count_words(recipe: Recipe, split: Split) -> int | None:
    """Return the number of words of a split; None if no rule needs it."""
    keys = _vocabularies(flat(recipe.table()))
    if not recipe.training.adapt or all(map(recipe.sets, keys)):
        return None
    return sum(_words(text) for row in split for text in row.values)


def _words(text: str) -> int:
    words = len(text.split())
    return len(text) // 2 if len(text) > LONGEST_WORD * words else words


def _vocabularies(table: Mapping[str, Any]) -> list[str]:
    """Return the keys of the sizes of the vocabularies of text pairs."""
    sides = [f"text.{side}" for side in ("source", "target")]
    return [f"{side}.size" for side in sides if table.get(f"{side}.kind") in ("bpe", "unigram")]


def _fine_tuning(table: Mapping[str, Any]) -> Iterator[Change]:
    """Leave the rate and the optimizer that are tuned for new weights."""
    reason = "the model starts from trained weights"
    yield Change("training.optim.kind", "adamw", reason)
    yield Change(
        "training.learning_rate", min(table["training.learning_rate"], FINE_TUNING), reason
    )


def _rate(table: Mapping[str, Any], tuned: Mapping[str, Any]) -> Iterator[Change]:
    """Follow the width and the size of an update that were set by hand.

    A wider matrix needs a smaller rate; the noise of a gradient falls with the root of its tokens.
    """
    rate, reasons = table["training.learning_rate"], []
    dim, tokens = "model.dim", "training.update_tokens"
    if dim in tuned and table[dim] > tuned[dim]:
        rate *= math.sqrt(tuned[dim] / table[dim])
        reasons.append(f"the width is {table[dim]}, not {tuned[dim]}")
    if tuned.get(tokens) and table[tokens]:
        rate *= math.sqrt(table[tokens] / tuned[tokens])
        reasons.append(f"an update has {table[tokens]:,} tokens, not {tuned[tokens]:,}")
    if reasons:
        yield Change("training.learning_rate", float(f"{rate:.3g}"), ", ".join(reasons))


def _vocabulary(table: Mapping[str, Any], facts: TrainingFacts) -> Iterator[Change]:
    if facts.words is None:
        return
    most = max(SMALLEST_VOCABULARY, 100 * round(facts.words / WORDS_PER_ENTRY / 100))
    for key in _vocabularies(table):
        yield Change(key, min(table[key], most), f"the training data has {facts.words:,} words")


def _batch(table: Mapping[str, Any], facts: TrainingFacts) -> Iterator[Change]:
    if facts.updates_per_epoch is None or facts.updates_per_epoch >= UPDATES_PER_EPOCH:
        return
    fraction = max(SMALLEST_BATCH, facts.updates_per_epoch / UPDATES_PER_EPOCH)
    often = round(facts.updates_per_epoch, 1)
    updates = "one update reads" if often <= 1 else f"{often:g} updates read"
    batch, update = "training.batch_tokens", "training.update_tokens"
    smaller = max(1, round(table[batch] * fraction))
    yield Change(batch, smaller, f"{updates} all training data")
    # as many batches as before, since processes divide them among them; 0 stays 0
    batches = math.ceil(table[update] / table[batch])
    yield Change(update, batches * smaller, f"{updates} all training data")


def _dropout(table: Mapping[str, Any], facts: TrainingFacts) -> Iterator[Change]:
    if facts.epochs is None or table["task"] in KEEP_DROPOUT:
        return
    scale = next((scale for most, scale in DROPOUT if facts.epochs <= most), 1.0)
    for key in table:
        if key.startswith("model.") and key.endswith(".dropout"):
            reason = f"the budget reads the training data {facts.epochs:.2g} times"
            yield Change(key, round(table[key] * scale, 2), reason)


def _warmup(table: Mapping[str, Any], facts: TrainingFacts) -> Iterator[Change]:
    # the other schedules end their warm-up in time by themselves
    if facts.updates is None or table["training.optim.schedule"] in FALLING:
        return
    key, most = "training.optim.warmup", round(facts.updates * WARMUP)
    yield Change(key, min(table[key], most), f"the budget has {round(facts.updates):,} updates")


def _sentences(changes: Iterable[Change], before: Mapping[str, Any]) -> Iterator[str]:
    """Yield one sentence for all changes from the same value to the same value."""
    groups: dict[tuple[Any, int | float | str, str], list[str]] = {}
    for key, value, reason in changes:
        groups.setdefault((before[key], value, reason), []).append(key)
    for (old, value, reason), keys in groups.items():
        if all(key.endswith(".dropout") for key in keys):
            parts = [key.split(".")[-2] for key in keys]
            name = f"dropout of {' and '.join(parts)}"
        else:
            name = " and ".join(keys)
        verb = "is" if len(keys) == 1 or "dropout of" in name else "are"
        new, usual = (one if isinstance(one, str) else f"{one:g}" for one in (value, old))
        yield f"{name} {verb} {new}, not {usual}: {reason}"
