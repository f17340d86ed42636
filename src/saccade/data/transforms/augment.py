"""Augmentation: random changes to batches of images, so that a model sees no image twice.

Images are (b, c, h, w), bytes or floats from 0 to 1; the type is kept. Random numbers come from
torch's global generator, for all images of a batch at once.

    flip, crop     mirror, and shift by a few pixels, as is usual for small images
    colour         brightness, contrast and saturation
    erase          cover a rectangle (Zhong et al. 2020, "Random erasing data augmentation")
    randaugment    apply randomly chosen operations one after the other (Cubuk et al. 2020,
                   "RandAugment: practical automated data augmentation")
    mixup          blend two images (Zhang et al. 2018, "mixup: beyond empirical risk
                   minimization"):

                   x = λ x_i + (1 - λ) x_j        λ ~ Beta(α, α)
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import torch
import torch.nn.functional as F
from annotated_types import Ge, Le
from jaxtyping import Shaped

from saccade.config import Conflict, Fraction, NotNegative, Whole, without_effect
from saccade.shapes import Float, Int, Tensor

Images = Shaped[Tensor, "b c h w"]
Part = Annotated[float, Ge(0), Le(1)]
"""From 0 to 1, both included."""

MOST_ROTATION = math.radians(30)
MOST_SHEAR = 0.3
MOST_SHIFT = 0.45  # fraction of a side
MOST_BITS = 4  # dropped by posterising
NARROWEST = 0.3  # ratio of the shorter to the longer side of an erased rectangle
GREY = (0.299, 0.587, 0.114)


@dataclass(frozen=True, kw_only=True)
class AugmentConfig:
    """Random changes to training images; by default there are none.

    flip          mirror half of the images left to right; leave off where the side matters, as for
                  digits and letters
    crop          largest shift in pixels, in each direction; the uncovered border is black. 4 is
                  usual for images of 32 × 32
    colour        largest relative change of brightness, contrast and saturation; 0.4 changes each
                  by up to 40 %
    erase         largest fraction of an image that is covered by one rectangle of its mean colour
    randaugment   number of operations per image, each chosen among: none, shift, rotate, shear,
                  solarise, posterise, stretch the contrast. 2 is usual
    magnitude     strength of these operations, from 0 (no change) to 1
    mixup         α of the Beta distribution of the mixing weight; small values leave one of the two
                  images nearly unchanged, 0 mixes none. 0.2 is usual
    """

    flip: bool = False
    crop: Whole = 0
    colour: Part = 0.0
    erase: Fraction = 0.0
    randaugment: Whole = 0
    magnitude: Part = 0.3
    mixup: NotNegative = 0.0

    def conflicts(self) -> Iterator[Conflict]:
        """Yield the strength of operations if there are none."""
        if not self.randaugment:
            yield from without_effect(self, ["magnitude"], "without randaugment")


class Mixed(NamedTuple):
    """Blended images: each with the one in row `partners`, itself with this weight."""

    images: Images
    partners: Int[Tensor, " b"]
    weight: Float[Tensor, ""]


def augment(images: Images, config: AugmentConfig) -> Images:
    """Change each image in its own way; without options return them unchanged.

    Args:
        images: Images (b, c, h, w) as bytes, or as floats from 0 to 1.
        config: The changes.

    Returns:
        Images of the same shape and type.
    """
    if config.flip:
        images = _flipped(images)
    if config.crop:
        images = _cropped(images, config.crop)
    if not (config.colour or config.erase or config.randaugment):
        return images
    return _like(_changed(_floats(images), config), images)


def mix(images: Images, alpha: float) -> Mixed:
    """Blend each image with another of the batch, all with the same weight λ (mixup).

    The loss is mixed alike: λ · loss(labels) + (1 - λ) · loss(labels[partners]).

    Args:
        images: Images (b, c, h, w) as bytes, or as floats from 0 to 1.
        alpha: The parameter of the Beta distribution of λ, above 0.
    """
    partners = torch.randperm(len(images))
    weight = torch.distributions.Beta(alpha, alpha).sample()
    floats = _floats(images)
    mixed = weight * floats + (1 - weight) * floats[partners]
    return Mixed(_like(mixed, images), partners, weight)


def _changed(images: Tensor, config: AugmentConfig) -> Tensor:
    for _ in range(config.randaugment):
        images = _operated(images, config.magnitude)
    if config.colour:
        images = _coloured(images, config.colour)
    if config.erase:
        images = _erased(images, config.erase)
    return images


def _flipped(images: Tensor) -> Tensor:
    return torch.where(_per_image(images, torch.rand(len(images)) < 0.5), images.flip(-1), images)


def _cropped(images: Tensor, most: int) -> Tensor:
    """Cut a window of the same size out of the image with a border of `most` pixels."""
    count, _, height, width = images.shape
    rows = torch.randint(2 * most + 1, (count, 1)) + torch.arange(height)
    columns = torch.randint(2 * most + 1, (count, 1)) + torch.arange(width)
    bordered = F.pad(images, (most,) * 4).movedim(1, -1)
    places = torch.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]
    return bordered[places].movedim(-1, 1)


def _coloured(images: Tensor, most: float) -> Tensor:
    bright, contrast, saturation = (
        _per_image(images, 1 + most * _signed(len(images))) for _ in range(3)
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
    """Return a mask (b, side) of one randomly placed interval for each length (b, 1)."""
    starts = (torch.rand(lengths.shape) * (side + 1 - lengths)).floor()
    places = torch.arange(side)
    return (places >= starts) & (places < starts + lengths)


def _operated(images: Tensor, magnitude: float) -> Tensor:
    """Apply one randomly chosen operation to each image."""
    chosen = torch.randint(len(OPERATIONS), (len(images),))
    amounts = magnitude * _signed(len(images)).sign()
    images = images.clone()
    for number, operation in enumerate(OPERATIONS):
        rows = (chosen == number).nonzero().squeeze(1)
        if len(rows):
            images[rows] = operation(images[rows], amounts[rows])
    return images


def _unchanged(images: Tensor, amounts: Tensor) -> Tensor:
    return images


def _shifted_across(images: Tensor, amounts: Tensor) -> Tensor:
    return _moved(images, across=2 * MOST_SHIFT * amounts)


def _shifted_down(images: Tensor, amounts: Tensor) -> Tensor:
    return _moved(images, down=2 * MOST_SHIFT * amounts)


def _rotated(images: Tensor, amounts: Tensor) -> Tensor:
    angles = MOST_ROTATION * amounts
    ratio = images.shape[2] / images.shape[3]  # both sides have the length 2 in the grid
    sine, cosine = angles.sin(), angles.cos()
    return _moved(images, xx=cosine, xy=-sine * ratio, yx=sine / ratio, yy=cosine)


def _sheared_across(images: Tensor, amounts: Tensor) -> Tensor:
    return _moved(images, xy=MOST_SHEAR * amounts)


def _sheared_down(images: Tensor, amounts: Tensor) -> Tensor:
    return _moved(images, yx=MOST_SHEAR * amounts)


def _solarised(images: Tensor, amounts: Tensor) -> Tensor:
    """Invert the values above a threshold."""
    return torch.where(images > 1 - _per_image(images, amounts.abs()), 1 - images, images)


def _posterised(images: Tensor, amounts: Tensor) -> Tensor:
    """Set the lowest of eight bits to 0."""
    step = _per_image(images, 2 ** (MOST_BITS * amounts.abs()).round())
    return ((images * 255).round() / step).floor() * step / 255


def _stretched(images: Tensor, amounts: Tensor) -> Tensor:
    """Stretch each channel so that its extremes become 0 and 1."""
    low, high = images.amin((2, 3), keepdim=True), images.amax((2, 3), keepdim=True)
    return torch.where(high > low, (images - low) / (high - low).clamp(min=1e-6), images)


OPERATIONS: tuple[Callable[[Tensor, Tensor], Tensor], ...] = (
    _unchanged,
    _shifted_across,
    _shifted_down,
    _rotated,
    _sheared_across,
    _sheared_down,
    _solarised,
    _posterised,
    _stretched,
)


def _moved(images: Tensor, **entries: Tensor) -> Tensor:
    """Transform each image by its own affine map; uncovered parts are black.

    The map (xx xy across; yx yy down) gives the source of each place of the result.
    """
    identity = {"xx": 1.0, "xy": 0.0, "across": 0.0, "yx": 0.0, "yy": 1.0, "down": 0.0}
    values = [
        entries.get(name, torch.tensor(value)).expand(len(images))
        for name, value in identity.items()
    ]
    maps = torch.stack(values, 1).view(-1, 2, 3).to(images)
    grid = F.affine_grid(maps, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, align_corners=False).clamp(0, 1)


def _signed(count: int) -> Tensor:
    """Return random numbers between -1 and 1."""
    return 2 * torch.rand(count) - 1


def _per_image(images: Tensor, values: Tensor) -> Tensor:
    """Return one value per image, on its device, for broadcasting."""
    return values.to(images.device).view(-1, 1, 1, 1)


def _grey(images: Tensor) -> Tensor:
    if images.shape[1] != len(GREY):
        return images.mean(1, keepdim=True)
    return (images * images.new_tensor(GREY).view(1, -1, 1, 1)).sum(1, keepdim=True)


def _floats(images: Tensor) -> Tensor:
    return images if images.is_floating_point() else images.float() / 255


def _like(changed: Tensor, images: Tensor) -> Tensor:
    """Return the images in the type of the originals."""
    return changed if images.is_floating_point() else (changed * 255).round().to(images.dtype)
