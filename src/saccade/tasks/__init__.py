"""Tasks: one module per task, whose name is the `task` of a recipe.

A module defines a subclass of `Task` and a subclass of `TaskConfig`, its options. Nothing else
lists it; CONTRIBUTING.md has the steps. Other packages offer tasks by the entry-point group
`saccade.tasks`, as in `count_vowels = "my_package.count_vowels"`. `measures` computes how far the
attention of a task can be trusted. What needs torch is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from inspect import isabstract
from pkgutil import iter_modules
from types import ModuleType
from typing import TYPE_CHECKING

from saccade.errors import RecipeError, brief
from saccade.lazy_exports import lazily
from saccade.tasks._shared.answering import (
    NO_OPTIONS,
    Answer,
    AnswerPiece,
    Example,
    OnBatch,
    Options,
    require_no_options,
)
from saccade.tasks._shared.capabilities import (
    Aligns,
    Calibrates,
    Measurable,
    MeasurableTogether,
    Streams,
)
from saccade.tasks._shared.description import (
    VOCABULARY_FILE,
    Description,
    GeneratedText,
    ImageInput,
    Input,
    LabelOutput,
    Output,
    TagOutput,
    TextInput,
    TokenOutput,
    VectorInput,
)
from saccade.tasks._shared.predictor import Predictor

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from saccade.tasks._shared.attention_records import cross_attention, self_attention
    from saccade.tasks._shared.base import (
        Batch,
        Loss,
        Progress,
        Rows,
        Task,
        TaskConfig,
        likelihood,
        vocabulary_from,
    )
    from saccade.tasks._shared.baselines import (
        BASELINE_FILE,
        Baseline,
        BaselineFile,
        BaselineMethod,
        HasBaselines,
        Standing,
        advice,
        best_baseline,
        measure_baselines,
        read_baselines,
        standing,
    )
    from saccade.tasks._shared.classifier import CLASSIFIER_FILE, with_scaled_head
    from saccade.tasks._shared.evaluation import Evaluation, evaluation_of
    from saccade.tasks._shared.images import IMAGE_FILE
    from saccade.tasks._shared.labels import (
        LABELS_FILE,
        Classes,
        Classification,
        Labels,
        Number,
        Several,
    )
    from saccade.tasks._shared.pieces import links_in_text
    from saccade.tasks._shared.ready import (
        LateTask,
        ReadyPredictor,
        ready_predictor,
        ready_record,
        sides_of,
    )
    from saccade.tasks._shared.scoring import ScoredAnswer, TokenScore
    from saccade.tasks._shared.tags import Tagging, Tags, TagSpan

__all__ = [
    "BASELINE_FILE",
    "CLASSIFIER_FILE",
    "IMAGE_FILE",
    "LABELS_FILE",
    "NO_OPTIONS",
    "VOCABULARY_FILE",
    "Aligns",
    "Answer",
    "AnswerPiece",
    "Baseline",
    "BaselineFile",
    "BaselineMethod",
    "Batch",
    "Calibrates",
    "Classes",
    "Classification",
    "Description",
    "Evaluation",
    "Example",
    "GeneratedText",
    "HasBaselines",
    "ImageInput",
    "Input",
    "LabelOutput",
    "Labels",
    "LateTask",
    "Loss",
    "Measurable",
    "MeasurableTogether",
    "Number",
    "OnBatch",
    "Options",
    "Output",
    "Predictor",
    "Progress",
    "ReadyPredictor",
    "Rows",
    "ScoredAnswer",
    "Several",
    "Standing",
    "Streams",
    "TagOutput",
    "TagSpan",
    "Tagging",
    "Tags",
    "Task",
    "TaskConfig",
    "TextInput",
    "TokenOutput",
    "TokenScore",
    "VectorInput",
    "advice",
    "best_baseline",
    "config_of",
    "cross_attention",
    "evaluation_of",
    "likelihood",
    "links_in_text",
    "measure_baselines",
    "names",
    "read_baselines",
    "ready_predictor",
    "ready_record",
    "require_no_options",
    "self_attention",
    "sides_of",
    "standing",
    "vocabulary_from",
    "with_scaled_head",
]

__getattr__ = lazily(
    __name__,
    {
        "saccade.tasks._shared.attention_records": ["cross_attention", "self_attention"],
        "saccade.tasks._shared.base": [
            "Batch",
            "LateTask",
            "Loss",
            "Progress",
            "ReadyPredictor",
            "Rows",
            "Task",
            "TaskConfig",
            "likelihood",
            "vocabulary_from",
        ],
        "saccade.tasks._shared.baselines": [
            "BASELINE_FILE",
            "Baseline",
            "BaselineFile",
            "BaselineMethod",
            "HasBaselines",
            "Standing",
            "advice",
            "best_baseline",
            "measure_baselines",
            "read_baselines",
            "standing",
        ],
        "saccade.tasks._shared.classifier": ["CLASSIFIER_FILE", "with_scaled_head"],
        "saccade.tasks._shared.evaluation": ["Evaluation", "evaluation_of"],
        "saccade.tasks._shared.images": ["IMAGE_FILE"],
        "saccade.tasks._shared.labels": [
            "LABELS_FILE",
            "Classes",
            "Classification",
            "Labels",
            "Number",
            "Several",
        ],
        "saccade.tasks._shared.pieces": ["links_in_text"],
        "saccade.tasks._shared.ready": [
            "LateTask",
            "ReadyPredictor",
            "ready_predictor",
            "ready_record",
            "sides_of",
        ],
        "saccade.tasks._shared.scoring": ["ScoredAnswer", "TokenScore"],
        "saccade.tasks._shared.tags": ["Tagging", "Tags", "TagSpan"],
    },
)

ENTRY_POINTS = "saccade.tasks"
"""The group of entry points by which other packages offer tasks."""


def names() -> list[str]:
    """Return the names of all tasks: the modules of this package and those of other packages.

    Raises:
        RecipeError: Two packages offer a task of the same name.
    """
    return sorted([*_built_in(), *_installed()])


def config_of(name: str) -> type[TaskConfig]:
    """Return the options class of a task.

    A built-in name always stands for the built-in task. Other names are those of entry points in
    the group `saccade.tasks`; a run folder or a recipe can name a task, but never a path to code.

    Args:
        name: The `task` of a recipe.

    Raises:
        RecipeError: There is no such task, or the package that offers it cannot be used.
    """
    if name in _built_in():
        return _config_in(import_module(f"{__name__}.{name}"))
    installed = _installed()
    if name not in installed:
        known = ", ".join(sorted([*_built_in(), *installed]))
        raise RecipeError(f"task cannot be {name!r:.200}; it can be: {known}")
    entry = installed[name]
    try:
        return _config_in(entry.load())
    except Exception as error:  # the code of another package
        raise RecipeError(
            f"the task {name} cannot be loaded from {entry.value} ({brief(error)}). Reinstall or "
            f"remove {_package(entry)}."
        ) from error


def _built_in() -> list[str]:
    """Return the names of the modules of this package; its sub-packages hold shared parts."""
    return [module.name for module in iter_modules(__path__) if not module.ispkg]


def _installed() -> dict[str, EntryPoint]:
    """Return the tasks of other packages, by their names."""
    from importlib.metadata import entry_points

    tasks: dict[str, EntryPoint] = {}
    for entry in entry_points(group=ENTRY_POINTS):
        if entry.name in _built_in():
            raise RecipeError(
                f"{_package(entry)} offers a task {entry.name}, which is the name of a built-in "
                f"task. Rename it in the entry points of {_package(entry)}, or remove the package."
            )
        if tasks.setdefault(entry.name, entry).value != entry.value:
            raise RecipeError(
                f"{_package(tasks[entry.name])} and {_package(entry)} both offer a task "
                f"{entry.name}. Remove one of the packages."
            )
    return tasks


def _package(entry: EntryPoint) -> str:
    return f"the package {entry.dist.name}" if entry.dist else entry.value


def _config_in(where: object) -> type[TaskConfig]:
    """Return the one subclass of `TaskConfig` that a module defines, or the class itself."""
    from saccade.tasks._shared.base import TaskConfig

    values = vars(where).values() if isinstance(where, ModuleType) else [where]
    classes = [kind for kind in values if isinstance(kind, type) and issubclass(kind, TaskConfig)]
    configs = [kind for kind in classes if not isabstract(kind)]
    own = [kind for kind in configs if kind.__module__ == getattr(where, "__name__", None)]
    if len(own or configs) != 1:
        raise RecipeError(f"it must define one subclass of TaskConfig, not {len(own or configs)}")
    return (own or configs)[0]
