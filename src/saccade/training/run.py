"""The run folder: its files, its lock, and whether a resumed training fits it."""

from __future__ import annotations

import json
import logging
import math
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import filelock
import torch
from torch import nn

from saccade._version import __version__
from saccade.data.corpus import Item
from saccade.data.validation_split import GIVEN, HASH
from saccade.errors import RunError, SaccadeError, brief
from saccade.files import (
    KEPT,
    clean_up,
    disk_errors,
    read_text,
    write_file,
)
from saccade.shapes import Tensor
from saccade.tasks import Task
from saccade.training import checkpoint, manifest
from saccade.training import recipe as recipes
from saccade.training.outline import without_memory
from saccade.training.recipe import Recipe, flat
from saccade.training.run_folder import BEGINNING, RunFolder
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
"""Keys of `[training]` that may change when a run is resumed, without a warning."""

SIZE_OF_UPDATE = frozenset({"training.update_tokens", "training.accumulate"})
"""Keys that set the size of an update."""
SAMPLES, SAMPLE_LENGTH = 64, 500
"""Validation items that a run keeps, and characters of an item without a reference."""

SPARE = 100
"""Tensors that a model may make and not keep, such as those that are replaced by shared ones."""

CLEANED = "cleaned"
"""Key of run.json that is true after the checkpoints were removed on purpose."""

NOT_BEGUN = "the run was not begun"
"""Part of an error about a run that was not there before."""

LOCK = ".lock"
"""Name of the file that the process which writes to the folder holds a lock on."""


