"""The run folder: what lies in it, who may write to it, and whether a resumption fits it."""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import filelock
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import nn

from saccade._version import __version__
from saccade.data.corpus import Item
from saccade.errors import RunError
from saccade.shapes import Tensor
from saccade.tasks.base import Task
from saccade.training import recipe as recipes
from saccade.training.files import remove_partial, room_on_disk, write_file
from saccade.training.recipe import Recipe
from saccade.training.upgrade import FORMAT, upgraded

log = logging.getLogger(__name__)

FREE = (
    "max_steps",
    "minutes",
    "validate_every",
    "checkpoint_every",
    "keep_checkpoints",
    "patience",
)
"""The training options that may change in a resumption without a word."""

SAMPLES, SAMPLE_LENGTH = 64, 500
"""How many validation items are kept, and the characters of one that has no right answer."""

BEGINNING = ".beginning"
"""Stands in a folder while the first files of a run are written."""


@dataclass(frozen=True)
class Run:
    """A folder with a recipe, weights, checkpoints and metrics."""

    folder: Path

    @property
    def checkpoints(self) -> Path:
        """Where the checkpoints are."""
        return self.folder / "checkpoints"

    @property
    def metrics(self) -> Path:
        """One JSON object a line: what was measured at each step."""
        return self.folder / "metrics.jsonl"

    @property
    def weights(self) -> Path:
        """The best weights."""
        return self.folder / "model.safetensors"

    @property
    def initial(self) -> Path:
        """The weights that were taken from another model to begin with, if any were."""
        return self.folder / "initial.safetensors"

    @property
    def sampled(self) -> Path:
        """Some validation items, by which engines are compared."""
        return self.folder / "samples.jsonl"

    def exists(self) -> bool:
        """Whether there is a run in this folder."""
        return (self.folder / "run.json").exists()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """The folder for this process alone; the system lets go of it however the process ends."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise RunError(f"{self.folder} is a file; --out needs a folder") from None
        except OSError as error:
            raise RunError(f"{self.folder} cannot be made: {error.strerror}") from None
        lock = filelock.FileLock(self.folder / ".lock", timeout=0)
        try:
            lock.acquire()
        except filelock.Timeout:
            raise RunError(
                f"another process is training in {self.folder}; wait for it, or take another --out"
            ) from None
        except OSError as error:
            raise RunError(f"{self.folder} cannot be written: {error.strerror}") from None
        try:
            remove_partial(self.folder)
            yield
        finally:
            lock.release()

    def begin(
        self,
        recipe: Recipe,
        task: Task[Any],
        facts: Mapping[str, Any],
        initial: Mapping[str, Tensor] | None = None,
    ) -> None:
        """Write what a run begins with; run.json last, for it makes the folder a run.

        `initial` are weights of another model that replace the new ones.
        """
        with room_on_disk(self.folder, "the run was not begun"):
            write_file(self.folder / BEGINNING, b"")
            self.keep_parts(task)
            write_file(self.folder / "recipe.toml", recipe.to_toml().encode())
            write_file(self.metrics, b"")
            if initial is not None:
                write_file(self.initial, save(dict(initial)))
            about = {"format": FORMAT, "saccade": __version__, **facts}
            write_file(self.folder / "run.json", json.dumps(about, indent=1).encode())
            (self.folder / BEGINNING).unlink()

    def keep_parts(self, task: Task[Any]) -> None:
        """Write what the task needs besides recipe and weights."""
        for name, content in task.parts().items():
            path = self.folder / name
            with room_on_disk(path, "what was there is kept"):
                write_file(path, content.encode())

    def strangers(self) -> list[str]:
        """What lies in a folder that is no run yet, and was not put there by beginning one."""
        if (self.folder / BEGINNING).exists():
            return []
        return sorted(name for name in os.listdir(self.folder) if not name.startswith("."))

    def about(self) -> dict[str, Any]:
        """What the run was begun with: its format, data and threads."""
        path = self.folder / "run.json"
        try:
            about = json.loads(path.read_bytes())
            number = int(about["format"])
        except (FileNotFoundError, NotADirectoryError):
            raise RunError(self._no_run()) from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunError(f"{path} is damaged: {error}") from None
        if number > FORMAT:
            raise RunError(
                f"{self.folder} was written by a newer Saccade ({about.get('saccade')}, run format "
                f"{number}; this one reads up to {FORMAT}): upgrade Saccade to read it"
            )
        return dict(about)

    def recipe(self) -> Recipe:
        """The recipe as it was resolved."""
        number = int(self.about()["format"])
        path = self.folder / "recipe.toml"
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise RunError(f"the run's recipe cannot be read: {error}") from None
        return recipes.from_table(upgraded(recipes.parse(text, str(path)), number), str(path))

    def task(self) -> Task[Any]:
        """The trained task, with the best weights there are."""
        task = self.recipe().options.restored(self.folder)
        if not self.weights.exists():
            raise RunError(
                f"{self.folder} has no weights yet: its training has not come to a first "
                "validation; go on with `saccade train ... --resume`"
            )
        fill(task.model, self.weights)
        return task.eval()

    def beginning(self, seed: int) -> Task[Any]:
        """The task as the run began: new weights by the seed, but for those taken from another."""
        torch.manual_seed(seed)
        task = self.recipe().options.restored(self.folder)
        if self.initial.exists():
            task.model.load_state_dict(read_tensors(self.initial), strict=False)
        return task

    def keep_best(self, model: nn.Module) -> None:
        """Write the weights that are the best so far."""
        with room_on_disk(self.weights, "the best weights before are kept"):
            write_file(self.weights, save(tensors_of(model)))

    def keep_samples(self, items: Sequence[Item]) -> None:
        """Keep some items of text; of those without a right answer the beginning is enough."""
        lines = []
        for item in items[:SAMPLES]:
            inputs = [text if item.references else text[:SAMPLE_LENGTH] for text in item.inputs]
            lines.append(json.dumps({"inputs": inputs, "references": item.references}) + "\n")
        with room_on_disk(self.sampled, "the run itself is kept"):
            write_file(self.sampled, "".join(lines).encode())

    def samples(self) -> list[Item]:
        """What was kept; nothing where a run is older, imported, or its samples cannot be read."""
        try:
            rows = [json.loads(line) for line in self.sampled.read_text("utf-8").splitlines()]
            return [
                Item(tuple(row["inputs"]), tuple(row["references"]), line)
                for line, row in enumerate(rows, start=1)
            ]
        except (OSError, ValueError, KeyError, TypeError):
            return []

    def cut_metrics(self, size: int) -> None:
        """Forget what was measured after a checkpoint, since those steps are done again."""
        with self.metrics.open("ab") as file:
            if file.tell() > size:  # what is as it should be is not touched
                file.truncate(size)

    def sync_metrics(self) -> int:
        """Wait until the disk has all that was measured; how many bytes that is."""
        with room_on_disk(self.metrics, "everything before is kept"), self.metrics.open("ab") as f:
            os.fsync(f.fileno())
            return f.tell()

    def note(self, record: Mapping[str, Any]) -> None:
        """Add a line to metrics.jsonl; what is no number, such as a NaN, is null there."""
        line = json.dumps({name: _finite(value) for name, value in record.items()})
        with room_on_disk(self.metrics, "everything before is kept"), self.metrics.open("ab") as f:
            f.write(line.encode() + b"\n")

    def require_fit(self, recipe: Recipe, facts: Mapping[str, Any]) -> Recipe:
        """Say what has changed since the run began; refuse what its weights cannot follow."""
        before, now = flat(self.recipe().table()), flat(recipe.table())
        changed = {k for k in before.keys() | now.keys() if before.get(k) != now.get(k)}
        fixed = sorted(key for key in changed if not key.startswith(("training.", "generation.")))
        fixed = [key for key in fixed if not key.startswith(("metrics.", "loss."))]
        if fixed:
            raise RunError(
                f"{self.folder} was begun with another recipe: "
                + differences(fixed, before, now)
                + "; resume it with the recipe it has, or train into another folder"
            )
        free = {f"training.{name}" for name in FREE}
        if said := sorted(changed - free):
            log.warning("the recipe has changed: %s", differences(said, before, now))
        about = self.about()
        for name, value in facts.items():
            if name in about and about[name] != value:
                log.warning(
                    "%s",
                    _MEANING.get(name, "{name} changed").format(
                        name=name, before=about[name], now=value
                    ),
                )
        if changed:
            with room_on_disk(self.folder, "the recipe before is kept"):
                write_file(self.folder / "recipe.toml", recipe.to_toml().encode())
        return recipe

    def _no_run(self) -> str:
        if not self.folder.exists():
            return f"there is no run folder {self.folder}"
        if not self.folder.is_dir():
            return f"{self.folder} is a file, not a run folder"
        inside = ", ".join(sorted(os.listdir(self.folder))[:6]) or "nothing"
        return f"{self.folder} is not a run folder: it has no run.json, but {inside}"


_MEANING = {
    "data": "the data has changed since the run began; it goes on with the new data",
    "threads": "the run began with {before} threads and goes on with {now}: "
    "the last bits of its sums may differ",
    "world": "the run began with {before} processes and goes on with {now}: "
    "its updates are of another size",
    "device": "the run began on {before} and goes on on {now}",
    "precision": "the run began in {before} and goes on in {now}",
}


def tensors_of(model: nn.Module) -> dict[str, Tensor]:
    """The weights of a model; those with several names under the first of them."""
    names = {
        id(p): name for name, p in reversed(list(model.named_parameters(remove_duplicate=False)))
    }
    once = set(names.values()) | {name for name, _ in model.named_buffers()}
    return {
        name: value.detach().cpu().contiguous()
        for name, value in model.state_dict().items()
        if name in once
    }


def put_tensors(model: nn.Module, tensors: Mapping[str, Tensor], where: str) -> None:
    """Give a model these weights; all of its own must be there, and no other."""
    wanted = tensors_of(model)
    if wanted.keys() != tensors.keys():
        odd = sorted(wanted.keys() ^ tensors.keys())[:4]
        raise RunError(
            f"{where} holds the weights of another model: they differ in {', '.join(odd)}"
        )
    for name, value in wanted.items():
        if value.shape != tensors[name].shape:
            raise RunError(
                f"{where}: {name} has shape {tuple(tensors[name].shape)}, "
                f"the model needs {tuple(value.shape)}"
            )
    model.load_state_dict(dict(tensors), strict=False)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The weights in a file."""
    try:
        return load(path.read_bytes())
    except (OSError, SafetensorError) as error:
        raise RunError(f"the weights {path} cannot be read: {error}") from None


def fill(model: nn.Module, path: Path) -> None:
    """Give a model the weights of a file."""
    put_tensors(model, read_tensors(path), str(path))


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def flat(table: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """A recipe's tables as one, with keys such as "model.dim"."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        here = f"{path}.{key}" if path else key
        found.update(flat(value, here) if isinstance(value, Mapping) else {here: value})
    return found


def differences(keys: list[str], before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """What these keys were and are, for a message."""
    return ", ".join(f"{key} was {before.get(key)!r}, is {now.get(key)!r}" for key in keys)
