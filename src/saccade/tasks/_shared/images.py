"""What tasks that read images share: what a model is given of an image, and where it is kept.

An image is prepared once, as an array in the cache: pixels of the wanted size, or the features of a
network that is not trained. `View` says which, and what a model reads of it.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from saccade.cancellation import raise_if_cancelled
from saccade.config import Count
from saccade.data.corpus import Row, Split
from saccade.data.sources.columns import Column
from saccade.data.sources.images import ResizeMethod, decode_image, read_image, resized, to_rgb
from saccade.data.sources.text_files import file_digest
from saccade.data.store.cache import Encoded, arrays_once, encode_once
from saccade.data.store.stacked import Array, StackedArrays
from saccade.encoders.efficientnet import EfficientNetLite0
from saccade.errors import DataError, DecodingError, RecipeError, RunError, WeightsError, brief
from saccade.files import read_json
from saccade.lens.record import ImageSide
from saccade.shapes import Float, Tensor
from saccade.tasks._shared.answering import Example
from saccade.tasks._shared.base import Progress, json_kind
from saccade.tasks._shared.description import ImageInput

IMAGE = Column("image", ("img", "image_path", "file", "filename", "path", "photo"), image=True)
FILE = "images.json"
"""How pixels are scaled, and of which weights features are."""
FORMAT = 1
"""Counts up when the same image would be prepared otherwise, so that no old cache is read."""
SAMPLED = 2_000
"""Images that mean and spread are computed from."""
SHOWN = 512
"""The longer side of the image of an attention record, at most."""
HALF = 127.5
PRETRAINED = (127.0, 128.0)
"""What EfficientNet-Lite0 was trained with: (x - 127) / 128."""
Rows = Sequence[int] | npt.NDArray[np.int64]
Picture = str | Path | bytes | Image.Image | npt.NDArray[Any]
"""A path, the contents of a file, or pixels."""


@dataclass(frozen=True, kw_only=True)
class ImageConfig:
    """What is read of an image.

    size    its sides in pixels; images are resized once
    how     "squash": all of it, its sides stretched to fit; "crop": the middle; "pad": all of it,
            with black on two sides
    scale   pixels become numbers around 0: "half": from -1 to 1; "data": with the mean and the
            spread of each colour in the training data
    """

    size: Count = 32
    how: ResizeMethod = "squash"
    scale: Literal["half", "data"] = "half"


@dataclass(frozen=True)
class Scale:
    """(x - mean) / spread for each channel of bytes x."""

    mean: tuple[float, ...]
    spread: tuple[float, ...]

    @classmethod
    def even(cls, channels: int, mean: float = HALF, spread: float = HALF) -> Scale:
        """The same for all channels; by default from -1 to 1."""
        return cls((mean,) * channels, (spread,) * channels)

    @classmethod
    def of(cls, arrays: Sequence[npt.NDArray[np.uint8]]) -> Scale:
        """So that these arrays (c, h, w) have mean 0 and variance 1."""
        joined = np.stack(arrays).astype(np.float64)
        mean, spread = joined.mean((0, 2, 3)), joined.std((0, 2, 3))
        return cls(tuple(mean.tolist()), tuple(np.maximum(spread, 1.0).tolist()))

    def __call__(self, images: Tensor) -> Float[Tensor, "b c h w"]:
        """Bytes as numbers around 0."""
        mean, spread = (
            torch.tensor(each, device=images.device).view(-1, 1, 1)
            for each in (self.mean, self.spread)
        )
        return (images.float() - mean) / spread


class View(ABC):
    """What a model is given of an image.

    `key` names all that its arrays depend on.
    """

    pixels: Pixels
    key: str

    @abstractmethod
    def array(self, image: Image.Image) -> Array:
        """What is kept of an image in the cache."""

    @abstractmethod
    def read(self, arrays: Tensor) -> Float[Tensor, "b c h w"]:
        """What the model reads of such arrays."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """What it is made of, as plain values."""

    def describe(self) -> ImageInput:
        """Return the description of the images that are read."""
        pixels = self.pixels
        return ImageInput(
            size=pixels.config.size,
            how=pixels.config.how,
            channels=pixels.channels,
            mean=pixels.scale.mean,
            spread=pixels.scale.spread,
        )

    def side(
        self, image: Image.Image, grid: tuple[int, int], *, class_token: bool = False
    ) -> ImageSide:
        """The image of an attention record: what the model saw of it."""
        return ImageSide(self.pixels.shown(image), grid, class_token=class_token)


class Pixels(View):
    """The pixels themselves, as bytes."""

    def __init__(self, config: ImageConfig, channels: int, scale: Scale | None = None) -> None:
        if channels not in (1, 3):
            raise RecipeError(f"channels can be 1 (grey) or 3 (colour), got {channels}")
        self.config, self.channels = config, channels
        self.scale = scale or Scale.even(channels)
        self.pixels = self
        self.key = f"pixels {FORMAT} {config.size} {config.how} {channels}"

    def array(self, image: Image.Image) -> npt.NDArray[np.uint8]:
        """(c, h, w) bytes."""
        size = (self.config.size, self.config.size)
        found = resized(image, size, self.config.how, grey=self.channels == 1)
        return np.ascontiguousarray(found.transpose(2, 0, 1))

    def read(self, arrays: Tensor) -> Float[Tensor, "b c h w"]:
        """Scaled."""
        return self.scale(arrays)

    def facts(self) -> dict[str, Any]:
        """The scale."""
        return {"mean": list(self.scale.mean), "spread": list(self.scale.spread)}

    def shown(self, image: Image.Image) -> npt.NDArray[np.uint8]:
        """The part that is read, in colour; not squashed and not larger than needed."""
        if self.config.how != "squash":
            return resized(image, (self.config.size, self.config.size), self.config.how)
        picture = to_rgb(image)
        picture.thumbnail((SHOWN, SHOWN))
        return np.array(picture)


class Features(View):
    """The grid of EfficientNet-Lite0's features (d, rows, columns), which is not trained."""

    def __init__(self, config: ImageConfig, weights: str, digest: str | None = None) -> None:
        """`digest` is that of the weights that a run was trained with; others are refused."""
        self.pixels = Pixels(config, 3, Scale.even(3, *PRETRAINED))
        self.weights, self._wanted = weights, digest

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the file of weights."""
        require_weights(self.weights)
        found = file_digest(Path(self.weights))
        if self._wanted is not None and found != self._wanted:
            raise RunError(
                f"{self.weights} (model.encoder.weights) is not the file that this run was trained "
                f"with: its SHA-256 is {found}, it was {self._wanted}"
            )
        return found

    @property
    def key(self) -> str:  # type: ignore[override]
        """Of the pixels and of the weights."""
        return f"features {FORMAT} {self.pixels.key} {self.digest}"

    def array(self, image: Image.Image) -> npt.NDArray[np.float16]:
        """(d, rows, columns) in float16."""
        pixels = torch.from_numpy(self.pixels.array(image)).unsqueeze(0)
        with torch.no_grad():
            grid = self.network(self.pixels.read(pixels))[0]
        found: npt.NDArray[np.float16] = grid.half().numpy()
        return found

    def read(self, arrays: Tensor) -> Float[Tensor, "b c h w"]:
        """In float32."""
        return arrays.float()

    def facts(self) -> dict[str, Any]:
        """The digest of the weights."""
        return {"weights": self.digest}

    def describe(self) -> ImageInput:
        """Return the description of the images, with the network that reads them first."""
        return replace(super().describe(), features=lambda: self.network)

    @cached_property
    def network(self) -> EfficientNetLite0:
        """What computes the features."""
        assert self.digest
        return EfficientNetLite0.load(self.weights)


def require_weights(path: str) -> None:
    """Refuse a recipe whose reader needs weights that are not there."""
    if not path:
        raise RecipeError(
            "model.encoder.weights is missing: give the path of EfficientNet-Lite0's weights, a "
            "safetensors file, as in --set model.encoder.weights=efficientnet_lite0.safetensors"
        )
    if not Path(path).is_file():
        raise WeightsError(f"there is no file {path} (model.encoder.weights)")


def fresh_pixels(config: ImageConfig, channels: int, train: Split) -> Pixels:
    """The view of a new task, which may be scaled by the mean and spread of its training data."""
    plain = Pixels(config, channels)
    if config.scale == "half":
        return plain
    names = list(dict.fromkeys(row.values[0] for row in train))
    some = names[:: -(-len(names) // SAMPLED)]
    return Pixels(config, channels, Scale.of([plain.array(read_image(name)) for name in some]))


def read_facts(folder: Path) -> dict[str, Any]:
    """What a run folder says of its view."""
    path = folder / FILE
    try:
        facts = read_json(path)
        if not isinstance(facts, dict):
            raise ValueError(f"it must hold an object, not {json_kind(facts)}")
        if "weights" in facts:
            return {"weights": str(facts["weights"])}
        mean, spread = (tuple(map(float, facts[name])) for name in ("mean", "spread"))
        if not all(map(math.isfinite, mean)) or not all(0 < x < math.inf for x in spread):
            raise ValueError("mean must be finite numbers, spread such above 0")
        return {"mean": mean, "spread": spread}
    except (OSError, ValueError, TypeError, KeyError, OverflowError) as error:
        raise RunError(f"{path} cannot be read: {type(error).__name__}: {brief(error)}") from None


def pixels_of(config: ImageConfig, channels: int, facts: dict[str, Any]) -> Pixels:
    """The pixels of a run, scaled as they were."""
    if any(len(facts.get(name, ())) != channels for name in ("mean", "spread")):
        raise RunError(f"{FILE} must hold the mean and the spread of {channels} channels")
    return Pixels(config, channels, Scale(facts["mean"], facts["spread"]))


def facts_json(view: View) -> dict[str, str]:
    """The file with what a view is made of."""
    return {FILE: json.dumps(view.facts(), indent=1)}


@dataclass(frozen=True)
class EncodedImages(Encoded):
    """Rows whose first field is the number of an image, and the arrays of the images."""

    arrays: StackedArrays

    def images(self, rows: Rows) -> Tensor:
        """What is kept of the images of these rows (b, c, h, w)."""
        numbers = [int(self.fields[0][int(row)][0]) for row in rows]
        return torch.from_numpy(self.arrays.take(numbers))


class Gallery:
    """Prepares the images of a task: those of data once, in the cache, and those of a user.

    Images of data that is not trained on are remembered by name, so that answering them while a
    training goes on decodes nothing.
    """

    def __init__(self, view: View) -> None:
        self.view = view
        self._known: dict[str, tuple[StackedArrays, int]] = {}

    def encode(
        self,
        split: Split,
        others: Callable[[list[Row]], list[list[int]]],
        *,
        key: str,
        folder: Path,
        limits: Sequence[int] | None = None,
        may_be_empty: Collection[str] = (),
        progress: Progress | None = None,
    ) -> EncodedImages:
        """A split whose first column names images; `others` turns rows into their other field."""
        places: dict[str, int] = {}
        for row in split:
            places.setdefault(row.values[0], len(places))
        arrays = arrays_once(
            list(places),
            lambda name: self.view.array(read_image(name)),
            key=f"{self.view.key} {split.digest()}",
            folder=folder,
            progress=progress,
        )

        def numbers(rows: list[Row]) -> list[tuple[list[int], ...]]:
            images = [[places[row.values[0]]] for row in rows]
            return list(zip(images, others(rows), strict=True))

        found = encode_once(
            split,
            numbers,
            key=key,
            folder=folder,
            limits=limits,
            may_be_empty=may_be_empty,
            progress=progress,
        )
        if split.name != "train":
            self._known |= {name: (arrays, place) for name, place in places.items()}
        return EncodedImages(found.fields, found.skipped, found.key, arrays)

    def arrays(self, inputs: Iterable[Picture], first: int = 0) -> Tensor:
        """What is kept of these images (b, c, h, w); `first` is the number of the first, from 0."""
        found = [self._one(given, number) for number, given in enumerate(inputs, first + 1)]
        return torch.from_numpy(np.stack(found))

    def examples(self, examples: Sequence[ImageExample]) -> Tensor:
        """Return the arrays of the images of a batch (b, c, h, w)."""
        found = [self._one(example.given, example.number + 1) for example in examples]
        return torch.from_numpy(np.stack(found))

    def _one(self, given: Picture, number: int) -> Array:
        if isinstance(given, str) and given in self._known:
            stacked, place = self._known[given]
            return stacked.rows[place]
        image = as_image(given, number)
        raise_if_cancelled()
        return self.view.array(image)


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageExample(Example):
    """An image that is decoded when its batch is answered."""

    given: Any


def image_examples(inputs: Iterable[Picture], first: int) -> list[ImageExample]:
    """Number the images from `first`."""
    return [ImageExample(number=number, given=given) for number, given in enumerate(inputs, first)]


def as_image(given: object, number: int) -> Image.Image:
    """The image that an input is or names; `number` says which input, for a message."""
    raise_if_cancelled()
    if isinstance(given, str | Path):
        return read_image(given)
    if isinstance(given, bytes):
        return decode_image(given, f"input {number}")
    if isinstance(given, Image.Image):
        return to_rgb(given)
    if not isinstance(given, np.ndarray):
        raise DecodingError(
            f"input {number} must be the path of an image, the bytes of a file, a PIL image or an "
            f"array, got {type(given).__name__}"
        )
    pixels = given[:, :, 0] if given.ndim == 3 and given.shape[2] == 1 else given
    if np.issubdtype(pixels.dtype, np.floating) and pixels.size:
        if not (pixels.min() >= 0 and pixels.max() <= 1):
            raise DecodingError(f"input {number}: an array of floats holds numbers from 0 to 1")
        pixels = np.rint(pixels * 255).astype(np.uint8)
    shape = pixels.shape
    if (
        pixels.dtype != np.uint8
        or not pixels.size
        or pixels.ndim not in (2, 3)
        or (pixels.ndim == 3 and shape[2] not in (3, 4))
    ):
        raise DecodingError(
            f"input {number} must be an array of bytes (0 to 255) or floats (0 to 1) with the "
            f"shape (height, width) or (height, width, 3); got {given.dtype} {given.shape}"
        )
    return to_rgb(Image.fromarray(pixels))


def picture_from_json(value: object) -> bytes:
    """Return the bytes of an image file from base64, perhaps in a data: URI; bytes as they are."""
    if isinstance(value, bytes):  # an uploaded file
        return value
    if not isinstance(value, str):
        raise DataError(f"an input is an image as base64, got {json_kind(value)}")
    head, comma, body = value.partition(",")
    data = body if comma and head.startswith("data:") and head.endswith(";base64") else value
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise DataError("an input is an image as base64; this text is none") from None
