"""Sequences of vectors as inputs: reading, scaling, caching and description."""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from saccade.cancellation import raise_if_cancelled
from saccade.config import Count
from saccade.data.batches.collate import mask_of
from saccade.data.corpus import Row, Split
from saccade.data.sources.columns import Column
from saccade.data.sources.vectors import (
    Vectors,
    checked,
    decode_array,
    is_inline,
    open_vectors,
    read_vectors,
    shown_name,
    vectors_from_lists,
    wrong_width,
)
from saccade.data.store.cache import Encoded, sequences_once
from saccade.data.store.stacked import StackedSequences
from saccade.data.transforms.vector_augment import VectorAugmentConfig, augment_vectors
from saccade.errors import BrokenImagesError, DataError, DecodingError, RunError, brief
from saccade.files import read_json
from saccade.lens.record import StripSide
from saccade.shapes import Bool, Float, Tensor
from saccade.tasks._shared.answering import Example
from saccade.tasks._shared.base import Progress, Rows, Task
from saccade.tasks._shared.description import VectorInput
from saccade.tasks._shared.predictor import json_kind
from saccade.tasks._shared.prepared import EncodedFiles, PreparedFiles, located

VECTORS = Column("vectors", ("vector", "vectors_path", "npy", "npz"), vectors=True)
FILE = "vectors.json"
"""The file of a run folder with the width of vectors, their mean and their spread."""
FORMAT = 1
"""Version of the preparation; raise it when vectors are prepared differently."""
SAMPLED = 5_000
"""Maximum number of sequences to compute mean and spread from."""
SequenceInput = str | Path | bytes | npt.NDArray[Any] | list[list[float]]
"""A path, the contents of a .npy file, an array (steps, width), or lists of numbers."""


@dataclass(frozen=True, kw_only=True)
class VectorsConfig:
    """How sequences of vectors are read.

    max_length   maximum number of steps; of a longer sequence only the first steps are read
    scale        the scale of the numbers: "data": by the mean and the standard deviation of each
                 number of the vectors in the training data; "none": as they are
    """

    max_length: Count = 1_000
    scale: Literal["data", "none"] = "data"


@dataclass(frozen=True)
class VectorScale:
    """Scale each number of a vector: (x - mean) / spread."""

    mean: tuple[float, ...]
    spread: tuple[float, ...]

    @property
    def width(self) -> int:
        """The width of a vector."""
        return len(self.mean)

    def __call__(
        self, vectors: Float[Tensor, "b n w"], mask: Bool[Tensor, "b n"]
    ) -> Float[Tensor, "b n w"]:
        """Return scaled vectors, with 0 at padding."""
        mean, spread = (
            torch.tensor(numbers, dtype=torch.float32, device=vectors.device)
            for numbers in (self.mean, self.spread)
        )
        return ((vectors - mean) / spread).masked_fill(~mask.unsqueeze(2), 0.0)


