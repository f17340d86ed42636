"""Checkpoints: everything needed to resume training from a step, complete or absent.

    checkpoints/step-40/  weights.safetensors  optimizer.safetensors  average.safetensors
                          state.json  MANIFEST.json (sizes and sha256 of the others)

A checkpoint is written into a temporary folder, one tensor after another, synced, and renamed when
it is complete; only then are older ones removed. One that does not match its manifest is set aside
as corrupt-step-N, and the one before it is used. Random numbers need no place in it: they are a
function of the seed and the batch.
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
    Fingerprint,
    atomic_folder,
    clean_up,
    fingerprint,
    parse_json,
    read_file,
    write_pieces,
)
from saccade.shapes import Tensor
from saccade.training.sharded_tensors import rows_of, with_rows
from saccade.training.tensor_files import read_tensors, serialized

log = logging.getLogger(__name__)

MANIFEST = "MANIFEST.json"
STATE = "state.json"


@dataclass(frozen=True)
class Checkpoint:
    """The state of a training run after a step: tensors in named groups, and plain values."""

    step: int
    tensors: Mapping[str, Mapping[str, Tensor]]
    state: Mapping[str, Any]


def write(folder: Path, checkpoint: Checkpoint, *, keep: int) -> Path:
    """Add a checkpoint to a folder of checkpoints, then remove all but the newest `keep`.

    Raises:
        DiskFullError: if the disk is full; the checkpoint before is kept.
    """
    final = folder / f"step-{checkpoint.step}"
    clean_up(folder)
    with atomic_folder(final, "the checkpoint before it is kept") as partial:
        fingerprints = {
            f"{group}.safetensors": write_pieces(
                partial / f"{group}.safetensors", serialized(tensors)
            )
            for group, tensors in checkpoint.tensors.items()
        }
        fingerprints[STATE] = write_pieces(partial / STATE, _json(dict(checkpoint.state)))
        files = {name: listed.to_json() for name, listed in fingerprints.items()}
        write_pieces(partial / MANIFEST, _json({"step": checkpoint.step, "files": files}))
    for old in steps(folder)[:-keep]:
        shutil.rmtree(folder / f"step-{old}", ignore_errors=True)
    return final


def newest(folder: Path) -> Checkpoint | None:
    """Return the newest intact checkpoint; damaged ones are set aside with a warning."""
    for step in reversed(steps(folder)):
        path = folder / f"step-{step}"
        try:
            return read(path)
        except _DamagedError as error:
            aside = _free_name(folder / f"corrupt-{path.name}")
            os.replace(path, aside)
            left = steps(folder)
            then = f"trying step {left[-1]}" if left else "training starts from step 0"
            log.warning("%s. It was set aside as %s; %s", error, aside, then)
    return None


def read(path: Path) -> Checkpoint:
    """Return the checkpoint in a folder; a RunError if it is not exactly what was written."""
    try:
        content = read_file(path / MANIFEST)
        manifest = parse_json(content)
        if _json(manifest) != content or f"step-{manifest['step']}" != path.name:
            raise _DamagedError(f"the checkpoint {path} is damaged: so is its {MANIFEST}")
        tensors = {}
        for name, entry in manifest["files"].items():
            if Path(name).name != name:
                raise _DamagedError(f"the checkpoint {path} is damaged: it lists {name!r}")
            if fingerprint(path / name) != Fingerprint.from_json(entry):
                raise _DamagedError(
                    f"the checkpoint {path} is damaged: {name} is not what was written"
                )
            if name.endswith(".safetensors"):
                tensors[name.removesuffix(".safetensors")] = read_tensors(path / name)
        return Checkpoint(int(manifest["step"]), tensors, parse_json(read_file(path / STATE)))
    except PermissionError as error:
        raise RunError(
            f"the checkpoint {path} cannot be read: {error.strerror}; it must be readable for "
            "this user. Change its permissions, or remove it to resume from the one before"
        ) from error
    except _DamagedError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RunError) as error:
        raise _DamagedError(f"the checkpoint {path} is damaged: {error}") from error


def steps(folder: Path) -> list[int]:
    """Return the steps that have a checkpoint, in order."""
    names = [path.name.removeprefix("step-") for path in folder.glob("step-*") if path.is_dir()]
    return sorted(int(name) for name in names if name.isdecimal())


def flatten_optimizer(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the state of an optimizer as named tensors: "3.exp_avg" is of its fourth weight."""
    state = optimizer.state_dict()["state"]
    return {
        f"{i}.{name}": torch.as_tensor(value)
        for i, parts in state.items()
        for name, value in parts.items()
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Restore the state that `flatten_optimizer` returned; the optimizer keeps its options."""
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        i, _, part = name.partition(".")
        like = weights[int(i)]
        divided = value.shape == like.shape  # unlike the number of updates
        own = with_rows(rows_of(value, like).clone(), like) if divided else value
        state.setdefault(int(i), {})[part] = own
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


class _DamagedError(RunError):
    """A checkpoint that is not what was written."""


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=1).encode()


def _free_name(path: Path) -> Path:
    number, free = 0, path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.name}-{number}")
    return free
