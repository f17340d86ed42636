"""The tasks: one module each, whose name is the `task` of a recipe.

A module holds a `Task` and a `TaskConfig`, its options. Nothing else lists them: see
`_shared/base.py` for the seam. `measures` tells how far to believe the attention of a task.
"""

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from saccade.errors import RecipeError
from saccade.tasks._shared.answering import Answer, Example, OnBatch
from saccade.tasks._shared.base import Batch, Evaluation, Loss, Progress, Task, TaskConfig
from saccade.tasks._shared.capabilities import Aligns, Calibrates, Measurable, Streams
from saccade.tasks._shared.classifier import CLASSIFIER_FILE
from saccade.tasks._shared.description import (
    VOCABULARY_FILE,
    Description,
    GeneratedText,
    ImageInput,
    Input,
    LabelOutput,
    Output,
    TextInput,
    TokenOutput,
)
from saccade.tasks._shared.labels import (
    LABELS_FILE,
    Classes,
    Classification,
    Labels,
    Number,
    Several,
)

__all__ = [
    "CLASSIFIER_FILE",
    "LABELS_FILE",
    "VOCABULARY_FILE",
    "Aligns",
    "Answer",
    "Batch",
    "Calibrates",
    "Classes",
    "Classification",
    "Description",
    "Evaluation",
    "Example",
    "GeneratedText",
    "ImageInput",
    "Input",
    "LabelOutput",
    "Labels",
    "Loss",
    "Measurable",
    "Number",
    "OnBatch",
    "Output",
    "Progress",
    "Several",
    "Streams",
    "Task",
    "TaskConfig",
    "TextInput",
    "TokenOutput",
    "config_of",
    "names",
]


def names() -> list[str]:
    """Return the names of all tasks: the modules here; packages hold what tasks share."""
    return sorted(module.name for module in iter_modules(__path__) if not module.ispkg)


def config_of(name: str) -> type[TaskConfig]:
    """The options of a task, by its name."""
    if name not in names():
        raise RecipeError(f"task cannot be {name!r:.200}; it can be: {', '.join(names())}")
    return _config_in(import_module(f"{__name__}.{name}"))


def _config_in(module: ModuleType) -> type[TaskConfig]:
    """Return the one subclass of `TaskConfig` that a module defines."""
    own = (value for value in vars(module).values() if isinstance(value, type))
    [config] = (kind for kind in own if issubclass(kind, TaskConfig) and kind is not TaskConfig)
    return config
