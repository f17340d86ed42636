"""Augmentation: the effect of each option, no effect without options, and seeding."""

import pytest
import torch

from saccade import config
from saccade.data.transforms.augment import OPERATIONS, AugmentConfig, augment, mix
from saccade.errors import RecipeError

SHAPE = (5, 3, 13, 11)
ALL = AugmentConfig(flip=True, crop=2, colour=0.4, erase=0.3, randaugment=2, magnitude=0.7)
SINGLE = {
    "flip": AugmentConfig(flip=True),
    "crop": AugmentConfig(crop=3),
    "colour": AugmentConfig(colour=0.9),
    "erase": AugmentConfig(erase=0.5),
    "randaugment": AugmentConfig(randaugment=3, magnitude=1.0),
    "all": ALL,
}


def floats(shape=SHAPE):
    return torch.rand(shape)


def ints(shape=SHAPE):
    return torch.randint(256, shape, dtype=torch.uint8)


def changed(images, options, seed=0):
    torch.manual_seed(seed)
    return augment(images, options)


# all options


@pytest.mark.parametrize("make", [floats, ints])
def test_no_options_change_nothing(make):
    images = make()
    state = torch.get_rng_state()
    assert augment(images, AugmentConfig()) is images
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("make", [floats, ints])
@pytest.mark.parametrize("name", SINGLE)
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_shape_type_and_range_are_kept(name, make, channels):
    images = make((7, channels, 13, 11))
    before = images.clone()
    augmented = changed(images, SINGLE[name])
    assert augmented.shape == images.shape
    assert augmented.dtype == images.dtype
    assert torch.equal(images, before)
    if images.is_floating_point():
        assert augmented.min() >= 0
        assert augmented.max() <= 1
        assert augmented.isfinite().all()


@pytest.mark.parametrize("name", SINGLE)
def test_the_seed_decides_the_result(name):
    images = ints((16, 3, 13, 11))
    assert torch.equal(changed(images, SINGLE[name], 1), changed(images, SINGLE[name], 1))
    assert not torch.equal(changed(images, SINGLE[name], 1), changed(images, SINGLE[name], 2))


@pytest.mark.parametrize("name", SINGLE)
def test_bytes_and_floats_change_alike(name):
    images = ints()
    augmented = changed(images, SINGLE[name]).float() / 255
    assert (augmented - changed(images.float() / 255, SINGLE[name])).abs().max() < 0.5 / 255 + 1e-5


@pytest.mark.parametrize("name", SINGLE)
@pytest.mark.parametrize("shape", [(1, 3, 1, 1), (2, 1, 1, 9), (3, 3, 40, 2)])
def test_images_of_every_shape_are_augmented(name, shape):
    assert changed(floats(shape), SINGLE[name]).shape == shape


def test_images_of_a_batch_change_differently():
    images = ints((1, 3, 13, 11)).expand(32, -1, -1, -1)
    augmented = changed(images, ALL)
    assert len({tuple(image.flatten().tolist()) for image in augmented}) > 28


# single options


def test_flip_mirrors_about_half_of_the_images():
    images = ints((200, 3, 4, 6))
    augmented = changed(images, AugmentConfig(flip=True))
    mirrored = (augmented == images.flip(-1)).flatten(1).all(1)
    same = (augmented == images).flatten(1).all(1)
    assert (mirrored ^ same).all()
    assert 70 < mirrored.sum() < 130


def test_crop_shifts_uniformly():
    """Every result is one of the 25 windows of the image with a border."""
    images = 1 + ints((300, 2, 5, 7)) // 2
    augmented = changed(images, AugmentConfig(crop=2))
    bordered = torch.nn.functional.pad(images, (2, 2, 2, 2))
    seen = torch.zeros(300, dtype=torch.long)
    for down in range(5):
        for across in range(5):
            window = bordered[:, :, down : down + 5, across : across + 7]
            equal = (window == augmented).flatten(1).all(1)
            assert 2 <= equal.sum() <= 30  # 12 of 300 on average
            seen += equal
    assert seen.tolist() == [1] * 300


