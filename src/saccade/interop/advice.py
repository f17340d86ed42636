"""Advice for a failed export: the changes to a recipe, or the recipes, that can be exported."""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from saccade import recipes


@dataclass(frozen=True)
class Obstacle:
    """An option that a format cannot express.

    Attributes:
        reason: The option and what the format has instead, for a message.
        change: The assignment that removes the obstacle, such as "model.encoder.norm=layer"; None
            if no single assignment does.
    """

    reason: str
    change: str | None = None


def changes_of(obstacles: Iterable[Obstacle]) -> list[str]:
    """Return the assignments that remove all obstacles; none if one of them cannot be removed."""
    changes = [obstacle.change for obstacle in obstacles]
    return [] if None in changes else [change for change in changes if change]


def advice(to: str, task: str, changes: Sequence[str]) -> str:
    """Return a sentence about what could be exported instead, or nothing if nothing is known.

    Args:
        to: The format.
        task: The name of the task.
        changes: Assignments to keys of the recipe that would make its model representable.

    Examples:
        >>> advice("huggingface", "text_to_text", ["model.encoder.norm_order=post"])
        '. To export such a model to huggingface, train with --set model.encoder.norm_order=post'
        >>> advice("huggingface", "text_to_text", [])
        '. Built-in recipes of this task that can be exported to huggingface: transformer-marian'
    """
    if changes:
        options = " ".join(f"--set {shlex.quote(change)}" for change in changes)
        return f". To export such a model to {to}, train with {options}"
    exports = recipes.exports()
    names = [name for name in exports if to in exports[name] and recipes.task(name) == task]
    if not names:
        return ""
    return f". Built-in recipes of this task that can be exported to {to}: {', '.join(names)}"
