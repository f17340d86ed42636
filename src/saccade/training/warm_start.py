"""Warm starts: training from the weights of a run or of a Hugging Face folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from saccade import config
from saccade.errors import RunError
from saccade.files import read_json
from saccade.interop import huggingface
from saccade.interop.huggingface.model_rewrites import with_rows
from saccade.interop.huggingface.task_import import read_scale, read_task
from saccade.interop.huggingface.vocabulary import TOKENIZER, read_vocabulary
from saccade.models import TranslatorConfig
from saccade.positions import Learned
from saccade.positions.learned import resized
from saccade.shapes import Tensor
from saccade.tasks import IMAGE_FILE, Task
from saccade.training.run import Run, tensors_of


@dataclass(frozen=True)
class WarmStart:
    """Another model to start from.

    Args:
        folder: the folder that was given.
        model: its options, as the `[model]` table of a recipe has them.
        tensors: its weights, by name.
        files: its vocabularies, or the scale of its pixels, if they are not in `folder`.
    """

    folder: Path
    model: Mapping[str, Any]
    tensors: Mapping[str, Tensor]
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_scale(self) -> bool:
        """Whether the scale of the pixels that its weights expect is known."""
        path = self.folder / IMAGE_FILE
        facts = read_json(path) if path.is_file() else self.files.get(IMAGE_FILE, ())
        return "mean" in facts

    @contextmanager
    def vocabulary(self) -> Iterator[Path]:
        """Yield the folder of its vocabularies, or of the scale of its pixels."""
        if not self.files:
            yield self.folder
            return
        with TemporaryDirectory(prefix="saccade-init-") as staging:
            for name, text in self.files.items():
                (Path(staging) / name).write_text(text, encoding="utf-8")
            yield Path(staging)

    def fitting(self, task: Task) -> dict[str, Tensor]:
        """Return the weights that a task can start from: those of the same name and shape.

        Parts that the task always initialises itself, such as a head, are left out.

        Raises:
            RunError: if there are none, or a shape differs.
        """
        own = tensors_of(task.model)
        taken = {
            name: self.tensors[name]
            for name in own
            if name in self.tensors and not name.startswith(task.reinitialised)
        }
        if not taken:
            raise RunError(
                f"{self.folder} has no weights that a {type(task.model).__name__} could start "
                "from; use a run of the same kind of model with --init"
            )
        taken |= dict(_tables_of_images(task, taken))
        for name, tensor in taken.items():
            if tensor.shape != own[name].shape:
                raise RunError(
                    f"{self.folder}: {name} has shape {tuple(tensor.shape)}, the model needs "
                    f"{tuple(own[name].shape)}. Leave that part of the recipe as it is there"
                )
        return taken


def _translator(folder: Path) -> WarmStart:
    """Return the translator of a Hugging Face folder with the control tokens that it lacked."""
    read = read_task(folder)
    model = config.plain(read.options)["model"]
    return WarmStart(folder, model, tensors_of(read.task.model), read.task.files())


def _tables_of_images(task: Task, taken: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Yield the learned positions of images, resized to those of the task."""
    for name, module in task.model.named_modules():
        table = taken.get(f"{name}.weight")
        if table is None or not isinstance(module, Learned) or isinstance(module.length, int):
            continue
        if table.shape != module.weight.shape:
            yield f"{name}.weight", resized(table, module.length)


def open_warm_start(where: str | Path) -> WarmStart:
    """Open the model of a run folder or a Hugging Face folder.

    Raises:
        RunError: if the folder is neither, or holds no model that a recipe can start from.
    """
    folder = Path(where)
    run = Run(folder)
    if run.exists():
        if not run.weights.exists():
            raise RunError(
                f"{folder} has no weights to start from yet; train it up to its first validation"
            )
        model = config.plain(run.recipe().options)["model"]
        return WarmStart(folder, model, run.best_tensors())
    if not (folder / "config.json").is_file():
        raise RunError(
            f"--init takes a run folder (with run.json) or a Hugging Face folder (with "
            f"config.json); {folder} is neither"
        )
    described = huggingface.describe(folder)
    if described.config is None:
        raise RunError(
            f"{folder} holds a {described.architecture}, which no recipe can start from. Give a "
            "run, or a Hugging Face folder of a text encoder, a language model or a vit"
        )
    if isinstance(described.config, TranslatorConfig):
        return _translator(folder)
    if described.vocabulary is None:
        table = config.plain(described.config)
        table["encoder"]["position"].pop("grid")  # that of the images
        scale = read_scale(folder)
        files = {} if scale is None else {IMAGE_FILE: scale}
        return WarmStart(folder, table, tensors_of(huggingface.load(folder)), files)
    tokenizer = read_vocabulary(folder / TOKENIZER, (), described.vocabulary or 0)
    count = len(tokenizer)
    model = with_rows(huggingface.load(folder), source=count, target=count)
    return WarmStart(folder, config.plain(described.config), tensors_of(model))