@dataclass(frozen=True)
class Run(RunFolder):
    """A run folder: recipe, vocabularies, weights, checkpoints and metrics.

    Args:
        folder: its path; it need not exist yet.

    Example:
        >>> run = Run(Path("runs/en-de"))
        >>> run.exists()
        False
        >>> run.weights.name
        'model.safetensors'
    """

    @contextmanager
    def locked(self, wait: float = 0.0) -> Iterator[None]:
        """Lock the folder for this process, which may write to it inside the block.

        The system releases the lock however the process ends. If the block leaves the folder
        empty, nothing of it stays that was not there before.

        Args:
            wait: seconds to wait for another process that holds the lock.

        Raises:
            RunError: if another process holds the lock, or the folder cannot be created.
        """
        missing = [path for path in (self.folder, *self.folder.parents) if not path.exists()]
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise RunError(
                f"{self.folder} cannot be a folder, because a file has this name or that of a "
                "folder above it; choose another one with --out"
            ) from None
        except OSError as error:
            raise RunError(
                f"the folder {self.folder} cannot be created: {error.strerror}. Choose another one "
                "with --out"
            ) from None
        lock = filelock.FileLock(self.folder / LOCK, timeout=wait)
        try:
            lock.acquire()
        except filelock.Timeout:
            raise RunError(
                f"another process is training in {self.folder}; wait until it ends, or choose "
                "another folder with --out"
            ) from None
        except OSError as error:
            raise RunError(
                f"{self.folder} cannot be written: {error.strerror}. Choose another folder with "
                "--out"
            ) from None
        try:
            clean_up(self.folder)
            yield
        finally:
            lock.release()
            with suppress(OSError):  # the lock of another process, or a folder that is not empty
                if os.listdir(self.folder) == [LOCK]:
                    (self.folder / LOCK).unlink()
                for path in missing:
                    path.rmdir()

    @contextmanager
    def provisional(self) -> Iterator[None]:
        """Remove a new run at the end of the block unless `started` is called inside it."""
        if not self.exists():
            self._discard()  # what a killed process left
            write_file(self.folder / BEGINNING, b"", NOT_BEGUN)
        try:
            yield
        finally:
            self._discard()

    def started(self) -> None:
        """Keep a provisional run from now on."""
        (self.folder / BEGINNING).unlink(missing_ok=True)

    def _discard(self) -> None:
        """Remove all files of a run that has not started."""
        if not (self.folder / BEGINNING).exists():
            return
        names = sorted(os.listdir(self.folder), key=BEGINNING.__eq__)  # the mark comes last
        for path in (self.folder / name for name in names if name != LOCK):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def begin(
        self,
        recipe: Recipe,
        task: Task,
        facts: Mapping[str, object],
        initial: Mapping[str, Tensor] | None = None,
    ) -> None:
        """Write the first files of a run; run.json comes last, since it makes the folder a run.

        Args:
            recipe: the resolved recipe.
            task: the task, whose vocabularies and labels are written.
            facts: what run.json records, such as digests of the data.
            initial: weights of another model that replace the new ones.
        """
        with disk_errors(self.folder, NOT_BEGUN):
            self.keep_parts(task, NOT_BEGUN)
            write_file(self.folder / "recipe.toml", recipe.to_toml().encode(), NOT_BEGUN)
            write_file(self.metrics, b"", NOT_BEGUN)
            if initial is not None:
                contents = {self.initial.name: serialized(initial)}
                manifest.replace_files(self.folder, contents, NOT_BEGUN)
            self.record({"format": FORMAT, "saccade": __version__, **facts}, NOT_BEGUN)

    def create(self, recipe: Recipe, task: Task, facts: Mapping[str, object]) -> None:
        """Write a new run of a task that has its weights already, such as an imported one.

        Args:
            recipe: the recipe with the options of the task.
            task: the task with its weights.
            facts: what run.json records.

        Raises:
            RunError: if the folder holds a run or other files.
        """
        self.require_new()
        with self.locked():
            self.require_new()
            with self.provisional():
                self.keep_best(task.model)
                self.begin(recipe, task, facts)
                self.started()

    def require_new(self) -> None:
        """Raise a RunError if the folder holds a run or other files."""
        if self.exists():
            raise RunError(f"{self.folder} already holds a run; choose another folder with --out")
        if others := self.other_files():
            raise RunError(
                f"{self.folder} is not empty ({', '.join(others[:4])}) and not a run; choose a new "
                "folder with --out"
            )

    def other_files(self) -> list[str]:
        """Return the files of a folder without a run, unless they were left by beginning one."""
        if not self.folder.is_dir() or (self.folder / BEGINNING).exists():
            return []
        return sorted(name for name in os.listdir(self.folder) if not name.startswith("."))

    def keep_parts(self, task: Task, kept: str = "the files before are kept") -> None:
        """Write the vocabularies, labels and other files that the task needs to be restored."""
        contents = {name: content.encode() for name, content in task.files().items()}
        manifest.replace_files(self.folder, contents, kept)

    def naming(self) -> dict[str, Any]:
        """Return the options of `open_corpus` that name the columns, as given to `train`.

        They are empty if the names of the columns were known anyway, and in runs of older versions.
        """
        about, naming = self.about(), dict[str, Any]()
        match about.get("pair"):
            case str() as pair:
                naming["pair"] = pair
        match about.get("columns"):
            case dict() as columns if columns and all(isinstance(x, str) for x in columns.values()):
                naming["columns"] = columns
        return naming

    def splitting(self, valid_fraction: float | None = None) -> dict[str, Any]:
        """Return the options of `open_corpus` by which the run's validation set was held out.

        Args:
            valid_fraction: the fraction that is requested for a resumed training.

        Raises:
            RunError: if the run was begun with another fraction, or run.json is damaged.
        """
        record = self.about().get("split", {"rule": HASH})
        try:
            rule, fraction, seed = record["rule"], record.get("fraction"), record.get("seed", 0)
            fraction = None if fraction is None else float(fraction)
            seed = int(seed)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RunError(
                f"{self.folder / 'run.json'} is damaged: split has {brief(error)}. Restore it from "
                "a copy"
            ) from None
        if rule == GIVEN:
            return {"valid_fraction": valid_fraction}
        if valid_fraction is not None and valid_fraction != fraction:
            before = "the default" if fraction is None else f"{fraction:g}"
            raise RunError(
                f"{self.folder} was begun with another validation set: --valid-fraction was "
                f"{before}, not {valid_fraction:g}. Resume without the option, or train into "
                "another folder with --out"
            )
        return {"rule": rule, "valid_fraction": fraction, "seed": seed}

    def recipe(self) -> Recipe:
        """Return the resolved recipe of the run."""
        number = int(self.about()["format"])
        path = self.folder / "recipe.toml"
        try:
            text = read_text(path, recipes.LARGEST)
        except (OSError, UnicodeDecodeError) as error:
            raise RunError(
                f"the run's recipe {path} cannot be read: {brief(error)}. Restore it from a copy"
            ) from None
        with _damage_as_error(f"{path} cannot be used"):
            table = upgraded(recipes.parse(text, str(path)), number)
            recipe = recipes.from_table(table, str(path))
        return self.with_size_of_update(recipe)

    def task(self) -> Task:
        """Return the trained task with its best weights, ready to predict.

        Its model is first built without memory and compared with the header of the weights, since
        a damaged recipe or vocabulary may ask for more memory than there is.
        """
        recipe = self.recipe()
        self._require_weights()
        shapes = read_shapes(self.weights)
        most = 2 * len(shapes) + SPARE
        with without_memory(most, f"{self.weights} has {len(shapes)} tensors; recipe.toml"):
            outline = self._restored(recipe)
        require_shapes(outline.model, shapes, str(self.weights))
        manifest.require_intact(self.folder)
        task = self._restored(recipe)
        put_tensors(task.model, read_tensors(self.weights), str(self.weights))
        return task.eval()

    def initial_task(self, seed: int) -> Task:
        """Return the task as the run began: with weights by the seed, or from a warm start."""
        recipe = self.recipe()
        manifest.require_intact(self.folder)
        torch.manual_seed(seed)
        task = self._restored(recipe)
        if self.initial.exists():
            task.model.load_state_dict(read_tensors(self.initial), strict=False)
        return task

    def load_best(self, model: nn.Module) -> None:
        """Replace the weights of a model with the best of the run."""
        put_tensors(model, self.best_tensors(), str(self.weights))

    def best_tensors(self) -> dict[str, Tensor]:
        """Return the best weights, by name."""
        self._require_weights()
        manifest.require_intact(self.folder, [self.weights.name])
        return read_tensors(self.weights)

    def accept(self) -> list[str]:
        """Trust the files as they are now; return the names of those that have changed."""
        self.about()
        with self.locked():
            return manifest.accept(self.folder)

    def clean(self) -> int:
        """Remove what a trained run does not need to predict; return the number of bytes freed.

        Checkpoints, the weights of a warm start and engine folders are removed. The run then
        predicts, exports and serves as before, but cannot be resumed.

        Raises:
            RunError: if the run has no weights or is damaged, or a training run is writing to it.
        """
        about = self.about()
        self._require_weights()
        with self.locked():
            manifest.require_intact(self.folder)  # a checkpoint might be all that is left of it
            if self.checkpoints.exists():
                self.record({**about, CLEANED: True})
            return self.trim(resumable=False)

    def trim(self, *, resumable: bool = True) -> int:
        """Remove what can be made again or has no further use; return the number of bytes freed.

        Args:
            resumable: keep the newest checkpoint.
        """
        sizes = self.removable(resumable=resumable)
        if self.initial in sizes:
            manifest.forget(self.folder, [self.initial.name])
        for path in sizes:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        if not resumable:
            shutil.rmtree(self.checkpoints, ignore_errors=True)
        return sum(sizes.values())

    def removable(self, *, resumable: bool = False) -> dict[Path, int]:
        """Return the files and folders that `trim` removes, with their sizes in bytes.

        Args:
            resumable: keep the newest checkpoint.
        """
        steps = checkpoint.steps(self.checkpoints)
        newest = f"step-{steps[-1]}" if steps and resumable else ""
        paths = [self.folder / "engines"]
        paths += sorted(path for path in self.checkpoints.glob("*") if path.name != newest)
        if newest or not resumable:
            paths.append(self.initial)
        return {path: _size(path) for path in paths if path.exists()}

    def size(self) -> int:
        """Return the bytes of all files in the folder."""
        return _size(self.folder)

    def require_start(self) -> None:
        """Raise a RunError unless training can begin at step 0, without a checkpoint."""
        about = self.about()
        if about.get(CLEANED):
            raise RunError(
                f"{self.folder} cannot be resumed: `saccade clean` removed its checkpoints. Start "
                f"a new run from its weights with --init {self.folder} --out OTHER"
            )
        if "init" in about and not self.initial.exists():
            raise RunError(
                f"{self.folder} cannot be resumed: it has no intact checkpoint, and the weights "
                f"that it started from are removed when a run is finished. Start a new run with "
                f"--init {about['init']} --out OTHER"
            )

    def record(self, about: Mapping[str, object], kept: str = KEPT) -> None:
        """Write run.json."""
        write_file(self.folder / "run.json", json.dumps(about, indent=1).encode(), kept)

    def keep_best(self, model: nn.Module) -> None:
        """Write the weights of a model as the best so far."""
        contents = {self.weights.name: serialized(tensors_of(model))}
        manifest.replace_files(self.folder, contents, "the best weights before are kept")

    def keep_samples(self, items: Sequence[Item]) -> None:
        """Keep some validation items; without a reference, only the beginning of the text."""
        lines = []
        for item in items[:SAMPLES]:
            inputs = [text if item.references else text[:SAMPLE_LENGTH] for text in item.inputs]
            lines.append(json.dumps({"inputs": inputs, "references": item.references}) + "\n")
        write_file(self.sampled, "".join(lines).encode(), "the run itself is kept")

    def cut_metrics(self, size: int) -> None:
        """Drop the measurements after a checkpoint, since those steps are done again."""
        with self.metrics.open("ab") as file:
            if file.tell() > size:  # a file that is right already keeps its time
                file.truncate(size)

    def sync_metrics(self) -> int:
        """Wait until the disk has all measurements; return the size of their file in bytes."""
        with disk_errors(self.metrics), self.metrics.open("ab") as file:
            os.fsync(file.fileno())
            return file.tell()

    def note(self, record: Mapping[str, object]) -> None:
        """Add a line to metrics.jsonl; NaN and infinity become null."""
        line = json.dumps({name: _finite(value) for name, value in record.items()})
        with disk_errors(self.metrics), self.metrics.open("ab") as file:
            file.write(line.encode() + b"\n")

    def recipe_for_resuming(self, recipe: Recipe) -> Recipe:
        """Return the run's own recipe with the budget and the keys set by hand of another.

        Recipes get better from version to version and adapt to data and budget; a run keeps those
        values that it was begun with.
        """
        table, free = self.recipe().table(), [f"training.{name}" for name in FREE]
        for name in FREE:
            table["training"].pop(name, None)
        for key, value in flat(recipe.table()).items():
            if key in free or recipe.sets(key):
                *path, name = key.split(".")
                inner = table
                for part in path:
                    inner = inner.setdefault(part, {})
                inner[name] = value
        return recipes.from_table(table, str(self.folder), recipe.by_hand)

    def with_size_of_update(self, recipe: Recipe, changes: Sequence[str] = ()) -> Recipe:
        """Return the recipe with the size of an update that the run began with.

        In earlier versions, it grew with the number of processes; run.json has the batches.

        Args:
            recipe: the recipe in the folder.
            changes: changes by hand, which may set another size.
        """
        about, training = self.about(), recipe.training
        keys = {change.partition("=")[0].strip() for change in changes}
        batches, size = about.get("batches_per_update"), training.batches_per_update()
        if not isinstance(batches, int) or batches <= size or keys & SIZE_OF_UPDATE:
            return recipe
        if batches != about.get("world", 1) * size:
            return recipe
        update = batches * training.batch_tokens
        return replace(recipe, training=replace(training, update_tokens=update, accumulate=1))

    def resume_with(self, recipe: Recipe, facts: Mapping[str, object]) -> None:
        """Check a recipe against the run's own, warn about changes, and keep it as the run's.

        Args:
            recipe: the recipe to resume with.
            facts: the data, threads, processes, device and precision of this training.

        Raises:
            RunError: if the recipe differs in a key that the weights depend on.
        """
        before, now = flat(self.recipe().table()), flat(recipe.table())
        changed = {k for k in before.keys() | now.keys() if before.get(k) != now.get(k)}
        fixed = [k for k in sorted(changed) if not k.startswith(_CHANGEABLE)]
        if fixed:
            raise RunError(
                f"{self.folder} was begun with another recipe: {differences(fixed, before, now)}. "
                "Resume it with its own recipe, or train into another folder with --out"
            )
        if noted := sorted(changed - {f"training.{name}" for name in FREE}):
            log.warning("the recipe has changed: %s", differences(noted, before, now))
        about = self.about()
        for name, value in facts.items():
            if name in about and about[name] != value:
                text = _CHANGES.get(name, f"{name} has changed from {{before}} to {{now}}")
                log.warning("%s", text.format(before=about[name], now=value))
        if changed:
            write_file(
                self.folder / "recipe.toml", recipe.to_toml().encode(), "the old recipe is kept"
            )

    def _require_weights(self) -> None:
        if not self.weights.exists():
            raise RunError(
                f"{self.folder} has no weights yet: its training has not reached its first "
                "validation. Resume it with `saccade train ... --resume`"
            )

    def _restored(self, recipe: Recipe) -> Task:
        """Return the task of the folder with new weights; a RunError if it cannot be built."""
        what = f"{self.folder}: the model that recipe.toml and the vocabularies describe"
        with _damage_as_error(f"{what} cannot be built"):
            return recipe.options.restore(self.folder)


