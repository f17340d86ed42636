"""Export of a task to a folder in another tool's format."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from saccade.data.corpus import Item
from saccade.errors import InteropError
from saccade.files import atomic_folder, write_file
from saccade.interop import ctranslate2
from saccade.interop.huggingface.task_export import require_exportable
from saccade.interop.huggingface.task_export import write_task as write_huggingface
from saccade.interop.model_card import CARD, CardFacts, model_card
from saccade.interop.onnx.exports import export_of
from saccade.interop.onnx.writing import write_task as write_onnx
from saccade.tasks import Task

FORMATS: Mapping[str, Callable[..., str | None]] = {
    "ctranslate2": ctranslate2.write_task,
    "huggingface": write_huggingface,
    "onnx": write_onnx,
}
"""Functions that write a task into an empty folder, by format; they may return a remark."""


CHECKS: Mapping[str, Callable[[Task], object]] = {
    "ctranslate2": ctranslate2.require_runnable,
    "huggingface": require_exportable,
    "onnx": export_of,
}
"""Functions that raise an `InteropError` if a format cannot express a task; nothing is written."""


def formats_of(task: Task) -> list[str]:
    """Return the formats that can express a task, whether or not their packages are installed."""
    formats = []
    for name, check in CHECKS.items():
        with suppress(InteropError):
            check(task)
            formats.append(name)
    return formats


def export_task(
    task: Task,
    to: str,
    folder: str | Path,
    *,
    quantization: str | None = None,
    family: str | None = None,
    items: Sequence[Item] = (),
    facts: CardFacts | None = None,
    notify: Callable[[str], None] = lambda text: None,
) -> str | None:
    """Write a task into a new folder, read it again, and compare its predictions.

    Args:
        task: a trained task.
        to: the format: "ctranslate2", "huggingface" or "onnx".
        folder: the folder to write; it must not exist, or be empty. If anything fails, it is left
            as it was.
        quantization: for "ctranslate2": "int8" (the default) or "float32".
        family: for "huggingface": the `model_type`, such as "roberta"; by default the first that
            the model fits.
        items: for "ctranslate2": inputs to compare predictions by.
        facts: what the model card, README.md, reports of the training; see `saccade.training`.
        notify: called with a line about each long step.

    Returns:
        A remark for the user, such as how close the predictions are; None without one.

    Raises:
        InteropError: if the format is unknown, cannot express the task, or does not predict the
            same, or if the folder is not empty.
        DiskFullError: if the disk is full.
    """
    folder = Path(folder)
    if to not in FORMATS:
        raise InteropError(
            f"a run cannot be exported to {to!r}; choose one of {', '.join(FORMATS)}"
        )
    options: dict[str, Any] = {"notify": notify}
    if to == "ctranslate2":
        options |= {"quantization": quantization or "int8", "items": items}
    elif quantization is not None:
        raise InteropError(f"--quantization is for ctranslate2, not for {to}; leave it out")
    if to == "huggingface":
        options["family"] = family
    elif family is not None:
        raise InteropError(f"--family is for huggingface, not for {to}; leave it out")
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        what = "is not empty" if folder.is_dir() else "is a file"
        raise InteropError(f"{folder} {what}; choose a new folder to export to")
    with atomic_folder(folder, "nothing was written") as partial:
        remark = FORMATS[to](task, partial, **options)
        card = model_card(task, to, facts or CardFacts(name=folder.resolve().name))
        write_file(partial / CARD, card.encode())
        return remark
