"""Tests of MultiHeadAttention against torch and against loops over heads (D3 to D6, E1 to E8)."""

import pytest
import torch
from torch import nn

import saccade
from saccade.attention import General, KeyValueCache, MultiHeadAttention, masks
from saccade.errors import ShapeError
from saccade.positions import Relative, Rotary
from tests.variants import SCORES

B, Q, K, D, H = 3, 5, 7, 12, 4

WIDTHS = {"same": {}, "other": {"kdim": 10, "vdim": 9}, "key": {"kdim": 10, "vdim": D}}
EXTRAS = {
    "plain": {},
    "no_bias": {"bias": False},
    "bias_kv": {"add_bias_kv": True},
    "zero": {"add_zero_attn": True},
    "both": {"add_bias_kv": True, "add_zero_attn": True},
}


def torch_masks(name):
    """Return our mask, torch's attn_mask and torch's key_padding_mask (True = hidden)."""
    dense = torch.rand(Q, K) > 0.5
    dense[:, 0] = True
    lengths = torch.tensor([7, 3, 1])
    padded = torch.arange(K) >= lengths[:, None]
    by_head = torch.rand(B * H, Q, K) > 0.5
    by_head[..., 1] = True
    return {
        "none": (None, None, None),
        "dense": (masks.dense(dense), ~dense, None),
        "padding": (masks.padding(lengths), None, padded),
        "both": (masks.dense(dense) & masks.padding(lengths), ~dense, padded),
        "by_head": (masks.dense(by_head.view(B, H, Q, K)), ~by_head, None),
    }[name]


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("mask", ["none", "dense", "padding", "both", "by_head"])
@pytest.mark.parametrize("extras", EXTRAS)
@pytest.mark.parametrize("widths", WIDTHS)
def test_equals_torch_E2_E4_E5_E7(widths, extras, mask, need_weights):
    twin = nn.MultiheadAttention(D, H, batch_first=True, **WIDTHS[widths], **EXTRAS[extras])
    for name, parameter in twin.named_parameters():
        if "bias" in name:
            nn.init.normal_(parameter)
    ours = MultiHeadAttention.from_torch(twin)
    query = torch.randn(B, Q, D, requires_grad=True)
    memory = torch.randn(B, K, twin.kdim, requires_grad=True)
    values = torch.randn(B, K, twin.vdim, requires_grad=True)
    our_mask, attn_mask, padded = torch_masks(mask)
    with saccade.watch(ours) as seen:
        watched = ours(query, memory, values, mask=our_mask)
    out = ours(query, memory, values, mask=our_mask)
    expected, weights = twin(
        query,
        memory,
        values,
        attn_mask=attn_mask,
        key_padding_mask=padded,
        need_weights=need_weights,
        average_attn_weights=False,
    )
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(watched, out, atol=1e-6, rtol=1e-5)
    if need_weights:
        torch.testing.assert_close(seen[""].weights, weights, atol=1e-6, rtol=1e-5)
    direction = torch.randn_like(out)
    got = torch.autograd.grad(out, (query, memory, values), direction)
    for ours_grad, theirs in zip(
        got, torch.autograd.grad(expected, (query, memory, values), direction), strict=True
    ):
        torch.testing.assert_close(ours_grad, theirs, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("need_weights", [True, False])
def test_causal_self_attention_equals_torch(need_weights):
    twin = nn.MultiheadAttention(D, H, batch_first=True)
    ours = MultiHeadAttention.from_torch(twin)
    x = torch.randn(B, Q, D)
    hidden = nn.Transformer.generate_square_subsequent_mask(Q)
    expected, _ = twin(x, x, x, attn_mask=hidden, is_causal=True, need_weights=need_weights)
    torch.testing.assert_close(ours(x, mask=masks.causal()), expected, atol=1e-5, rtol=1e-5)


def test_from_torch_keeps_mode_precision_and_dropout():
    twin = nn.MultiheadAttention(D, H, dropout=0.3).double().eval()
    ours = MultiHeadAttention.from_torch(twin)
    assert not ours.training
    assert ours.out_proj.weight.dtype == torch.float64
    assert ours.attend.dropout == 0.3


def test_the_number_of_heads_does_not_change_the_number_of_parameters_E2():
    for heads in (1, 4, 8):
        attention = MultiHeadAttention(512, heads)
        assert sum(p.numel() for p in attention.parameters()) == 1_050_624


def test_projection_shapes_E4():
    """The widths of keys and values are those of the inputs; all become 50 wide (M9)."""
    other = MultiHeadAttention(50, 5, key_dim=30, value_dim=40).projection
    assert other.query_proj.weight.shape == (50, 50)
    assert other.key_proj.weight.shape == (50, 30)
    assert other.value_proj.weight.shape == (50, 40)
    assert MultiHeadAttention(50, 5).projection.weight.shape == (150, 50)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("head", ["split", "full"])
def test_heads_equal_separate_attentions_E1_E8(head, score):
    """Each head projects all numbers of its input; the input itself is not split (M5)."""
    head_dim = D if head == "full" else D // H
    attention = MultiHeadAttention(D, H, head=head, score=SCORES[score](head_dim, head_dim))
    assert attention.out_proj.weight.shape == (D, H * head_dim)
    x, memory = torch.randn(B, Q, D), torch.randn(B, K, D)
    weight = attention.projection.weight.view(3, H, head_dim, D)
    read = [
        attention.attend(x @ weight[0, i].T, memory @ weight[1, i].T, memory @ weight[2, i].T)
        for i in range(H)
    ]
    expected = attention.out_proj(torch.cat(read, -1))
    torch.testing.assert_close(attention(x, memory), expected, atol=1e-5, rtol=1e-5)


def test_self_attention_equals_general_attention_on_itself_D6():
    attention = MultiHeadAttention(D, H)
    x = torch.randn(B, Q, D)
    torch.testing.assert_close(attention(x), attention(x, x.clone()), atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(attention(x), attention(x, x, x.clone()), atol=1e-6, rtol=1e-5)


def test_cross_attention_has_the_length_of_the_query_D5():
    """Queries are of the target, keys and values of the source (M9)."""
    attention = MultiHeadAttention(D, H, key_dim=10, value_dim=10)
    memory = torch.randn(B, K, 10, requires_grad=True)
    out = attention(torch.randn(B, Q, D), memory, mask=masks.padding([7, 3, 1]))
    assert out.shape == (B, Q, D)
    out.sum().backward()
    assert (memory.grad[1, 3:] == 0).all()
    assert (memory.grad[2, 1:] == 0).all()
    assert (memory.grad[1, :3] != 0).any()


@pytest.mark.parametrize("num_kv_heads", [1, 2, 4])
def test_groups_of_heads_share_keys_and_values(num_kv_heads):
    attention = MultiHeadAttention(D, H, num_kv_heads=num_kv_heads)
    head_dim, group = D // H, H // num_kv_heads
    full = MultiHeadAttention(D, H)
    weight = attention.projection.weight.split(attention.projection.widths)
    with torch.no_grad():
        keys, values = (
            w.view(num_kv_heads, head_dim, D).repeat_interleave(group, 0).reshape(D, D)
            for w in weight[1:]
        )
        full.projection.weight.copy_(torch.cat((weight[0], keys, values)))
        full.out_proj.load_state_dict(attention.out_proj.state_dict())
    x = torch.randn(B, Q, D)
    torch.testing.assert_close(attention(x), full(x), atol=1e-6, rtol=1e-5)


def test_unbatched_equals_a_batch_of_one_E6():
    attention = MultiHeadAttention(D, H)
    x, memory = torch.randn(Q, D), torch.randn(K, D)
    assert torch.equal(attention(x), attention(x[None])[0])
    assert torch.equal(attention(x, memory), attention(x[None], memory[None])[0])
    with saccade.watch(attention) as seen:
        attention(x, memory, memory.clone(), mask=masks.padding(torch.tensor(3)))
    assert seen[""].weights.shape == (1, H, Q, K)
    assert (seen[""].weights[..., 3:] == 0).all()


def test_watched_shapes_E5():
    twin, x = nn.MultiheadAttention(16, 4, batch_first=True), torch.randn(2, 8, 16)
    attention = MultiHeadAttention.from_torch(twin)
    with saccade.watch(attention) as seen:
        attention(x)
    weights = seen[""].weights
    assert weights.shape == (2, 4, 8, 8)
    _, average = twin(x, x, x, average_attn_weights=True)
    assert average.shape == (2, 8, 8)
    torch.testing.assert_close(weights.mean(1), average, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("extras", ["plain", "bias_kv", "both"])
@pytest.mark.parametrize("position", ["none", "rotary", "relative"])
@pytest.mark.parametrize(
    "heads",
    [{"num_kv_heads": 2}, {}, {"qk_norm": True, "num_kv_heads": 1}],
    ids=["groups", "separate", "normed"],
)
def test_cached_equals_uncached(heads, position, extras):
    attention = MultiHeadAttention(16, 4, **heads, **EXTRAS[extras]).eval()
    where = {"none": None, "rotary": Rotary(4), "relative": Relative(4, 3)}[position]
    x = torch.randn(B, 11, 16)
    with torch.no_grad():
        whole = attention(x, mask=masks.causal(), positions=where)
        cache = KeyValueCache(capacity=2)
        steps = [
            attention(part, mask=masks.causal(), positions=where, cache=cache)
            for part in x.split([3, 1, 1, 4, 2], 1)
        ]
    torch.testing.assert_close(torch.cat(steps, 1), whole, atol=1e-6, rtol=1e-5)
    assert cache.length == 11


@pytest.mark.parametrize("head_dim", [3, 16])
def test_heads_may_have_any_width(head_dim):
    """Self-attention equals its formula (D3), with heads of any width, whose root is the scale of
    the scores, and softmax over the keys (M12).
    """
    attention = MultiHeadAttention(8, 2, head_dim=head_dim).eval()
    x = torch.randn(B, 5, 8)
    maps, biases = attention.projection.weight, attention.projection.bias
    query, keys, values = (x @ maps.T + biases).unflatten(-1, (3, 2, head_dim)).unbind(2)
    scores = torch.einsum("bqhd,bkhd->bhqk", query, keys) / head_dim**0.5
    context = torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), values)
    expected = attention.out_proj(context.flatten(2))
    torch.testing.assert_close(attention(x), expected, atol=1e-6, rtol=1e-5)


def test_qk_norm_equals_the_formula():
    attention = MultiHeadAttention(8, 2, qk_norm=True, norm_eps=1e-3).eval()
    for norm in (attention.query_norm, attention.key_norm):
        torch.nn.init.normal_(norm.weight)
    x = torch.randn(B, 5, 8)
    maps, biases = attention.projection.weight, attention.projection.bias
    query, keys, values = (x @ maps.T + biases).unflatten(-1, (3, 2, 4)).unbind(2)
    query, keys = (
        vectors / (vectors.square().mean(-1, keepdim=True) + 1e-3).sqrt() * norm.weight
        for vectors, norm in ((query, attention.query_norm), (keys, attention.key_norm))
    )
    scores = torch.einsum("bqhd,bkhd->bhqk", query, keys) / 2
    context = torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), values)
    expected = attention.out_proj(context.flatten(2))
    torch.testing.assert_close(attention(x), expected, atol=1e-6, rtol=1e-5)
    memory = torch.randn(B, 7, 8)
    torch.testing.assert_close(attention(x, attention.project(memory)), attention(x, memory))