_CHANGEABLE = ("training.", "generation.", "metrics.", "loss.")
"""Tables of a recipe that the shapes and the meaning of the weights do not depend on."""

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
"""Errors of building a model from files that make no sense."""

_CHANGES = {
    "data": "the data has changed since the run began; training resumes with the new data",
    "threads": "the number of threads has changed from {before} to {now}: the last bits of sums "
    "may differ",
    "world": "the number of processes has changed from {before} to {now}",
    "update_batches": "the number of batches of an update has changed from {before} to {now}",
    "device": "the device has changed from {before} to {now}",
    "precision": "the precision has changed from {before} to {now}",
}
"""Warnings about a resumed training, by the fact that has changed."""


@contextmanager
def _damage_as_error(what: str) -> Iterator[None]:
    """Raise errors of files that make no sense as a RunError that begins with `what`."""
    try:
        yield
    except SaccadeError:
        raise
    except _DAMAGE as error:
        raise RunError(
            f"{what} ({type(error).__name__}: {brief(error)}). Restore it from a copy"
        ) from error


def tensors_of(model: nn.Module) -> dict[str, Tensor]:
    """Return the weights of a model without a copy; shared ones under their first name only."""
    names = {
        id(p): name for name, p in reversed(list(model.named_parameters(remove_duplicate=False)))
    }
    once = set(names.values()) | {name for name, _ in model.named_buffers()}
    return {name: value.detach() for name, value in model.state_dict().items() if name in once}