def test_crop_gives_every_shift_of_a_small_image():
    image = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]).expand(100, 1, 2, 2)
    augmented = {tuple(image.flatten().tolist()) for image in changed(image, AugmentConfig(crop=1))}
    assert augmented == {
        (0, 0, 0, 1), (0, 0, 1, 2), (0, 0, 2, 0),
        (0, 1, 0, 3), (1, 2, 3, 4), (2, 0, 4, 0),
        (0, 3, 0, 0), (3, 4, 0, 0), (4, 0, 0, 0),
    }  # fmt: skip


def test_colour_of_grey_images_changes_brightness_only():
    """Contrast and saturation do not change a uniform grey; brightness does."""
    images = torch.full((500, 3, 4, 4), 0.4)
    augmented = changed(images, AugmentConfig(colour=0.5))
    assert (augmented - augmented[:, :1, :1, :1]).abs().max() < 1e-6
    factors = augmented[:, 0, 0, 0] / 0.4
    assert 0.5 <= factors.min() < 0.55
    assert 1.45 < factors.max() <= 1.5
    assert abs(factors.mean() - 1) < 0.05


def test_saturation_changes_coloured_pixels_only():
    red = torch.tensor([0.8, 0.2, 0.2]).view(1, 3, 1, 1).expand(400, 3, 2, 2)
    augmented = changed(red, AugmentConfig(colour=0.5))
    spread = (augmented.amax(1) - augmented.amin(1))[:, 0, 0]
    assert spread.min() < 0.3
    assert spread.max() > 0.85
    assert (augmented[:, 0] >= augmented[:, 1]).all()


def test_erase_covers_one_rectangle_with_the_mean_colour():
    images = floats((300, 3, 20, 30))
    augmented = changed(images, AugmentConfig(erase=0.4))
    differs = (augmented != images).any(1)
    fraction = differs.flatten(1).float().mean(1)
    assert fraction.max() <= 0.4
    assert fraction.max() > 0.3
    assert (
        0.15 < fraction.mean() < 0.22
    )  # half of 0.4, slightly less because sides are rounded down
    for i in range(20):
        rows, columns = differs[i].any(1).nonzero(), differs[i].any(0).nonzero()
        if len(rows):
            top, bottom = rows.min(), rows.max() + 1
            left, right = columns.min(), columns.max() + 1
            assert differs[i, top:bottom, left:right].all()
            assert differs[i].sum() == (bottom - top) * (right - left)
            inside = augmented[i, :, top, left]
            assert torch.allclose(inside, images[i].mean((1, 2)), atol=1e-6)


OF = {operation.__name__: operation for operation in OPERATIONS}


def operated(name, images, amount):
    return OF[name](images, torch.full((len(images),), amount))


def test_shifts_by_hand():
    """0.45 · 20/45 of 5 pixels is one; positive amounts shift left and up."""
    image = torch.arange(25.0).view(1, 1, 5, 5) / 25
    across = operated("_shifted_across", image, 20 / 45)
    assert torch.allclose(across[..., :4], image[..., 1:], atol=1e-5)
    assert across[..., 4].abs().max() < 1e-5
    down = operated("_shifted_down", image, -20 / 45)
    assert torch.allclose(down[:, :, 1:], image[:, :, :4], atol=1e-5)
    assert down[:, :, 0].abs().max() < 1e-5


@pytest.mark.parametrize(("height", "width"), [(41, 41), (41, 81)])
def test_rotation_keeps_lengths_for_any_aspect_ratio(height, width):
    """A point 12 pixels right of the centre is rotated by 30 degrees."""
    image = torch.zeros(1, 1, height, width)
    middle, centre = height // 2, width // 2
    image[0, 0, middle - 1 : middle + 2, centre + 11 : centre + 14] = 1
    augmented = operated("_rotated", image, 1.0)[0, 0]
    total = augmented.sum()
    y = (augmented.sum(1) * torch.arange(height)).sum() / total - middle
    x = (augmented.sum(0) * torch.arange(width)).sum() / total - centre
    assert abs(total - 9) < 0.7
    assert abs(x - 12 * 3**0.5 / 2) < 0.2
    assert abs(abs(y) - 6) < 0.2


