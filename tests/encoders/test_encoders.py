"""Tests of text and patch encoders against torch.nn, and of padding (H1, I10, B3)."""

import pytest
import torch
from torch import nn

import saccade
from saccade.attention import ScoreConfig
from saccade.config import kinds
from saccade.encoders.patches import PatchStem, patches
from saccade.encoders.recurrent import RecurrentEncoderConfig
from saccade.encoders.stems import TokenStem, VectorStem
from saccade.encoders.transformer import (
    TransformerEncoder,
    TransformerEncoderConfig,
    TransformerEncoderLayer,
)
from saccade.errors import PositionError, ShapeError
from saccade.layers.dropout import Dropout
from saccade.layers.embeddings import TokenEmbedding
from saccade.positions import NoPositionConfig, PositionConfig

B, N, D = 3, 7, 12
SMALL = {"num_layers": 2, "num_heads": 3, "hidden_dim": 17, "dropout": 0.0}
REAL = torch.arange(N) < torch.tensor([7, 4, 1])[:, None]


def randomised(module):
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.3)
    return module


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm_first", [False, True])
def test_layer_equals_torch_H1(norm_first, activation, bias):
    twin = randomised(
        nn.TransformerEncoderLayer(
            D, 3, 17, activation=activation, norm_first=norm_first, batch_first=True, bias=bias
        )
    ).eval()
    ours, x = TransformerEncoderLayer.from_torch(twin), torch.randn(B, N, D)
    assert ours(x).shape == x.shape
    torch.testing.assert_close(ours(x), twin(x), atol=1e-5, rtol=1e-5)
    from saccade.attention import masks

    expected = twin(x, src_key_padding_mask=~REAL)
    torch.testing.assert_close(
        ours(x, mask=masks.padding(REAL))[REAL], expected[REAL], atol=1e-5, rtol=1e-5
    )


@pytest.mark.parametrize("last_norm", [False, True])
def test_stack_equals_torch_H1(last_norm):
    layer = nn.TransformerEncoderLayer(D, 3, 17, batch_first=True, norm_first=last_norm)
    twin = randomised(
        nn.TransformerEncoder(
            layer, 3, norm=nn.LayerNorm(D) if last_norm else None, enable_nested_tensor=False
        )
    ).eval()
    ours, x = TransformerEncoder.from_torch(twin), torch.randn(B, N, D)
    torch.testing.assert_close(ours(x).states, twin(x), atol=1e-5, rtol=1e-5)
    x.requires_grad_()
    direction = torch.randn(B, N, D)
    (got,) = torch.autograd.grad(ours.train()(x).states, x, direction)
    for module in (*ours.modules(), *twin.modules()):
        if isinstance(module, Dropout):
            module.p = 0.0
    assert got.isfinite().all()


POSITIONS = ["none", "sinusoidal", "learned", "relative", "rotary", "complex", "conditional"]
SCORES = ["dot", "scaled_dot", "cosine", "general", "low_rank", "additive"]


def readers():
    for position in POSITIONS:
        yield (
            f"transformer-{position}",
            TransformerEncoderConfig(**SMALL, position=kinds(PositionConfig)[position]()),
        )
    for fuse in ("sinusoidal", "learned"):
        yield (
            f"transformer-{fuse}-concat",
            TransformerEncoderConfig(
                **SMALL, position=kinds(PositionConfig)[fuse](fuse="concat", width=6)
            ),
        )
    for score in SCORES:
        yield (
            f"transformer-{score}",
            TransformerEncoderConfig(**SMALL, norm_order="post", score=kinds(ScoreConfig)[score]()),
        )
    yield "transformer-grouped", TransformerEncoderConfig(**SMALL, num_kv_heads=1)
    for position in ("sinusoidal", "learned", "complex", "conditional"):
        yield (
            f"gru-{position}",
            RecurrentEncoderConfig(dim=5, dropout=0.0, position=kinds(PositionConfig)[position]()),
        )
    for cell in ("rnn", "gru", "lstm"):
        for both in (False, True):
            yield (
                f"{cell}-{both}",
                RecurrentEncoderConfig(
                    cell=cell, dim=5, num_layers=2, bidirectional=both, dropout=0.0
                ),
            )


