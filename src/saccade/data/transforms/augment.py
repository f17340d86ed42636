"""Augmentation: batches of images changed at random, so that a model sees none of them twice.

Images are (b, c, h, w), bytes or floats from 0 to 1, and come back as they came. All is drawn from
torch's own generator, and for all images of a batch at once.

    flip, crop     mirrored, and shifted by some pixels, as is usual for small images
    colour         brightness, contrast and saturation
    erase          a rectangle is covered (Zhong et al. 2020)
    randaugment    some operations drawn from a list, one after the other (Cubuk et al. 2020)
    mixup          two images laid over each other (Zhang et al. 2018):

                   x = λ x_i + (1 - λ) x_j        λ ~ Beta(α, α)
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import torch
import torch.nn.functional as F
from annotated_types import Ge, Le
from jaxtyping import Shaped

from saccade.config import Conflict, Fraction, NotNegative, Whole, without_effect
from saccade.shapes import Float, Int, Tensor

Images = Shaped[Tensor, "b c h w"]
Part = Annotated[float, Ge(0), Le(1)]
"""From 0 to 1, both included."""

MOST_TURN = math.radians(30)
MOST_SHEAR = 0.3
MOST_SHIFT = 0.45  # of a side
MOST_BITS = 4  # that posterising drops
NARROWEST = 0.3  # an erased rectangle's height over its width, or the other way round
GREY = (0.299, 0.587, 0.114)


@dataclass(frozen=True, kw_only=True)
class AugmentConfig:
    """How images are changed in training; as it stands, not at all.

    flip          whether half of them are mirrored, left to right
    crop          by how many pixels they are shifted at most; what comes in is black
    colour        how far brightness, contrast and saturation go from 1 at most, up and down
    erase         the largest share of an image that one rectangle of its mean colour covers
    randaugment   how many operations are drawn for each image: it stays, is shifted, turned,
                  sheared, solarised, posterised, or its contrast stretched
    magnitude     how strong these are, from 0 to 1
    mixup         α; small: one of two images is hardly seen; 0: none are mixed
    """

    flip: bool = False
    crop: Whole = 0
    colour: Part = 0.0
    erase: Fraction = 0.0
    randaugment: Whole = 0
    magnitude: Part = 0.3
    mixup: NotNegative = 0.0

    def conflicts(self) -> Iterator[Conflict]:
        """The strength of operations that are not used."""
        if not self.randaugment:
            yield from without_effect(self, ["magnitude"], "without randaugment")


class Mixed(NamedTuple):
    """Images laid over each other: each with that of row `partners`, itself by this share."""

    images: Images
    partners: Int[Tensor, " b"]
    share: Float[Tensor, ""]


def augment(images: Images, config: AugmentConfig) -> Images:
    """The images, each changed in its own way."""
    if config.flip:
        images = _flipped(images)
    if config.crop:
        images = _cropped(images, config.crop)
    if not (config.colour or config.erase or config.randaugment):
        return images
    return _as_they_came(_changed(_floats(images), config), images)


def mix(images: Images, alpha: float) -> Mixed:
    """Each image with another of the batch, all in the same proportion; `alpha` is above 0.

    The loss is mixed in the same way: share · loss(labels) + (1 - share) · loss(labels[partners]).
    """
    partners = torch.randperm(len(images))
    share = torch.distributions.Beta(alpha, alpha).sample()
    floats = _floats(images)
    mixed = share * floats + (1 - share) * floats[partners]
    return Mixed(_as_they_came(mixed, images), partners, share)


def _changed(images: Tensor, config: AugmentConfig) -> Tensor:
    for _ in range(config.randaugment):
        images = _operated(images, config.magnitude)
    if config.colour:
        images = _coloured(images, config.colour)
    if config.erase:
        images = _erased(images, config.erase)
    return images


def _flipped(images: Tensor) -> Tensor:
    return torch.where(_each(images, torch.rand(len(images)) < 0.5), images.flip(-1), images)


def _cropped(images: Tensor, most: int) -> Tensor:
    """A window of the same size, anywhere in the image with a border of `most` pixels."""
    count, _, height, width = images.shape
    rows = torch.randint(2 * most + 1, (count, 1)) + torch.arange(height)
    columns = torch.randint(2 * most + 1, (count, 1)) + torch.arange(width)
    framed = F.pad(images, (most,) * 4).movedim(1, -1)
    places = torch.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]
    return framed[places].movedim(-1, 1)


def _coloured(images: Tensor, most: float) -> Tensor:
    bright, contrast, saturation = (
        _each(images, 1 + most * _signed(len(images))) for _ in range(3)
    )
    images = (images * bright).clamp(0, 1)
    middle = _grey(images).mean((1, 2, 3), keepdim=True)
    images = middle.lerp(images, contrast).clamp(0, 1)
    return _grey(images).lerp(images, saturation).clamp(0, 1)


def _erased(images: Tensor, most: float) -> Tensor:
    count, _, height, width = images.shape
    area = most * torch.rand(count, 1) * height * width
    aspect = torch.exp(math.log(NARROWEST) * _signed(count)[:, None])
    tall = (area * aspect).sqrt().clamp(max=height)
    wide = (area / tall.clamp(min=1)).clamp(max=width)
    rows, columns = _between(height, tall.floor()), _between(width, wide.floor())
    covered = (rows[:, :, None] & columns[:, None, :])[:, None].to(images.device)
    return torch.where(covered, images.mean((2, 3), keepdim=True), images)


def _between(side: int, lengths: Tensor) -> Tensor:
    """For each length (b, 1) the places (b, side) of a piece so long that lies anywhere."""
    starts = (torch.rand(lengths.shape) * (side + 1 - lengths)).floor()
    places = torch.arange(side)
    return (places >= starts) & (places < starts + lengths)


def _operated(images: Tensor, magnitude: float) -> Tensor:
    """One operation, drawn for each image."""
    chosen = torch.randint(len(OPERATIONS), (len(images),))
    amounts = magnitude * _signed(len(images)).sign()
    images = images.clone()
    for number, operation in enumerate(OPERATIONS):
        rows = (chosen == number).nonzero().squeeze(1)
        if len(rows):
            images[rows] = operation(images[rows], amounts[rows])
    return images


def _same(images: Tensor, amounts: Tensor) -> Tensor:
    return images


def _shifted_across(images: Tensor, amounts: Tensor) -> Tensor:
    return _moved(images, across=2 * MOST_SHIFT * amounts)


def _shifted_down(images: Tensor, amounts: Tensor) -> Tensor:
    return _moved(images, down=2 * MOST_SHIFT * amounts)


def _turned(images: Tensor, amounts: Tensor) -> Tensor:
    angles = MOST_TURN * amounts
    ratio = images.shape[2] / images.shape[3]  # sides count as 2 each, whatever their length
    sine, cosine = angles.sin(), angles.cos()
    return _moved(images, xx=cosine, xy=-sine * ratio, yx=sine / ratio, yy=cosine)


def _sheared_across(images: Tensor, amounts: Tensor) -> Tensor:
    return _moved(images, xy=MOST_SHEAR * amounts)


def _sheared_down(images: Tensor, amounts: Tensor) -> Tensor:
    return _moved(images, yx=MOST_SHEAR * amounts)


def _solarised(images: Tensor, amounts: Tensor) -> Tensor:
    """What is brighter than a threshold is turned into its negative."""
    return torch.where(images > 1 - _each(images, amounts.abs()), 1 - images, images)


def _posterised(images: Tensor, amounts: Tensor) -> Tensor:
    """The lowest of eight bits become 0."""
    step = _each(images, 2 ** (MOST_BITS * amounts.abs()).round())
    return ((images * 255).round() / step).floor() * step / 255


def _stretched(images: Tensor, amounts: Tensor) -> Tensor:
    """The darkest and the brightest value of each channel become 0 and 1."""
    low, high = images.amin((2, 3), keepdim=True), images.amax((2, 3), keepdim=True)
    return torch.where(high > low, (images - low) / (high - low).clamp(min=1e-6), images)


OPERATIONS: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (
    _same,
    _shifted_across,
    _shifted_down,
    _turned,
    _sheared_across,
    _sheared_down,
    _solarised,
    _posterised,
    _stretched,
)


def _moved(images: Tensor, **entries: Any) -> Tensor:
    """Each image by its own affine map; what comes in is black.

    The map (xx xy across; yx yy down) says for each place of the result from where it is taken.
    """
    known = {"xx": 1.0, "xy": 0.0, "across": 0.0, "yx": 0.0, "yy": 1.0, "down": 0.0, **entries}
    values = [torch.as_tensor(known[name]).expand(len(images)) for name in known]
    maps = torch.stack(values, 1).view(-1, 2, 3).to(images)
    grid = F.affine_grid(maps, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, align_corners=False).clamp(0, 1)


def _signed(count: int) -> Tensor:
    """Numbers between -1 and 1."""
    return 2 * torch.rand(count) - 1


def _each(images: Tensor, values: Tensor) -> Tensor:
    """One value for each image, on its device."""
    return values.to(images.device).view(-1, 1, 1, 1)


def _grey(images: Tensor) -> Tensor:
    if images.shape[1] != len(GREY):
        return images.mean(1, keepdim=True)
    return (images * images.new_tensor(GREY).view(1, -1, 1, 1)).sum(1, keepdim=True)


def _floats(images: Tensor) -> Tensor:
    return images if images.is_floating_point() else images.float() / 255


def _as_they_came(changed: Tensor, images: Tensor) -> Tensor:
    return changed if images.is_floating_point() else (changed * 255).round().to(images.dtype)