def require_shapes(model: nn.Module, shapes: Mapping[str, tuple[int, ...]], where: str) -> None:
    """Raise a RunError unless these are the names and shapes of the model's own weights."""
    own = tensors_of(model)
    if own.keys() != shapes.keys():
        odd = sorted(own.keys() ^ shapes.keys())[:4]
        raise RunError(
            f"{where} holds the weights of another model: they differ in {', '.join(odd)}. "
            "Restore the file from a copy"
        )
    for name, value in own.items():
        if value.shape != shapes[name]:
            raise RunError(
                f"{where}: {name} has shape {tuple(shapes[name])}, the model needs "
                f"{tuple(value.shape)}. Restore the file, or recipe.toml, from a copy"
            )


def put_tensors(model: nn.Module, tensors: Mapping[str, Tensor], where: str) -> None:
    """Replace the weights of a model; a RunError unless names and shapes are its own."""
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    require_shapes(model, shapes, where)
    model.load_state_dict(dict(tensors), strict=False)


def _size(path: Path) -> int:
    """Return the bytes of a file, or of all files below a folder."""
    files = [path, *path.rglob("*")] if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


def _finite(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def differences(keys: list[str], before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return how the values of these keys differ, for a message."""
    return ", ".join(f"{key} was {before.get(key)!r}, is {now.get(key)!r}" for key in keys)
