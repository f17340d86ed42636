"""Images as inputs: how they are prepared, cached and described.

An image is prepared once, as an array in the cache: pixels of one size, or the features of a
network that is not trained. A `View` is one such preparation.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import nn

from saccade.cancellation import raise_if_cancelled
from saccade.config import Count
from saccade.data.corpus import Row, Split
from saccade.data.sources.columns import Column
from saccade.data.sources.images import ResizeMethod, decode_image, read_image, resized, to_rgb
from saccade.data.sources.text_files import file_digest
from saccade.data.store.cache import Encoded, arrays_once
from saccade.data.store.stacked import Array, StackedArrays
from saccade.data.transforms.augment import AugmentConfig
from saccade.encoders.efficientnet import EfficientNetLite0
from saccade.encoders.patches import FrozenEncoder
from saccade.errors import (
    BrokenImagesError,
    DataError,
    DecodingError,
    RecipeError,
    RunError,
    WeightsError,
    brief,
)
from saccade.files import read_json
from saccade.lens.record import ImageSide
from saccade.shapes import Float, Tensor
from saccade.tasks._shared.answering import Example
from saccade.tasks._shared.base import Progress, Rows, Task
from saccade.tasks._shared.description import ImageInput
from saccade.tasks._shared.predictor import json_kind
from saccade.tasks._shared.prepared import EncodedFiles, PreparedFiles, located

IMAGE = Column("image", ("img", "image_path", "file", "filename", "path", "photo"), image=True)
IMAGE_FILE = "images.json"
"""The file of a run folder with the scale of pixels, or the digest of the features' weights."""
FORMAT = 1
"""The version of the preparation; it changes when an image would be prepared differently."""
SAMPLED = 2_000
"""The maximum number of images that mean and spread are computed from."""
SHOWN = 512
"""The maximum of the longer side of an attention record's image, in pixels."""
HALF = 127.5
IMAGENET = ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))
"""The mean and the spread of each colour in ImageNet."""
PRETRAINED = (127.0, 128.0)
"""The mean and spread that EfficientNet-Lite0 was trained with."""
Picture = str | Path | bytes | Image.Image | npt.NDArray[np.generic]
"""A path, the contents of a file, or pixels."""


@dataclass(frozen=True, kw_only=True)
class ImageConfig:
    """The preparation of images.

    size    both sides in pixels; images are resized once; larger shows more detail and costs more
    how     "squash": the complete image, stretched to a square; "crop": the middle; "pad": the
            complete image, with black bars on two sides
    scale   the scale of pixels: "half": from -1 to 1; "data": by the mean and the spread of each
            colour in the training data; "imagenet": by those of ImageNet, for pretrained weights
            that were trained so, such as those of DeiT; "init": that of the model that training
            starts from, which `--init` sets if it is known
    """

    size: Count = 32
    how: ResizeMethod = "squash"
    scale: Literal["half", "data", "imagenet", "init"] = "half"


@dataclass(frozen=True)
class Scale:
    """The scale (x - mean) / spread of each channel of bytes x."""

    mean: tuple[float, ...]
    spread: tuple[float, ...]

    @classmethod
    def even(cls, channels: int, mean: float = HALF, spread: float = HALF) -> Scale:
        """Return the same scale for all channels; by default from -1 to 1."""
        return cls((mean,) * channels, (spread,) * channels)

    @classmethod
    def of(cls, arrays: Sequence[npt.NDArray[np.uint8]]) -> Scale:
        """Return the scale in which these arrays (c, h, w) have mean 0 and variance 1."""
        joined = np.stack(arrays).astype(np.float64)
        mean, spread = joined.mean((0, 2, 3)), joined.std((0, 2, 3))
        return cls(tuple(mean.tolist()), tuple(np.maximum(spread, 1.0).tolist()))

    def __call__(self, images: Tensor) -> Float[Tensor, "b c h w"]:
        """Return bytes as numbers around 0."""
        mean, spread = (
            torch.tensor(numbers, device=images.device).view(-1, 1, 1)
            for numbers in (self.mean, self.spread)
        )
        return (images.float() - mean) / spread