def new_scale(config: VectorsConfig, train: Split) -> VectorScale:
    """Return the scale of training data, with the most frequent width."""
    first = {row.values[0]: row for row in train}
    names = list(first)
    read = located(lambda name: read_vectors(name, config.max_length), first)
    sums: dict[int, list[npt.NDArray[np.float64]]] = {}
    steps: Counter[int] = Counter()
    count: Counter[int] = Counter()
    problems = []
    for name in names[:: -(-len(names) // SAMPLED)] if names else ():
        try:
            values = read(name).astype(np.float64)
        except DataError as error:  # `VectorFiles.prepare` reports all broken files together
            problems.append(str(error))
            continue
        width = values.shape[1]
        total = sums.setdefault(width, [np.zeros(width), np.zeros(width)])
        total[0] += values.sum(0)
        total[1] += (values**2).sum(0)
        steps[width] += len(values)
        count[width] += 1
    if not count:
        raise BrokenImagesError(problems, len(names), VECTORS.noun)
    [(width, _)] = count.most_common(1)
    if config.scale == "none":
        return VectorScale((0.0,) * width, (1.0,) * width)
    mean = sums[width][0] / steps[width]
    spread = np.sqrt(np.maximum(sums[width][1] / steps[width] - mean**2, 0.0))
    # constant numbers carry no information
    spread = np.where(spread > 1e-6 * np.maximum(1.0, np.abs(mean)), spread, 1.0)
    return VectorScale(tuple(mean.tolist()), tuple(spread.tolist()))


def read_scale(folder: Path) -> VectorScale:
    """Return the scale of a run folder."""
    path = folder / FILE
    try:
        facts = read_json(path)
        mean, spread = (tuple(map(float, facts[name])) for name in ("mean", "spread"))
        if not len(mean) == len(spread) == int(facts["width"]) > 0:
            raise ValueError("mean and spread must have as many numbers as width")
        if not all(map(math.isfinite, mean)) or not all(0 < x < math.inf for x in spread):
            raise ValueError("mean must be finite numbers, spread finite numbers above 0")
    except (OSError, ValueError, TypeError, KeyError, OverflowError) as error:
        raise RunError(
            f"{path} cannot be read: {type(error).__name__}: {brief(error)}. Restore it from a copy"
        ) from None
    return VectorScale(mean, spread)


class VectorFiles(PreparedFiles[StackedSequences]):
    """Vectors of a task, from data through the cache or directly from a user."""

    def __init__(self, config: VectorsConfig, scale: VectorScale) -> None:
        super().__init__()
        self.config, self.scale = config, scale

    def prepare(
        self, first: dict[str, Row], *, split: Split, folder: Path, progress: Progress | None
    ) -> StackedSequences:
        """Return the vectors of a split, keeping one step more of sequences that are too long."""
        most = self.config.max_length + 1
        return sequences_once(
            list(first),
            located(lambda name: self._fitting(read_vectors(name, most), name), first),
            key=f"vectors {FORMAT} {self.scale.width} {most} {split.digest()}",
            folder=folder,
            progress=progress,
        )

    def example(self, given: object, number: int) -> VectorExample:
        """Return an input as an example; a file is read when its batch is answered."""
        where = f"input {number + 1}"
        source = given
        match given:
            case str() | Path():
                known = self._known.get(str(given))
                array = known[0][known[1]] if known else open_vectors(given)
                if known and len(array) > self.config.max_length:  # the cache has no more of it
                    array = open_vectors(given)
                steps = len(array) if array.ndim else 0
            case bytes() | np.ndarray() | list():
                array = _array(given, where)
                steps = len(array) if array.ndim else 0
                source = self._fitting(checked(array, where, self.config.max_length), where)
            case _:
                raise DecodingError(
                    f"{where} must be the path of a .npy file, the bytes of one, an array (steps, "
                    f"width) or lists of numbers, got {type(given).__name__}; "
                    "pass one of these"
                )
        return VectorExample(
            number=number,
            length=min(steps, self.config.max_length),
            encoded=steps,
            weights=min(steps, self.config.max_length) ** 2,
            source=source,
        )

    def array(self, example: VectorExample) -> Vectors:
        """Return the vectors of an example, up to the maximum length."""
        raise_if_cancelled()
        source, most = example.source, self.config.max_length
        if isinstance(source, np.ndarray):
            return source[:most]
        if known := self._known.get(str(source)):
            return known[0][known[1]][:most].astype(np.float32)
        name = str(source)
        if is_inline(name):
            name = f"input {example.number + 1} ({shown_name(name)})"
        return self._fitting(read_vectors(source, most), name)

    def side(self, vectors: Vectors) -> StripSide:
        """Return the strip of an attention record."""
        mean, spread = (np.array(x, np.float32) for x in (self.scale.mean, self.scale.spread))
        return StripSide.of(vectors, mean, spread)

    def _fitting(self, vectors: Vectors, name: str) -> Vectors:
        if vectors.shape[1] != self.scale.width:
            raise DataError(wrong_width(name, vectors.shape[1], self.scale.width))
        return vectors


@dataclass(frozen=True, kw_only=True, eq=False)
class VectorExample(Example):
    """A sequence of vectors: the name of a file, or checked vectors."""

    source: Any


class VectorTask(Task):
    """A task that reads sequences of vectors.

    Attributes:
        vectors: The files of the task, and the scale of their numbers.
        augmentation: Random changes in training.
    """

    vectors: VectorFiles
    augmentation: VectorAugmentConfig

    def vector_input(self, places: int | None) -> VectorInput:
        """Describe the input; `places` is the number of positions of the encoder."""
        scale = self.vectors.scale
        return VectorInput(
            width=scale.width,
            max_length=self.vectors.config.max_length,
            mean=scale.mean,
            spread=scale.spread,
            places=places,
        )

    def from_json(self, value: object) -> bytes | Vectors:
        """Return vectors from lists of numbers, or the bytes of a .npy file from base64."""
        if isinstance(value, bytes):  # an uploaded file
            return _npy(value)
        if isinstance(value, list):
            return vectors_from_lists(value, "an input")
        if not isinstance(value, str):
            raise DataError(
                "an input is a list of vectors, or a .npy file as base64, got " + json_kind(value)
            )
        try:
            data = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            raise DataError(
                "an input is a list of vectors, or a .npy file as base64, and this text is not "
                "valid base64"
            ) from None
        return _npy(data)

    def steps(self, examples: Encoded) -> npt.NDArray[np.int64]:
        """Return the number of steps of each example; limit + 1 means that it is cut."""
        assert isinstance(examples, EncodedFiles)
        lengths: npt.NDArray[np.int64] = examples.arrays.lengths
        return lengths[examples.numbers(range(len(examples)))]

    def sequences(self, examples: Encoded, rows: Rows) -> list[Vectors]:
        """Return the vectors of these examples, up to the maximum length."""
        assert isinstance(examples, EncodedFiles)
        most = self.vectors.config.max_length
        return [examples.arrays[number][:most] for number in examples.numbers(rows)]

    def remarks(self, examples: Encoded) -> Iterator[str]:
        """Also yield the number of sequences that are cut."""
        yield from super().remarks(examples)
        most = self.vectors.config.max_length
        if cut := int((self.steps(examples) > most).sum()):
            yield (
                f"{cut:,} of {len(examples):,} sequences have more than {most:,} steps "
                "(vectors.max_length); only their beginning is read"
            )

    def examples_of(self, inputs: Sequence[object], first: int = 0) -> list[VectorExample]:
        """Number the inputs: paths, bytes of files, arrays (steps, width) or lists of numbers."""
        return [self.vectors.example(given, number) for number, given in enumerate(inputs, first)]

    def arrays(self, examples: Sequence[VectorExample]) -> list[Vectors]:
        """Return the vectors of a batch of examples."""
        return [self.vectors.array(example) for example in examples]

    def scaled(
        self, vectors: Float[Tensor, "b n w"], mask: Bool[Tensor, "b n"]
    ) -> Float[Tensor, "b n w"]:
        """Return the input of the model; in training with random changes."""
        scaled = self.vectors.scale(vectors, mask)
        return augment_vectors(scaled, mask, self.augmentation) if self.training else scaled

    def scale_file(self) -> dict[str, str]:
        """Return the file with the width and the scale of the vectors."""
        scale = self.vectors.scale
        facts = {"width": scale.width, "mean": scale.mean, "spread": scale.spread}
        return {FILE: json.dumps(facts, indent=1)}


def padded(sequences: Sequence[Vectors]) -> tuple[Float[Tensor, "b n w"], Bool[Tensor, "b n"]]:
    """Return sequences of vectors as one tensor, with zeros at padding, and the mask of steps."""
    lengths = np.array([len(sequence) for sequence in sequences], np.int64)
    joined = np.zeros((len(sequences), int(lengths.max()), sequences[0].shape[1]), np.float32)
    for row, sequence in zip(joined, sequences, strict=True):
        row[: len(sequence)] = sequence
    return torch.from_numpy(joined), mask_of(lengths)


def _npy(data: bytes) -> bytes:
    """Return the bytes of a .npy file; reject .npz files, which may expand to any size."""
    if data.startswith(b"PK"):
        raise DataError("an input is a .npy file, got an .npz or zip file; send the array itself")
    return data


def _array(given: object, where: str) -> npt.NDArray[Any]:
    if isinstance(given, bytes):
        return decode_array(given, where)
    return given if isinstance(given, np.ndarray) else vectors_from_lists(given, where)
