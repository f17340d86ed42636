"""Runs from and for other tools: a folder of theirs becomes a run, a run becomes one of theirs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from saccade.errors import InteropError, RunError
from saccade.files import PARTIAL, room_on_disk
from saccade.interop import ctranslate2
from saccade.interop.huggingface.task_export import write_task as write_huggingface
from saccade.interop.huggingface.task_import import read_task
from saccade.interop.onnx.writing import write_task as write_onnx
from saccade.tasks import Task
from saccade.training.recipe import Recipe, TrainingConfig
from saccade.training.run import Run

FORMATS: Mapping[str, Callable[..., str | None]] = {
    "ctranslate2": ctranslate2.write_task,
    "huggingface": write_huggingface,
    "onnx": write_onnx,
}
"""What a task can be written as, each into an empty folder; what is to be said comes back."""

TRAINING = TrainingConfig(learning_rate=5e-5)
"""How an imported model would be trained further: gently."""


def import_folder(folder: str | Path, out: str | Path, *, pairs: bool = False) -> Task:
    """Make the run `out` of a Hugging Face folder; gives its task.

    Of a classifier, `pairs` says that it reads two texts.
    """
    folder, run = Path(folder), Run(Path(out))
    if run.exists():
        raise RunError(f"{run.folder} holds a run already; choose another folder with --out")
    read = read_task(folder, pairs=pairs)
    with run.locked():
        if others := run.strangers():
            raise RunError(
                f"{run.folder} is not empty ({', '.join(others[:4])}); choose a new folder "
                "with --out"
            )
        run.keep_best(read.task.model)
        recipe = Recipe(read.task.name, read.options, TRAINING)
        run.begin(recipe, read.task, {"imported": folder.resolve().name})
    return read.task


def export_run(
    run: str | Path, to: str, out: str | Path, *, quantization: str | None = None
) -> str | None:
    """Write the trained task of a run in another tool's format into the new folder `out`.

    Gives what there is to say of it. `quantization` is for ctranslate2: int8, or float32.
    """
    if to not in FORMATS:
        raise InteropError(f"a run cannot be exported to {to!r}; it can be to: {_known()}")
    options: dict[str, Any] = {}
    if to == "ctranslate2":
        options = {"quantization": quantization or "int8", "items": Run(Path(run)).samples()}
    elif quantization is not None:
        raise InteropError(f"--quantization is for ctranslate2, not for {to}")
    with _new_folder(Path(out)) as folder:
        return FORMATS[to](Run(Path(run)).task(), folder, **options)


def _known() -> str:
    return ", ".join(FORMATS)


@contextmanager
def _new_folder(out: Path) -> Iterator[Path]:
    """An empty folder that gets its name when all is in it, and is gone if something fails."""
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        what = "is not empty" if out.is_dir() else "is a file"
        raise InteropError(f"{out} {what}; choose a new folder to export to")
    with room_on_disk(out, "nothing was written"):
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=PARTIAL, dir=out.parent) as name:
            folder = Path(name) / "out"
            folder.mkdir()
            yield folder
            if out.exists():
                out.rmdir()
            os.replace(folder, out)
