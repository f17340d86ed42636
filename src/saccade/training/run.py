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
from torch import nn

from saccade._version import __version__
from saccade.data.corpus import Item
from saccade.errors import RunError, SaccadeError, brief
from saccade.files import parse_json, read_json, read_text, remove_partial, room_on_disk, write_file
from saccade.shapes import Tensor
from saccade.tasks import Task
from saccade.training import manifest
from saccade.training import recipe as recipes
from saccade.training.outline import without_memory
from saccade.training.recipe import Recipe
from saccade.training.tensor_files import read_shapes, read_tensors, serialized
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

SPARE = 100
"""Tensors that a model may make and not keep, such as those that are replaced by shared ones."""

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
        task: Task,
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
                manifest.replace_files(self.folder, {self.initial.name: serialized(initial)})
            about = {"format": FORMAT, "saccade": __version__, **facts}
            write_file(self.folder / "run.json", json.dumps(about, indent=1).encode())
            (self.folder / BEGINNING).unlink()

    def keep_parts(self, task: Task) -> None:
        """Write what the task needs besides recipe and weights."""
        contents = {name: content.encode() for name, content in task.files().items()}
        with room_on_disk(self.folder, "what was there is kept"):
            manifest.replace_files(self.folder, contents)

    def strangers(self) -> list[str]:
        """What lies in a folder that is no run yet, and was not put there by beginning one."""
        if (self.folder / BEGINNING).exists():
            return []
        return sorted(name for name in os.listdir(self.folder) if not name.startswith("."))

    def about(self) -> dict[str, Any]:
        """What the run was begun with: its format, data and threads."""
        path = self.folder / "run.json"
        try:
            about = read_json(path)
            number = int(about["format"])
        except (FileNotFoundError, NotADirectoryError):
            raise RunError(self._no_run()) from None
        except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
            raise RunError(f"{path} is damaged: {brief(error)}") from None
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
            text = read_text(path, recipes.LARGEST)
        except (OSError, UnicodeDecodeError) as error:
            raise RunError(f"the run's recipe {path} cannot be read: {brief(error)}") from None
        with _damage_as_error(f"{path} cannot be used"):
            table = upgraded(recipes.parse(text, str(path)), number)
            return recipes.from_table(table, str(path))

    def task(self) -> Task:
        """The trained task, with the best weights there are.

        Its model is first built without memory, and compared with the header of the weights: a
        damaged recipe or vocabulary may ask for more memory than there is.
        """
        recipe = self.recipe()
        if not self.weights.exists():
            raise RunError(
                f"{self.folder} has no weights yet: its training has not come to a first "
                "validation; go on with `saccade train ... --resume`"
            )
        shapes = read_shapes(self.weights)
        most = 2 * len(shapes) + SPARE
        with without_memory(most, f"{self.weights} has {len(shapes)} tensors; recipe.toml"):
            outline = self._restored(recipe)
        require_shapes(outline.model, shapes, str(self.weights))
        manifest.require_intact(self.folder)
        task = self._restored(recipe)
        put_tensors(task.model, read_tensors(self.weights), str(self.weights))
        return task.eval()

    def best_tensors(self) -> dict[str, Tensor]:
        """The best weights, by name."""
        manifest.require_intact(self.folder, [self.weights.name])
        return read_tensors(self.weights)

    def accept(self) -> list[str]:
        """Trust the files as they are now; gives the names of those that have changed."""
        self.about()
        with self.locked(), room_on_disk(self.folder, "what was there is kept"):
            return manifest.accept(self.folder)

    def beginning(self, seed: int) -> Task:
        """The task as the run began: new weights by the seed, but for those taken from another."""
        recipe = self.recipe()
        manifest.require_intact(self.folder)
        torch.manual_seed(seed)
        task = self._restored(recipe)
        if self.initial.exists():
            task.model.load_state_dict(read_tensors(self.initial), strict=False)
        return task

    def _restored(self, recipe: Recipe) -> Task:
        """The task of the folder, with new weights; whatever cannot be built is a RunError."""
        what = f"{self.folder}: the model that recipe.toml and the vocabularies describe"
        with _damage_as_error(f"{what} cannot be built"):
            return recipe.options.restore(self.folder)

    def keep_best(self, model: nn.Module) -> None:
        """Write the weights that are the best so far."""
        with room_on_disk(self.weights, "the best weights before are kept"):
            manifest.replace_files(self.folder, {self.weights.name: serialized(tensors_of(model))})

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
            rows = [parse_json(line) for line in read_text(self.sampled).splitlines()]
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


_DAMAGE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""The errors of building a model from files that make no sense."""

_MEANING = {
    "data": "the data has changed since the run began; it goes on with the new data",
    "threads": "the run began with {before} threads and goes on with {now}: "
    "the last bits of its sums may differ",
    "world": "the run began with {before} processes and goes on with {now}: "
    "its updates are of another size",
    "device": "the run began on {before} and goes on on {now}",
    "precision": "the run began in {before} and goes on in {now}",
}


@contextmanager
def _damage_as_error(what: str) -> Iterator[None]:
    """Errors of files that make no sense become a RunError, which begins with `what`."""
    try:
        yield
    except SaccadeError:
        raise
    except _DAMAGE as error:
        raise RunError(
            f"{what} ({type(error).__name__}: {brief(error)}). Restore it from a copy"
        ) from error


def tensors_of(model: nn.Module) -> dict[str, Tensor]:
    """The weights of a model where they are; those with several names under the first of them."""
    names = {
        id(p): name for name, p in reversed(list(model.named_parameters(remove_duplicate=False)))
    }
    once = set(names.values()) | {name for name, _ in model.named_buffers()}
    return {name: value.detach() for name, value in model.state_dict().items() if name in once}


def require_shapes(model: nn.Module, shapes: Mapping[str, tuple[int, ...]], where: str) -> None:
    """Raise unless these are the names and shapes of the model's own weights."""
    wanted = tensors_of(model)
    if wanted.keys() != shapes.keys():
        odd = sorted(wanted.keys() ^ shapes.keys())[:4]
        raise RunError(
            f"{where} holds the weights of another model: they differ in {', '.join(odd)}"
        )
    for name, value in wanted.items():
        if value.shape != shapes[name]:
            raise RunError(
                f"{where}: {name} has shape {tuple(shapes[name])}, "
                f"the model needs {tuple(value.shape)}"
            )


def put_tensors(model: nn.Module, tensors: Mapping[str, Tensor], where: str) -> None:
    """Give a model these weights; all of its own must be there, and no other."""
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    require_shapes(model, shapes, where)
    model.load_state_dict(dict(tensors), strict=False)


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
