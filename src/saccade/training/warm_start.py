"""Where a training may begin other than with new weights: a run, or a Hugging Face folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from saccade import config
from saccade.errors import RunError
from saccade.interop import huggingface
from saccade.interop.huggingface.model_rewrites import with_rows
from saccade.interop.huggingface.vocabulary import TOKENIZER, read_vocabulary
from saccade.models import TranslatorConfig
from saccade.shapes import Tensor
from saccade.tasks import Task
from saccade.training.run import Run, tensors_of


@dataclass(frozen=True)
class WarmStart:
    """Another model: where its vocabularies lie, its options as a recipe has them, its weights."""

    folder: Path
    model: Mapping[str, Any]
    tensors: Mapping[str, Tensor]

    def fitting(self, task: Task) -> dict[str, Tensor]:
        """Its weights for a task: all that go by the same name, but for what is always new."""
        wanted = tensors_of(task.model)
        taken = {
            name: self.tensors[name]
            for name in wanted
            if name in self.tensors and not name.startswith(task.reinitialised)
        }
        if not taken:
            raise RunError(
                f"{self.folder} has nothing that a {type(task.model).__name__} could begin with"
            )
        for name, tensor in taken.items():
            if tensor.shape != wanted[name].shape:
                raise RunError(
                    f"{self.folder}: {name} has shape {tuple(tensor.shape)}, the model needs "
                    f"{tuple(wanted[name].shape)}; leave that part of the recipe as it is there"
                )
        return taken


def open_warm_start(where: str | Path) -> WarmStart:
    """The model of a run folder, or of a folder as transformers keeps it."""
    folder = Path(where)
    run = Run(folder)
    if run.exists():
        if not run.weights.exists():
            raise RunError(f"{folder} has no weights yet, so nothing can begin with them")
        model = config.plain(run.recipe().options)["model"]
        return WarmStart(folder, model, run.best_tensors())
    if not (folder / "config.json").is_file():
        raise RunError(
            f"--init takes a run folder (with run.json) or a Hugging Face folder (with "
            f"config.json); {folder} is neither"
        )
    described = huggingface.describe(folder)
    if described.config is None:
        raise RunError(f"{folder} holds a {described.architecture}, which no recipe can begin with")
    if isinstance(described.config, TranslatorConfig):
        raise RunError(
            f"{folder} holds a translator: make a run of it with `saccade import {folder} --out "
            "RUN`, and begin with that"
        )
    tokenizer = read_vocabulary(folder / TOKENIZER, (), described.vocabulary or 0)
    count = len(tokenizer)
    model = with_rows(huggingface.load(folder), source=count, target=count)
    return WarmStart(folder, config.plain(described.config), tensors_of(model))
