"""Tests of the options of image encoders: grids, positions, overlapping patches."""

import pytest
import torch

from saccade.encoders.convolutional import FeatureMap, GridEncoder, ResNetConfig
from saccade.encoders.efficientnet import EfficientNetConfig, EfficientNetLite0
from saccade.encoders.patches import OverlappingPatchStem, PatchReaderConfig, PatchStem
from saccade.encoders.transformer import TransformerEncoderConfig
from saccade.errors import RecipeError, ShapeError
from saccade.positions import (
    LearnedConfig,
    Relative2dConfig,
    RelativeConfig,
    RotaryConfig,
    Sinusoidal,
    SinusoidalConfig,
)
from saccade.positions.base import Grid
from saccade.positions.config import sized

SMALL = TransformerEncoderConfig(num_layers=1, num_heads=2, hidden_dim=8, position=LearnedConfig())


@pytest.mark.parametrize("size", [16, 28, 30])
@pytest.mark.parametrize("stem_stride", [1, 2])
def test_the_grid_of_a_resnet_is_predicted_by_its_options(size, stem_stride):
    config = ResNetConfig(channels=1, widths=(3, 4, 5), blocks=1, stem_stride=stem_stride)
    grid = config.build().stem.network(torch.randn(1, 1, size, size))
    assert tuple(grid.shape[1:]) == (config.memory_dim, *config.grid(size))


@pytest.mark.parametrize("size", [33, 64])
def test_the_grid_of_efficientnet_is_predicted_by_its_options_C1(size):
    config = EfficientNetConfig(fine_tune=True)
    with torch.no_grad():
        grid = EfficientNetLite0().eval()(torch.randn(1, 3, size, size))
    assert tuple(grid.shape[1:]) == (config.memory_dim, *config.grid(size))
    assert isinstance(config.build().stem.network, EfficientNetLite0)
    assert isinstance(EfficientNetConfig().build().stem.network, FeatureMap)


def test_cells_of_a_grid_get_their_positions():
    plain, position = GridEncoder(FeatureMap(8)), Sinusoidal(8)
    encoder = GridEncoder(FeatureMap(8), position=position)
    features = torch.randn(2, 8, 3, 4)
    expected = position.embed(plain(features).states, Grid.of(3, 4))
    torch.testing.assert_close(encoder(features).states, expected)
    torch.testing.assert_close(encoder(features).summary, expected.mean(1))


def test_overlapping_patches_have_the_same_grid():
    for stem in (PatchStem(8, 4, 1), OverlappingPatchStem(8, 4, 1)):
        x, places = stem(torch.randn(2, 1, 12, 8))
        assert x.shape == (2, 7, 8)
        assert places.rows.tolist() == [-1, 0, 0, 1, 1, 2, 2]
    image = torch.randn(1, 1, 12, 8)
    changed = image.clone()
    changed[..., 3, 0] += 5  # the last row of pixels in the first row of patches
    apart, over = PatchStem(8, 4, 1), OverlappingPatchStem(8, 4, 1)
    over.early[1] = over.early[4] = torch.nn.Identity()  # norms read the complete image,
    over.early[2] = over.early[5] = torch.nn.Identity()  # and a ReLU may hide a change
    moved = [
        (stem.cells(changed) - stem.cells(image)).abs().sum(1)[0] > 1e-7 for stem in (apart, over)
    ]
    assert moved[0].nonzero().tolist() == [[0, 0]]
    assert moved[1].nonzero().tolist() == [[0, 0], [1, 0]]
    with pytest.raises(ShapeError, match="takes images of 1 channel, got 3"):
        over(torch.randn(1, 3, 12, 8))
    with pytest.raises(ShapeError, match="cannot be divided into patches"):
        over(torch.randn(1, 1, 10, 8))
    with pytest.raises(ShapeError, match="too narrow"):
        OverlappingPatchStem(2, 16)


def test_positions_get_the_grid_of_the_image():
    config = PatchReaderConfig(encoder=SMALL, dim=8, patch_size=4).sized(12)
    assert config.encoder.position.grid == (3, 3)
    assert config.build()(torch.randn(1, 3, 12, 12)).states.shape == (1, 9, 8)
    assert config.make_encoder(class_token=True)(torch.randn(1, 3, 12, 12)).states.shape[1] == 10
    assert sized(RotaryConfig(), (3, 3)) == RotaryConfig()
    assert sized(Relative2dConfig(grid=(4, 3)), (3, 3)).grid == (4, 3)
    with pytest.raises(RecipeError, match="3 x 3 cells"):
        sized(LearnedConfig(grid=(3, 2)), (3, 3))
    with pytest.raises(RecipeError, match="works on text only"):
        sized(RelativeConfig(), (3, 3))
    learned = ResNetConfig(widths=(4,), blocks=1, position=LearnedConfig())
    assert learned.sized(6).build()(torch.randn(1, 3, 6, 6)).states.shape == (1, 36, 4)


def test_grids_without_self_attention_raise_on_positions_that_act_inside():
    for position in (RotaryConfig(), SinusoidalConfig(fuse="concat")):
        with pytest.raises(RecipeError, match="does not work on the cells of a grid"):
            ResNetConfig(position=position)
    with pytest.raises(RecipeError, match="widths is empty"):
        ResNetConfig(widths=())