class View(ABC):
    """A preparation of images.

    Attributes:
        pixels: The preparation of the pixels.
        key: A name of everything that its arrays depend on.
    """

    pixels: Pixels
    key: str

    @abstractmethod
    def array(self, image: Image.Image) -> Array:
        """Return the array of an image, as the cache keeps it."""

    @abstractmethod
    def read(self, arrays: Tensor) -> Float[Tensor, "b c h w"]:
        """Return the input of the model for such arrays."""

    @abstractmethod
    def facts(self) -> dict[str, object]:
        """Return what it depends on apart from the recipe, as plain values."""

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
        """Return the image of an attention record: the part that the model saw."""
        return ImageSide(self.pixels.shown(image), grid, class_token=class_token)


class Pixels(View):
    """The pixels themselves, as bytes."""

    def __init__(self, config: ImageConfig, channels: int, scale: Scale | None = None) -> None:
        if channels not in (1, 3):
            raise RecipeError(
                f"model channels can be 1 (grey) or 3 (colour), got {channels}; "
                "set model.channels to one of them"
            )
        self.config, self.channels = config, channels
        self.scale = scale or Scale.even(channels)
        self.pixels = self
        self.key = f"pixels {FORMAT} {config.size} {config.how} {channels}"

    def array(self, image: Image.Image) -> npt.NDArray[np.uint8]:
        """Return bytes (c, h, w)."""
        size = (self.config.size, self.config.size)
        pixels = resized(image, size, self.config.how, grey=self.channels == 1)
        return np.ascontiguousarray(pixels.transpose(2, 0, 1))

    def read(self, arrays: Tensor) -> Float[Tensor, "b c h w"]:
        """Return scaled pixels."""
        return self.scale(arrays)

    def facts(self) -> dict[str, object]:
        """Return the scale."""
        return {"mean": list(self.scale.mean), "spread": list(self.scale.spread)}

    def shown(self, image: Image.Image) -> npt.NDArray[np.uint8]:
        """Return the part that is read, in colour, not squashed and not larger than needed."""
        if self.config.how != "squash":
            return resized(image, (self.config.size, self.config.size), self.config.how)
        picture = to_rgb(image)
        picture.thumbnail((SHOWN, SHOWN))
        return np.array(picture)


class Features(View):
    """The features (d, rows, columns) of a network that is not trained, computed once per image."""

    @property
    @abstractmethod
    def digest(self) -> str:
        """The SHA-256 of the weights of the network."""

    @property
    @abstractmethod
    def network(self) -> nn.Module:
        """The network that computes the features."""

    @property
    def key(self) -> str:  # type: ignore[override]
        """A name of the pixels and the weights."""
        return f"features {FORMAT} {self.pixels.key} {self.digest}"

    def array(self, image: Image.Image) -> npt.NDArray[np.float16]:
        """Return features (d, rows, columns) in float16."""
        pixels = torch.from_numpy(self.pixels.array(image)).unsqueeze(0)
        device = next(self.network.parameters()).device
        with torch.no_grad():
            grid = self.network(self.pixels.read(pixels.to(device)))[0]
        features: npt.NDArray[np.float16] = grid.half().cpu().numpy()
        return features

    def read(self, arrays: Tensor) -> Float[Tensor, "b c h w"]:
        """Return the features in float32."""
        return arrays.float()

    def describe(self) -> ImageInput:
        """Return the description of the images, with the network that reads them first."""
        return replace(super().describe(), features=lambda: self.network)


