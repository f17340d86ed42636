"""Tests of the general attention layer (D1, D4, D6)."""

import pytest
import torch
from torch import nn

import saccade
from saccade.attention import AttentionLayer, masks
from saccade.errors import MaskError, ShapeError
from tests.variants import SCORES, strengthen

B, M, N, Q, K, V, OUT = 2, 3, 5, 7, 11, 13, 17
REAL = torch.arange(N) < torch.tensor([5, 2])[:, None]


def layer_of(score="scaled_dot", **options):
    layer = AttentionLayer(Q, K, V, OUT, score=SCORES[score](Q, Q), **options)
    strengthen(layer.attend)
    return layer.eval()


def by_hand(layer, query, memory, values, real):
    """Return the output and the weights from the formula, one query at a time."""
    outputs, weights = torch.zeros(len(query), OUT), torch.zeros(len(query), len(memory))
    for j, q in enumerate(query):
        scores = [layer.attend.score(q[None], layer.key_proj(x)[None])[0, 0] for x in memory[real]]
        exponents = torch.stack(scores).double().exp()
        weights[j, real] = (exponents / exponents.sum()).float()
        for weight, y in zip(weights[j], values, strict=True):
            outputs[j] += weight * (layer.value_proj.weight @ y)
    return outputs, weights


@pytest.mark.parametrize("score", SCORES)
@torch.no_grad()
def test_the_output_is_that_of_the_formula_D1(score):
    """M queries over N inputs give M x D_v; D_v, D_k and the widths of the inputs are free."""
    layer = layer_of(score)
    query, memory, values = torch.randn(B, M, Q), torch.randn(B, N, K), torch.randn(B, N, V)
    fused = layer(query, memory, values, mask=masks.padding(REAL))
    with saccade.watch(layer) as seen:
        explicit = layer(query, memory, values, mask=masks.padding(REAL))
    assert fused.shape == (B, M, OUT)
    for i in range(B):
        output, weights = by_hand(layer, query[i], memory[i], values[i], REAL[i])
        torch.testing.assert_close(fused[i], output, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(explicit[i], output, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(seen[""].weights[i, 0], weights, atol=1e-5, rtol=1e-4)
        assert (seen[""].weights[i, 0][:, ~REAL[i]] == 0).all()


@torch.no_grad()
def test_one_head_of_torch_with_kdim_and_vdim_D1():
    layer = AttentionLayer(Q, K, V, Q, bias=True)
    torchs = nn.MultiheadAttention(Q, 1, kdim=K, vdim=V, batch_first=True).eval()
    torchs.q_proj_weight.copy_(torch.eye(Q))
    torchs.out_proj.weight.copy_(torch.eye(Q))
    torchs.k_proj_weight.copy_(layer.key_proj.weight)
    torchs.v_proj_weight.copy_(layer.value_proj.weight)
    torchs.in_proj_bias.copy_(
        torch.cat((torch.zeros(Q), layer.key_proj.bias, layer.value_proj.bias))
    )
    query, memory, values = torch.randn(B, M, Q), torch.randn(B, N, K), torch.randn(B, N, V)
    expected, weights = torchs(query, memory, values, key_padding_mask=~REAL)
    with saccade.watch(layer) as seen:
        output = layer(query, memory, values, mask=masks.padding(REAL))
    torch.testing.assert_close(output, expected, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(seen[""].weights[:, 0], weights, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("score", SCORES)
@torch.no_grad()
def test_permuted_inputs_leave_the_output_unchanged_D1(score):
    layer, order = layer_of(score), torch.randperm(N)
    query, memory, values = torch.randn(M, Q), torch.randn(N, K), torch.randn(N, V)
    output = layer(query, memory[order], values[order])
    torch.testing.assert_close(output, layer(query, memory, values), atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_a_grid_equals_its_cells_in_a_row_D4():
    """H x W features are stretched to N = H · W vectors."""
    layer = AttentionLayer(Q, K, out_dim=OUT)
    query, grid = torch.randn(B, M, Q), torch.randn(B, 3, 4, K)
    flat = grid.reshape(B, 12, K)
    real = torch.rand(B, 3, 4) > 0.4
    assert torch.equal(layer(query, grid), layer(query, flat))
    assert torch.equal(layer(query[0], grid[0]), layer(query[0], flat[0]))
    mask = masks.padding(real.flatten(1))
    assert torch.equal(layer(query, grid, mask=mask), layer(query, flat, mask=mask))


@torch.no_grad()
def test_any_leading_axes_which_broadcast_D1():
    layer = layer_of()
    query, memory = torch.randn(2, 4, M, Q), torch.randn(2, 1, N, K)
    values = torch.randn(2, 1, N, V)
    output = layer(query, memory, values)
    assert output.shape == (2, 4, M, OUT)
    alone = layer(query[1, 3], memory[1, 0], values[1, 0])
    torch.testing.assert_close(output[1, 3], alone, atol=1e-6, rtol=1e-5)
    shared = layer(query[:1, :1], memory, values)
    torch.testing.assert_close(
        shared[1, 0], layer(query[0, 0], memory[1, 0], values[1, 0]), atol=1e-6, rtol=1e-5
    )


@torch.no_grad()
def test_self_attention_is_the_layer_with_queries_from_its_inputs_D6():
    layer, query_proj, x = AttentionLayer(Q, K, out_dim=OUT), nn.Linear(K, Q), torch.randn(B, N, K)
    q, k, v = query_proj(x), layer.key_proj(x), layer.value_proj(x)
    expected = nn.functional.scaled_dot_product_attention(q, k, v)
    torch.testing.assert_close(layer(q, x), expected, atol=1e-6, rtol=1e-5)


def test_defaults_and_gradients():
    layer = AttentionLayer(Q, dropout=0.1)
    x = torch.randn(B, N, Q, requires_grad=True)
    output = layer(x, x)
    assert output.shape == (B, N, Q)
    output.sum().backward()
    assert x.grad.isfinite().all()
    assert all((parameter.grad != 0).any() for parameter in layer.parameters())
    assert [name for name, _ in layer.named_parameters()] == [
        "key_proj.weight",
        "value_proj.weight",
    ]


def test_what_does_not_fit_is_rejected():
    layer = AttentionLayer(Q, K, V, OUT)
    query, memory, values = torch.randn(B, M, Q), torch.randn(B, N, K), torch.randn(B, N, V)
    with pytest.raises(ShapeError, match=r"values of width 13, got 11"):
        layer(query, memory)
    with pytest.raises(ShapeError, match=r"query of width 7, got 11"):
        layer(memory, memory, values)
    with pytest.raises(ShapeError, match=r"memory must have 2 axes like the queries, or 3"):
        layer(query[0], memory[None], values[None])
    with pytest.raises(ShapeError, match=r"'cubic' is not a score; use one of: dot, scaled_dot"):
        AttentionLayer(Q, score="cubic")
    with pytest.raises(MaskError):
        layer(query, memory, values, mask=masks.padding([9, 9]))
