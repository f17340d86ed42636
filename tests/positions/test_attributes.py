"""The class attributes of an encoding describe what it does; models rely on them alone."""

import pytest
import torch

from saccade.config import kinds
from saccade.decoders.transformer import TransformerDecoderConfig
from saccade.encoders.convolutional import ResNetConfig
from saccade.errors import PositionError, RecipeError, SaccadeError
from saccade.models import LanguageModelConfig
from saccade.positions import Grid, PositionConfig, SinusoidalConfig
from saccade.positions.config import sized

DIM, HEAD_DIM, TEXT, IMAGE = 16, 8, torch.arange(6), Grid.of(2, 3)
ALL = kinds(PositionConfig)


def effects(position, places):
    """Return whether it changes tokens, and whether it changes queries, keys or scores."""
    torch.manual_seed(1)
    x, query, keys = (
        torch.randn(2, 6, DIM),
        torch.randn(2, 6, HEAD_DIM),
        torch.randn(2, 6, HEAD_DIM),
    )
    turned = position.rotate(query, keys, places, places)
    bias = position.bias(query, places, places)
    inside = not (torch.equal(turned[0], query) and torch.equal(turned[1], keys) and bias is None)
    return x, position.embed(x, places), inside


@pytest.mark.parametrize("kind", ALL)
def test_class_attributes_describe_what_an_encoding_does(kind):
    options = ALL[kind]()
    encoding = options.encoding
    works = {}
    for name, places in (("text", TEXT), ("grid", IMAGE)):
        config = options if name == "text" else options.with_cells((2, 3))
        try:
            position = config.build(DIM, HEAD_DIM)
            assert type(position) is encoding
            with torch.no_grad():
                x, embedded, inside = effects(position, places)
                assert inside == encoding.acts_inside
                assert embedded.shape[-1] == DIM + position.widening
                other = x.clone()
                other[:, -1] += 1
                moved = (position.embed(other, places) - embedded)[:, :-1].abs().max() > 1e-6
                assert bool(moved) == encoding.mixes_tokens
        except PositionError:
            works[name] = False
        else:
            works[name] = True
    assert works == {"text": encoding.on_text, "grid": encoding.on_grids}
    assert encoding.can_write() == (encoding.on_text and not encoding.mixes_tokens)


@pytest.mark.parametrize("kind", ALL)
def test_models_accept_exactly_the_encodings_that_the_attributes_allow(kind):
    options = ALL[kind]()
    encoding = options.encoding
    decoder = TransformerDecoderConfig(num_layers=1, num_heads=2, hidden_dim=8, position=options)
    cases = [
        (encoding.can_write(), lambda: LanguageModelConfig(decoder=decoder, dim=DIM).build(7)),
        (encoding.on_grids, lambda: sized(options, (2, 3))),
        (not encoding.acts_inside, lambda: ResNetConfig(position=options)),
    ]
    for allowed, build in cases:
        if allowed:
            build()
        else:
            with pytest.raises(
                SaccadeError, match=rf'position.kind = "{kind}".* (use|have) .*none'
            ):
                build()


def test_cells_of_a_grid_keep_their_width():
    with pytest.raises(RecipeError, match=r'position\.fuse = "concat" does not work on the cells'):
        ResNetConfig(position=SinusoidalConfig(fuse="concat"))