READERS = dict(readers())


def build(config):
    embedding = TokenEmbedding(19, D - config.position.widening)
    return config.build(TokenStem(embedding), D).eval()


@pytest.mark.parametrize("name", READERS)
def test_padding_and_batch_change_nothing_F2(name):
    encoder, tokens = build(READERS[name]), torch.randint(0, 19, (B, N))
    memory = encoder(tokens, mask=REAL)
    assert memory.states.shape[:2] == (B, N)
    for i, n in enumerate((7, 4, 1)):
        alone = encoder(tokens[i : i + 1, :n])
        torch.testing.assert_close(memory.states[i : i + 1, :n], alone.states, atol=1e-5, rtol=1e-5)
        if memory.summary is not None:
            torch.testing.assert_close(
                memory.summary[i : i + 1], alone.summary, atol=1e-5, rtol=1e-5
            )


@pytest.mark.parametrize("name", READERS)
def test_every_token_reaches_the_summary_B1(name):
    encoder, tokens = build(READERS[name]), torch.randint(0, 18, (1, N))
    before = encoder(tokens).pooled()
    for i in range(N):
        other = tokens.clone()
        other[0, i] = 18
        assert (encoder(other).pooled() - before).abs().max() > 1e-7


def test_every_layer_can_be_watched():
    encoder = build(TransformerEncoderConfig(**SMALL))
    with saccade.watch(encoder) as seen:
        encoder(torch.randint(0, 19, (B, N)), mask=REAL)
    assert list(seen) == ["layers.0.self_attention", "layers.1.self_attention"]
    weights = seen["layers.1.self_attention"].weights
    assert weights.shape == (B, 3, N, N)
    assert (weights[2, ..., 1:] == 0).all()


def test_a_set_of_vectors_has_no_order_I8_I9():
    config = TransformerEncoderConfig(**SMALL, position=NoPositionConfig())
    encoder = config.build(VectorStem(D, input_dim=5), D).eval()
    x, order = torch.randn(B, N, 5), torch.randperm(N)
    torch.testing.assert_close(
        encoder(x[:, order]).states, encoder(x).states[:, order], atol=1e-6, rtol=1e-5
    )


def test_patches_equal_a_convolution_I10():
    stem = PatchStem(32, 16, class_token=False)
    image = torch.randn(2, 3, 224, 224)
    pieces = patches(image, 16)
    assert pieces.shape == (2, 196, 768)
    linear = pieces @ stem.project.weight.flatten(1).T + stem.project.bias
    torch.testing.assert_close(stem(image).x, linear, atol=5e-6, rtol=1e-5)
    first = image[:, :, :16, 16:32].flatten(1)
    assert torch.equal(pieces[:, 1], first)


@pytest.mark.parametrize(
    "kind", ["none", "sinusoidal", "learned", "relative_2d", "rotary", "conditional"]
)
def test_patch_encoders_work_with_every_position_for_images(kind):
    config = TransformerEncoderConfig(
        **SMALL | {"num_heads": 2},
        position=kinds(PositionConfig)[kind]().with_cells((4, 4)),
    )
    encoder = config.build(PatchStem(16, 2), 16).eval()
    image = torch.randn(2, 3, 8, 8)
    states = encoder(image).states
    assert states.shape == (2, 17, 16)
    swapped = torch.cat((image[..., 4:], image[..., :4]), -1)
    moved = (encoder(swapped).states[:, 0] - states[:, 0]).abs().max()
    assert moved < 1e-5 if kind == "none" else moved > 1e-4
    larger = torch.randn(2, 3, 12, 12)
    if kind in ("learned", "relative_2d"):
        with pytest.raises(PositionError):
            encoder(larger)
    else:
        assert encoder(larger).states.shape == (2, 37, 16)


def test_raises_on_images_that_do_not_fit():
    stem = PatchStem(16, 4)
    with pytest.raises(ShapeError, match=r"9 x 8 pixels .* 4 x 4"):
        stem(torch.randn(1, 3, 9, 8))
    with pytest.raises(ShapeError, match="3 channels, got 1"):
        stem(torch.randn(1, 1, 8, 8))
