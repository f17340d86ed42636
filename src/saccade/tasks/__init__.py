"""The jobs: text to text, and those to come. One module each, whose name is the `task` of a recipe.

A module holds a `Task` and a `Config`, its options. Nothing else lists them: see `base.py`.
"""

from importlib import import_module
from pkgutil import iter_modules

from saccade.errors import RecipeError
from saccade.tasks.base import Answer, Batch, Evaluation, Loss, Task, TaskConfig

__all__ = ["Answer", "Batch", "Evaluation", "Loss", "Task", "TaskConfig", "config_of", "names"]

_SHARED = {"base", "classifier", "images", "labels", "measures", "workers", "writing"}


def names() -> list[str]:
    """The tasks there are."""
    return sorted(module.name for module in iter_modules(__path__) if module.name not in _SHARED)


def config_of(name: str) -> type[TaskConfig]:
    """The options of a task, by its name."""
    if name not in names():
        raise RecipeError(f"task cannot be {name!r:.200}; it can be: {', '.join(names())}")
    config: type[TaskConfig] = import_module(f"{__name__}.{name}").Config
    return config
