"""Checkpoints: folders that are whole or not there.

    checkpoints/step-40/  weights.safetensors  optimizer.safetensors  average.safetensors
                          state.json  MANIFEST.json (sizes and sha256 of the others)

One is written under another name, one tensor after another, synced, and renamed when it is
complete; only then are older ones removed. A step that is done again replaces what it was; until
then that one waits under another name, from which it is put back. One that does not fit its
manifest is set aside as corrupt-step-N, and the one before it is used. Random numbers need no place
in it: they are a function of the seed and the batch.
"""

import json
import logging
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from saccade.errors import RunError
from saccade.files import (
    PARTIAL,
    Fingerprint,
    fingerprint,
    parse_json,
    read_file,
    remove_partial,
    room_on_disk,
    sync_folder,
    write_synced,
)
from saccade.shapes import Tensor
from saccade.training.tensor_files import read_tensors, serialized

log = logging.getLogger(__name__)

MANIFEST = "MANIFEST.json"
STATE = "state.json"
WAITING = ".waiting-"
"""A checkpoint about to be replaced has a name that begins with this."""


@dataclass(frozen=True)
class Checkpoint:
    """Everything to go on from a step: tensors in named groups, and plain values."""

    step: int
    tensors: Mapping[str, Mapping[str, Tensor]]
    state: Mapping[str, Any]


def write(folder: Path, checkpoint: Checkpoint, *, keep: int) -> Path:
    """Add a checkpoint to a folder of checkpoints, then remove all but the newest `keep`."""
    final = folder / f"step-{checkpoint.step}"
    partial = folder / f"{PARTIAL}{os.getpid()}-{final.name}"
    waiting = folder / f"{WAITING}{final.name}"
    with room_on_disk(final, "the checkpoint before it is kept"):
        folder.mkdir(parents=True, exist_ok=True)
        tidy(folder)
        try:
            partial.mkdir()
            written = {
                f"{group}.safetensors": write_synced(
                    partial / f"{group}.safetensors", serialized(tensors)
                )
                for group, tensors in checkpoint.tensors.items()
            }
            written[STATE] = write_synced(partial / STATE, _json(dict(checkpoint.state)))
            files = {name: found.plain() for name, found in written.items()}
            write_synced(partial / MANIFEST, _json({"step": checkpoint.step, "files": files}))
            sync_folder(partial)
            if final.exists():
                os.replace(final, waiting)
            os.replace(partial, final)
            sync_folder(folder)
        except OSError:
            shutil.rmtree(partial, ignore_errors=True)
            tidy(folder)
            raise
    tidy(folder)
    for old in steps(folder)[:-keep]:
        shutil.rmtree(folder / f"step-{old}", ignore_errors=True)
    return final


def tidy(folder: Path) -> None:
    """Clear what a write left behind that did not come to its end; nothing whole is lost."""
    remove_partial(folder)
    for waiting in folder.glob(f"{WAITING}*"):
        final = folder / waiting.name.removeprefix(WAITING)
        if final.exists():
            shutil.rmtree(waiting, ignore_errors=True)
        else:
            os.replace(waiting, final)


def newest(folder: Path) -> Checkpoint | None:
    """The newest checkpoint that is whole; damaged ones are set aside with a message."""
    for step in reversed(steps(folder)):
        path = folder / f"step-{step}"
        try:
            return read(path)
        except _DamagedError as error:
            aside = _free_name(folder / f"corrupt-{path.name}")
            os.replace(path, aside)
            rest = steps(folder)
            then = f"step {rest[-1]} is tried" if rest else "training starts from step 0"
            log.warning("%s; it was set aside as %s, and %s", error, aside, then)
    return None


def read(path: Path) -> Checkpoint:
    """The checkpoint in a folder; a RunError if it is not just what was written."""
    try:
        listed = read_file(path / MANIFEST)
        manifest = parse_json(listed)
        if _json(manifest) != listed or f"step-{manifest['step']}" != path.name:
            raise _DamagedError(f"the checkpoint {path} is damaged: so is its {MANIFEST}")
        tensors = {}
        for name, entry in manifest["files"].items():
            if Path(name).name != name:
                raise _DamagedError(f"the checkpoint {path} is damaged: it lists {name!r}")
            if fingerprint(path / name) != Fingerprint.of(entry):
                raise _DamagedError(
                    f"the checkpoint {path} is damaged: {name} is not what was written"
                )
            if name.endswith(".safetensors"):
                tensors[name.removesuffix(".safetensors")] = read_tensors(path / name)
        return Checkpoint(int(manifest["step"]), tensors, parse_json(read_file(path / STATE)))
    except PermissionError as error:
        raise RunError(f"the checkpoint {path} may not be read: {error}") from error
    except _DamagedError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RunError) as error:
        raise _DamagedError(f"the checkpoint {path} is damaged: {error}") from error


def steps(folder: Path) -> list[int]:
    """The steps of which there is a checkpoint, in order."""
    names = [path.name.removeprefix("step-") for path in folder.glob("step-*") if path.is_dir()]
    return sorted(int(name) for name in names if name.isdecimal())


def flatten_optimizer(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The state of an optimizer as named tensors: "3.exp_avg" is that of its fourth weight."""
    state = optimizer.state_dict()["state"]
    return {
        f"{i}.{name}": torch.as_tensor(value)
        for i, parts in state.items()
        for name, value in parts.items()
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Put that state back; the options of the optimizer stay as they are."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        i, _, part = name.partition(".")
        state.setdefault(int(i), {})[part] = value
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


class _DamagedError(RunError):
    """A checkpoint that is not what was written."""


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=1).encode()


def _free_name(path: Path) -> Path:
    taken = 0
    free = path
    while free.exists():
        taken += 1
        free = path.with_name(f"{path.name}-{taken}")
    return free