def test_a_projected_memory_equals_the_memory():
    attention = MultiHeadAttention(D, H, key_dim=10, value_dim=9)
    x, memory, values = torch.randn(B, Q, D), torch.randn(B, K, 10), torch.randn(B, K, 9)
    projected = attention.project(memory, values)
    expected = attention(x, memory, values)
    torch.testing.assert_close(attention(x, projected), expected)
    rows = torch.tensor([2, 0, 0])
    torch.testing.assert_close(
        attention(x[rows], projected.select(rows)), expected[rows], atol=1e-6, rtol=1e-5
    )


def test_a_fully_masked_query_gives_the_output_bias_F4():
    attention = MultiHeadAttention(D, H)
    nn.init.normal_(attention.out_proj.bias)
    x = torch.randn(B, Q, D, requires_grad=True)
    out = attention(x, mask=masks.padding([5, 0, 2]))
    torch.testing.assert_close(out[1], attention.out_proj.bias.expand(Q, D))
    out.sum().backward()
    assert x.grad.isfinite().all()


def test_the_score_can_have_parameters():
    attention = MultiHeadAttention(D, H, score=General(3, 3))
    assert attention(torch.randn(B, Q, D)).shape == (B, Q, D)
    assert "attend.score.query_proj.weight" in attention.state_dict()


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: MultiHeadAttention(10, 3), "dim=10 cannot be split into num_heads=3"),
        (lambda: MultiHeadAttention(10, 0), "num_heads=0"),
        (lambda: MultiHeadAttention(10, 2, head="full", head_dim=3), "head_dim=3 .* 10 wide"),
        (lambda: MultiHeadAttention(12, 4, num_kv_heads=3), "num_heads=4 .* num_kv_heads=3"),
        (lambda: MultiHeadAttention(12, 4)(torch.randn(2, 3, 11)), "query of width 12, got 11"),
        (
            lambda: MultiHeadAttention(12, 4, key_dim=5)(
                torch.randn(2, 3, 12), torch.randn(2, 3, 6)
            ),
            "memory of width 5, got 6",
        ),
        (
            lambda: MultiHeadAttention(12, 4, value_dim=5)(torch.randn(2, 3, 12)),
            "values of width 5, got 12",
        ),
    ],
)
def test_raises_on_sizes_that_do_not_fit_E3(build, words):
    with pytest.raises(ShapeError, match=words):
        build()