def test_shearing_keeps_the_middle_line():
    image = floats((1, 1, 9, 9))
    assert torch.allclose(operated("_sheared_across", image, 1.0)[:, :, 4], image[:, :, 4])
    assert torch.allclose(operated("_sheared_down", image, 1.0)[..., 4], image[..., 4])
    assert not torch.allclose(operated("_sheared_down", image, 1.0)[..., 0], image[..., 0])


def test_solarise_posterise_and_stretch_by_hand():
    image = torch.tensor([0.0, 0.25, 0.5, 0.75]).view(1, 1, 1, 4)
    assert operated("_solarised", image, 0.4).flatten().tolist() == [0.0, 0.25, 0.5, 0.25]
    values = torch.tensor([0, 15, 16, 255]).view(1, 1, 1, 4) / 255
    augmented = operated("_posterised", values, 1.0) * 255
    assert augmented.round().flatten().tolist() == [0, 0, 16, 240]
    assert torch.allclose(operated("_posterised", values, 0.0), values)
    stretched = operated("_stretched", image / 2 + 0.1, 1.0).flatten()
    assert torch.allclose(stretched, torch.tensor([0.0, 1 / 3, 2 / 3, 1.0]), atol=1e-6)
    flat = torch.full((1, 2, 3, 3), 0.3)
    assert torch.equal(operated("_stretched", flat, 1.0), flat)


@pytest.mark.parametrize("name", [name for name in OF if name != "_stretched"])
def test_operations_of_magnitude_zero_change_nothing(name):
    images = ints((2, 3, 8, 6)).float() / 255
    assert torch.allclose(operated(name, images, 0.0), images, atol=1e-5)


def test_randaugment_leaves_some_images_unchanged():
    images = ints((300, 1, 4, 4))
    augmented = changed(images, AugmentConfig(randaugment=1, magnitude=1.0))
    same = (augmented == images).flatten(1).all(1).sum()
    assert 15 < same < 90  # one of nine operations, and stretching of images that need none


# mixing


def test_mixed_images_are_weighted_sums():
    images = floats()
    torch.manual_seed(0)
    augmented = mix(images, 0.4)
    assert sorted(augmented.partners.tolist()) == list(range(5))
    assert 0 <= augmented.weight <= 1
    expected = augmented.weight * images + (1 - augmented.weight) * images[augmented.partners]
    assert torch.allclose(augmented.images, expected)
    assert torch.allclose(augmented.images.mean(), images.mean())
    torch.manual_seed(0)
    again = mix(images, 0.4)
    assert torch.equal(again.images, augmented.images)
    assert torch.equal(again.partners, augmented.partners)


def test_mixed_bytes_stay_bytes():
    images = ints()
    augmented = mix(images, 1.0)
    floating = images.float()
    expected = augmented.weight * floating + (1 - augmented.weight) * floating[augmented.partners]
    assert augmented.images.dtype == torch.uint8
    assert (augmented.images.float() - expected).abs().max() <= 0.51


def test_mixing_weights_follow_the_beta_distribution():
    """Mean 1/2, variance 1 / (4 (2 α + 1))."""
    for alpha in (0.2, 1.0):
        weights = torch.stack([mix(torch.zeros(1, 1, 1, 1), alpha).weight for _ in range(400)])
        assert abs(weights.mean() - 0.5) < 0.07
        assert abs(weights.var() - 1 / (4 * (2 * alpha + 1))) < 0.03


# options


def test_options_are_read_from_a_table():
    augmented = config.read(AugmentConfig, {"flip": True, "crop": 4, "mixup": 0.2})
    assert augmented == AugmentConfig(flip=True, crop=4, mixup=0.2)


@pytest.mark.parametrize(
    "table",
    [{"crop": -1}, {"colour": 1.5}, {"erase": 1.0}, {"magnitude": 2}, {"mixup": -1}, {"blur": 1}],
)
def test_raises_on_invalid_augment_options(table):
    with pytest.raises(RecipeError, match=next(iter(table))):
        config.read(AugmentConfig, table)