class EfficientNetFeatures(Features):
    """The features of EfficientNet-Lite0, whose weights are in a file outside the run folder.

    Args:
        config: The preparation of the pixels.
        weights: The path of the weights.
        digest: The SHA-256 of the weights that a run was trained with; others are rejected.
    """

    def __init__(self, config: ImageConfig, weights: str, digest: str | None = None) -> None:
        self.pixels = Pixels(config, 3, Scale.even(3, *PRETRAINED))
        self.weights, self._expected = weights, digest

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the file of weights."""
        require_weights(self.weights)
        digest = file_digest(Path(self.weights))
        if self._expected is not None and digest != self._expected:
            raise RunError(
                f"{self.weights} (model.encoder.weights) is not the file that this run was trained "
                f"with: its SHA-256 is {digest}, it was {self._expected}. "
                "Restore the file, or train a new run"
            )
        return digest

    def facts(self) -> dict[str, object]:
        """Return the digest of the weights."""
        return {"weights": self.digest}

    @cached_property
    def network(self) -> EfficientNetLite0:
        """The network that computes the features."""
        assert self.digest
        return EfficientNetLite0.load(self.weights)


class EncoderFeatures(Features):
    """The states of an encoder that is part of the model and is not trained.

    Args:
        pixels: The preparation of the pixels.
        encoder: The encoder.
    """

    def __init__(self, pixels: Pixels, encoder: FrozenEncoder) -> None:
        self.pixels, self.encoder = pixels, encoder

    @property
    def digest(self) -> str:
        """The SHA-256 of the weights as they are now, and of the scale of the pixels."""
        digest = hashlib.sha256(json.dumps(self.facts()).encode())
        for name, tensor in self.encoder.state_dict().items():
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().contiguous().numpy())
        return digest.hexdigest()

    @property
    def network(self) -> nn.Module:
        """The encoder as a network of images."""
        return _FeatureNetwork(self.encoder)

    def facts(self) -> dict[str, object]:
        """Return the scale of the pixels."""
        return self.pixels.facts()


class _FeatureNetwork(nn.Module):
    """The features of an encoder, as a module."""

    def __init__(self, encoder: FrozenEncoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, image: Float[Tensor, "b c h w"]) -> Float[Tensor, "b d 1 n"]:
        """Return the features of images."""
        return self.encoder.features(image)


def with_encoder(view: View, encoder: nn.Module) -> View:
    """Return the view of a model with this encoder: if it is frozen, its states."""
    match view, encoder:
        case Pixels(), FrozenEncoder():
            return EncoderFeatures(view, encoder)
    return view


def require_augmentable(augment: AugmentConfig, key: str) -> None:
    """Raise if images are changed in training although their features are computed once."""
    if augment != AugmentConfig():
        raise RecipeError(
            "augment has no effect with features that are computed once for each image; leave it "
            f"out (--set 'augment={{}}'), or set {key}"
        )


def require_initialised(init: Path | None, key: str) -> None:
    """Raise if an encoder is frozen that has no pretrained weights."""
    if init is None:
        raise RecipeError(
            f"{key} = true keeps the weights that training starts from, and there are none; give "
            "a folder of ViT or DeiT, or a run, with --init"
        )


def require_weights(path: str) -> None:
    """Raise if the file of the encoder's weights is not named or does not exist."""
    if not path:
        raise RecipeError(
            "model.encoder.weights is missing: give the path of EfficientNet-Lite0's weights, a "
            "safetensors file, as in --set model.encoder.weights=efficientnet_lite0.safetensors"
        )
    if not Path(path).is_file():
        raise WeightsError(
            f"{path} (model.encoder.weights) does not exist; give the path of EfficientNet-Lite0's "
            "weights"
        )


