"""Files of a Hugging Face folder: config.json, and tensors in one safetensors file or in shards."""

import json
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from pydantic import TypeAdapter, ValidationError

from saccade.errors import DiskFullError, InteropError, WeightsError
from saccade.files import atomic_file, open_file, read_json, write_file
from saccade.shapes import Tensor

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
READABLE = {
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
}
EVERYONE_READS = stat.S_IRUSR | stat.S_IWUSR | stat.S_IRGRP | stat.S_IROTH


def read_config(folder: str | Path) -> dict[str, Any]:
    """Read the config.json of a folder, with token ids and label names, which no model holds.

    Args:
        folder: A folder as `transformers` saves it.

    Raises:
        InteropError: If the folder does not exist or has no valid config.json.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InteropError(f"the folder {folder} does not exist; check the path")
    if not (folder / CONFIG).is_file():
        raise InteropError(
            f"{folder} has no {CONFIG}, which describes its weights; it contains {_files(folder)}"
        )
    return _read_object(folder / CONFIG)


class Weights:
    """The tensors of a folder: shapes and types are known at once, values are read on demand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.types: dict[str, str] = {}
        self._file_of: dict[str, Path] = {}
        for path in _weight_files(folder):
            with _opened(path) as file:
                for name in file.keys():  # noqa: SIM118  (it is not a dict)
                    piece = file.get_slice(name)
                    self.shapes[name] = tuple(piece.get_shape())
                    self.types[name] = piece.get_dtype()
                    self._file_of[name] = path

    def read(self, names: Iterable[str]) -> dict[str, Tensor]:
        """Read tensors into memory; half precision becomes float32."""
        by_file: dict[Path, list[str]] = {}
        for name in names:
            by_file.setdefault(self._file_of[name], []).append(name)
        tensors = {}
        for path, inside in by_file.items():
            with _opened(path) as file:
                for name in inside:
                    dtype = torch.promote_types(READABLE[self.types[name]], torch.float32)
                    tensors[name] = file.get_tensor(name).to(dtype, copy=True)
        return tensors


def write(folder: str | Path, config: Mapping[str, object], tensors: Mapping[str, Tensor]) -> None:
    """Write config.json and the tensors, each under a temporary name that is then replaced."""
    folder = Path(folder)
    try:
        text = json.dumps(config, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InteropError(
            f"a value cannot be written into {CONFIG}: {error}; "
            "give plain values, such as texts, numbers and lists"
        ) from error
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_file(folder / WEIGHTS) as partial:
            safetensors.torch.save_file(
                {key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()},
                partial,
                metadata={"format": "pt"},
            )
            partial.chmod(EVERYONE_READS)
        write_file(folder / CONFIG, f"{text}\n".encode())
    except DiskFullError:
        raise
    except (OSError, safetensors.SafetensorError) as error:
        raise InteropError(
            f"cannot write {folder}: {error}; choose a folder that can be written"
        ) from error


def _weight_files(folder: Path) -> list[Path]:
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    if (folder / INDEX).is_file():
        return _shards(folder)
    pickled = sorted(path.name for path in folder.glob("*.bin"))
    if pickled:
        raise WeightsError(
            f"{folder} holds its weights in {pickled[0]}, a pickle, which can run any code when it "
            "is read; convert it to safetensors first (transformers: "
            "model.save_pretrained(folder, safe_serialization=True))"
        )
    raise WeightsError(f"{folder} has neither {WEIGHTS} nor {INDEX}; it contains {_files(folder)}")


def _shards(folder: Path) -> list[Path]:
    try:
        file_of = TypeAdapter(dict[str, str]).validate_python(
            _read_object(folder / INDEX).get("weight_map"), strict=True
        )
    except ValidationError:
        raise WeightsError(
            f'{folder / INDEX} has no "weight_map" from tensors to files; save the folder again'
        ) from None
    names = sorted(set(file_of.values()))
    outside = [name for name in names if Path(name).name != name]
    if outside:
        raise WeightsError(
            f"{folder / INDEX} names {outside[0]}, which is outside of the folder; files must be "
            "in it"
        )
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise WeightsError(
            f"{folder} lacks {_first(missing)} of the {len(names)} files that {INDEX} names; "
            "download or copy them as well"
        )
    return [folder / name for name in names]


def _opened(path: Path) -> safetensors.safe_open:
    try:
        open_file(path).close()  # safetensors itself would wait for a pipe
        return safetensors.safe_open(path, "pt")
    except OSError as error:
        raise WeightsError(
            f"cannot read the weights {path}: {error}; check the permissions of the file"
        ) from error
    except safetensors.SafetensorError as error:
        raise WeightsError(
            f"{path} is not a complete safetensors file: {error}; download or copy it again"
        ) from error


def _read_object(path: Path) -> dict[str, Any]:
    try:
        content = read_json(path)
    except OSError as error:
        raise InteropError(
            f"cannot read {path}: {error}; check the path and its permissions"
        ) from error
    except ValueError as error:
        raise InteropError(
            f"{path} is not valid JSON: {error}; download or copy it again"
        ) from error
    match content:
        case dict():
            return content
    raise InteropError(
        f"{path} must contain a JSON object, got {type(content).__name__}; "
        "save the folder again with save_pretrained"
    )


def _files(folder: Path) -> str:
    return _first(sorted(path.name for path in folder.iterdir())) or "no files"


def _first(names: list[str], most: int = 3) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
