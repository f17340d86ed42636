"""Tests of norms, feed-forward, residuals, embeddings and recurrent networks (H4 to H7, B3)."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from saccade.encoders.transformer import TransformerEncoderLayer
from saccade.errors import ShapeError
from saccade.interfaces import Memory
from saccade.layers.activations import activation, name_of
from saccade.layers.block import BlockConfig
from saccade.layers.embeddings import OutputProjection, TokenEmbedding
from saccade.layers.feed_forward import FeedForward, GatedFeedForward
from saccade.layers.norms import norm
from saccade.layers.recurrent import Recurrent
from saccade.layers.residual import Residual
from saccade.models.pooling import pool

B, N, D = 3, 5, 7


def test_layer_norm_ignores_the_batch_and_batch_norm_does_not_H5():
    """Layer norm is per token, over its features (M11)."""
    x = torch.randn(B, N, D)
    by_layer, by_batch = norm("layer", D), norm("batch", D)
    torch.testing.assert_close(by_layer(x)[:1], by_layer(x[:1]), atol=1e-6, rtol=0)
    assert (by_batch(x)[:1] - by_batch(x[:1])).abs().max() > 1e-2
    assert by_layer(x).mean(-1).abs().max() < 1e-6
    assert by_batch(x).mean((0, 1)).abs().max() < 1e-6


def test_rms_norm_equals_torch_and_keeps_the_mean():
    x = torch.randn(B, N, D)
    twin, ours = nn.RMSNorm(D, eps=1e-3), norm("rms", D, 1e-3)
    nn.init.normal_(twin.weight)
    ours.load_state_dict(twin.state_dict())
    expected = x / (x.square().mean(-1, keepdim=True) + 1e-3).sqrt() * twin.weight
    torch.testing.assert_close(ours(x), expected)
    torch.testing.assert_close(ours(x), twin(x))
    assert norm("layer", D, bias=False).bias is None


def test_pre_and_post_norm_equal_their_formulas_H4():
    x, part = torch.randn(B, N, D), nn.Linear(D, D)
    pre, post = Residual(D, "pre"), Residual(D, "post")
    layer_norm = nn.LayerNorm(D)
    torch.testing.assert_close(pre(x, part), x + part(layer_norm(x)))
    torch.testing.assert_close(post(x, part), layer_norm(x + part(x)))


def test_stochastic_depth_drops_complete_examples_in_training_only():
    x, part = torch.randn(400, N, D), nn.Linear(D, D)
    residual = Residual(D, "pre", skip=0.25)
    added = residual.train()(x, part) - x
    plain = residual.eval()(x, part) - x
    left_out = (added == 0).all(2).all(1)
    assert 0.15 < left_out.float().mean() < 0.35
    torch.testing.assert_close(added[~left_out], plain[~left_out] / 0.75, atol=1e-5, rtol=1e-4)
    assert "skip" not in dict(Residual(D).named_parameters())


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("relu", F.relu),
        ("relu_squared", lambda x: F.relu(x) * F.relu(x)),
        ("gelu", F.gelu),
        ("gelu_tanh", lambda x: F.gelu(x, approximate="tanh")),
        ("silu", F.silu),
        ("tanh", torch.tanh),
    ],
)
def test_feed_forward_equals_two_layers_with_an_activation_H6(name, function):
    network, x = FeedForward(D, 11, name), torch.randn(B, N, D)
    expected = network.narrow(function(network.widen(x)))
    torch.testing.assert_close(network(x), expected)


@pytest.mark.parametrize("bias", [True, False])
def test_a_gated_feed_forward_multiplies_two_layers(bias):
    network, x = GatedFeedForward(D, 11, "silu", bias=bias), torch.randn(B, N, D)
    shape = {name: tuple(value.shape) for name, value in network.named_parameters()}
    assert shape["gate.weight"] == shape["widen.weight"] == (11, D)
    assert ("gate.bias" in shape) == ("widen.bias" in shape) == ("narrow.bias" in shape) == bias
    widened, gate = (F.linear(x, m.weight, m.bias) for m in (network.widen, network.gate))
    torch.testing.assert_close(network(x), network.narrow(F.silu(widened) * gate))


def test_names_of_torch_activations():
    for name in ("relu", "relu_squared", "gelu", "gelu_tanh", "silu"):
        assert name_of(activation(name)) == name
    assert name_of(F.relu) == "relu"
    with pytest.raises(ShapeError, match="no counterpart"):
        name_of(torch.sin)


def test_embedding_scales_and_adds_segments_H7():
    """Scaled embeddings are multiplied by the root of their width (M14)."""
    tokens, segments = torch.randint(0, 13, (B, N)), torch.randint(0, 2, (B, N))
    plain, scaled = TokenEmbedding(13, D), TokenEmbedding(13, D, scale=True)
    torch.testing.assert_close(plain(tokens), plain.weight[tokens])
    torch.testing.assert_close(scaled(tokens), scaled.weight[tokens] * D**0.5)
    paired = TokenEmbedding(13, D, num_segments=2)
    table = paired.segments.weight
    torch.testing.assert_close(paired(tokens, segments), paired.weight[tokens] + table[segments])
    torch.testing.assert_close(paired(tokens), paired.weight[tokens] + table[0])
    with pytest.raises(ShapeError, match="num_segments=0"):
        plain(tokens, segments)


def test_output_can_share_the_embedding():
    """The output projection (H7)."""
    embedding = TokenEmbedding(13, D)
    output = OutputProjection(D, 13, tied=embedding, bias=True)
    assert output.weight is embedding.weight
    x = torch.randn(B, D)
    torch.testing.assert_close(output(x), x @ embedding.weight.T)
    with pytest.raises(ShapeError, match=r"11 tokens of width 7 .* 13 tokens of width 7"):
        OutputProjection(D, 11, tied=embedding)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
def test_recurrent_equals_torch(kind, bidirectional):
    twin = kind(D, 4, 2, batch_first=True, bidirectional=bidirectional)
    ours, x = Recurrent.from_torch(twin), torch.randn(B, N, D)
    states, last = ours(x)
    expected, expected_last = twin(x)
    torch.testing.assert_close(states, expected, atol=1e-6, rtol=1e-5)
    expected_last = expected_last if kind is nn.LSTM else (expected_last,)
    assert len(last) == ours.num_parts
    for part, expected_part in zip(last, expected_last, strict=True):
        torch.testing.assert_close(part, expected_part, atol=1e-6, rtol=1e-5)


def test_recurrent_raises_on_modules_without_a_counterpart():
    for twin in (nn.LSTM(D, 4, proj_size=2), nn.RNN(D, 4, nonlinearity="relu")):
        with pytest.raises(ShapeError, match="no counterpart"):
            Recurrent.from_torch(twin)


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_padding_is_not_read(cell):
    network = Recurrent(cell, D, 4, bidirectional=True)
    x = torch.randn(B, N, D)
    mask = torch.arange(N) < torch.tensor([5, 2, 1])[:, None]
    states, last = network(x, mask=mask)
    for i, n in enumerate((5, 2, 1)):
        alone, its_last = network(x[i : i + 1, :n])
        torch.testing.assert_close(states[i : i + 1, :n], alone, atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(last[0][:, i : i + 1], its_last[0], atol=1e-6, rtol=1e-5)
    assert (states[~mask] == 0).all()


def test_the_backward_direction_reads_backwards_B3():
    network = Recurrent("gru", D, 128, bidirectional=True)
    x = torch.randn(B, N, D)
    states, _ = network(x)
    assert states.shape == (B, N, 256)
    forwards = Recurrent("gru", D, 128)
    weights = network.network.state_dict()
    forwards.network.load_state_dict(
        {name: weights[f"{name}_reverse"] for name in forwards.network.state_dict()}
    )
    expected = forwards(x.flip(1))[0].flip(1)
    torch.testing.assert_close(states[..., 128:], expected, atol=1e-6, rtol=1e-5)


def test_raises_on_padding_in_front_and_on_empty_rows():
    network, x = Recurrent("gru", D, 4), torch.randn(2, 3, D)
    with pytest.raises(ShapeError, match="row 1 of the batch is empty"):
        network(x, mask=torch.tensor([[True, True, False], [False] * 3]))
    with pytest.raises(ShapeError, match="padding at the end only"):
        network(x, mask=torch.tensor([[False, True, True], [True] * 3]))


def test_pooling_kinds():
    states, mask = torch.randn(2, 3, D), torch.tensor([[True, True, False], [True] * 3])
    memory = Memory(states, mask, summary=torch.randn(2, 4))
    assert torch.equal(pool(memory, "first"), states[:, 0])
    torch.testing.assert_close(pool(memory, "mean")[0], states[0, :2].mean(0))
    torch.testing.assert_close(pool(memory, "mean")[1], states[1].mean(0))
    assert torch.equal(pool(memory, "summary"), memory.summary)
    torch.testing.assert_close(Memory(states).pooled(), states.mean(1))


def test_a_block_with_zero_outputs_begins_as_the_identity():
    x = torch.randn(B, N, 6)
    config = BlockConfig(num_heads=2, hidden_dim=11, zero_outputs=True)
    layer = TransformerEncoderLayer(6, config).eval()
    torch.testing.assert_close(layer(x), x)
    layer(x).square().sum().backward()
    assert layer.feed_forward.narrow.weight.grad.abs().sum() > 0