def new_pixels(config: ImageConfig, channels: int, train: Split, init: Path | None) -> Pixels:
    """Return the view of a new task, perhaps scaled by the mean and spread of its training data.

    Args:
        config: The preparation of images.
        channels: The number of colour channels.
        train: The training data.
        init: The folder that training starts from.
    """
    plain = Pixels(config, channels)
    if config.scale == "half":
        return plain
    if config.scale == "init":
        if init is None or not (init / IMAGE_FILE).is_file():
            raise RecipeError(
                'image.scale = "init" is the scale of the model that training starts from, which '
                'is not known; choose a model with --init, or use "half", "data" or "imagenet"'
            )
        return pixels_of(config, channels, read_facts(init))
    if config.scale == "imagenet":
        mean, spread = IMAGENET if channels == 3 else ((fmean(x),) for x in IMAGENET)
        return Pixels(config, channels, Scale(mean, spread))
    first = {row.values[0]: row for row in train}
    names = list(first)
    read = located(lambda name: plain.array(read_image(name)), first)
    arrays, problems = [], []
    for name in names[:: -(-len(names) // SAMPLED)]:
        try:
            arrays.append(read(name))
        except DataError as error:  # `Gallery.encode` reports all broken images together
            problems.append(str(error))
    if not arrays:
        raise BrokenImagesError(problems, len(names))
    return Pixels(config, channels, Scale.of(arrays))


def read_facts(folder: Path) -> Scale | str:
    """Return the scale of a run folder's pixels, or the SHA-256 of its features' weights."""
    path = folder / IMAGE_FILE
    try:
        facts = read_json(path)
        if not isinstance(facts, dict):
            raise ValueError(f"it must hold an object, not {json_kind(facts)}")
        if "weights" in facts:
            return str(facts["weights"])
        mean, spread = (tuple(map(float, facts[name])) for name in ("mean", "spread"))
        if not all(map(math.isfinite, mean)) or not all(0 < x < math.inf for x in spread):
            raise ValueError("mean must be finite numbers, spread finite numbers above 0")
        return Scale(mean, spread)
    except (OSError, ValueError, TypeError, KeyError, OverflowError) as error:
        raise RunError(
            f"{path} cannot be read: {type(error).__name__}: {brief(error)}. Restore it from a copy"
        ) from None


def pixels_of(config: ImageConfig, channels: int, scale: Scale | str) -> Pixels:
    """Return the pixels of a run, in the scale of its training."""
    if isinstance(scale, str) or not len(scale.mean) == len(scale.spread) == channels:
        raise RunError(
            f"{IMAGE_FILE} must hold the mean and the spread of {channels} channels; "
            "restore it from a copy"
        )
    return Pixels(config, channels, scale)


def facts_json(view: View) -> dict[str, str]:
    """Return the file with the facts about a view."""
    return {IMAGE_FILE: json.dumps(view.facts(), indent=1)}


class Gallery(PreparedFiles[StackedArrays]):
    """The prepared images of a task."""

    def __init__(self, view: View) -> None:
        super().__init__()
        self.view = view

    def prepare(
        self, first: dict[str, Row], *, split: Split, folder: Path, progress: Progress | None
    ) -> StackedArrays:
        """Return the arrays of the images of a split."""
        return arrays_once(
            list(first),
            located(lambda name: self.view.array(read_image(name)), first),
            key=f"{self.view.key} {split.digest()}",
            folder=folder,
            progress=progress,
        )

    def arrays(self, inputs: Iterable[Picture], first: int = 0) -> Tensor:
        """Return the arrays of images (b, c, h, w); `first` is the number of the first, from 0."""
        return self.examples(image_examples(inputs, first))

    def examples(self, examples: Sequence[ImageExample]) -> Tensor:
        """Return the arrays of the images of a batch (b, c, h, w)."""
        return torch.from_numpy(np.stack([self._array(example) for example in examples]))

    def _array(self, example: ImageExample) -> Array:
        picture = example.picture
        if isinstance(picture, str) and picture in self._known:
            stacked, place = self._known[picture]
            return stacked.rows[place]
        image = example.image()
        raise_if_cancelled()
        return self.view.array(image)


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageExample(Example):
    """An image that is decoded when its batch is answered."""

    picture: Picture

    def image(self) -> Image.Image:
        """Return the decoded image."""
        return as_image(self.picture, self.number + 1)


class ImageTask(Task):
    """A task that reads images."""

    gallery: Gallery

    def from_json(self, value: object) -> bytes:
        """Return the bytes of an image file from base64."""
        return picture_from_json(value)


def image_examples(inputs: Iterable[Picture], first: int, weights: int = 0) -> list[ImageExample]:
    """Number the images from `first`; their records have at most `weights` per head."""
    return [
        ImageExample(number=number, picture=picture, weights=weights)
        for number, picture in enumerate(inputs, first)
    ]


def images_of(examples: Encoded, rows: Rows) -> Tensor:
    """Return the arrays of the images of these rows (b, c, h, w)."""
    assert isinstance(examples, EncodedFiles)
    return torch.from_numpy(examples.arrays.take(examples.numbers(rows)))


def as_image(given: object, number: int) -> Image.Image:
    """Return the image that an input is or names; `number` is that of the input, for a message."""
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
            f"array, got {type(given).__name__}; "
            "pass one of these"
        )
    pixels = given[:, :, 0] if given.ndim == 3 and given.shape[2] == 1 else given
    if np.issubdtype(pixels.dtype, np.floating) and pixels.size:
        if not (pixels.min() >= 0 and pixels.max() <= 1):
            raise DecodingError(
                f"input {number}: an array of floats must hold numbers from 0 to 1; divide by 255"
            )
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
        raise DataError(
            f"an input is an image as base64, got {json_kind(value)}; send a JSON string"
        )
    head, comma, body = value.partition(",")
    data = body if comma and head.startswith("data:") and head.endswith(";base64") else value
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise DataError(
            "an input is an image as base64, and this text is not valid base64; "
            "encode the bytes of the file as base64"
        ) from None
