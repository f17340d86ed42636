"""Properties of every score, position, mask and shape (hypothesis samples the shapes)."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import saccade
from saccade.attention import Attend, KeyValueCache, MultiHeadAttention, masks
from tests.variants import MASKS, POSITIONS, SCORES, strengthen

shapes = st.tuples(*(st.integers(1, n) for n in (3, 7, 7)))  # b, q, k
quick = settings(max_examples=15, deadline=None, derandomize=True)
HEAD, HEADS = 4, 2
D = HEAD * HEADS


def attention_over(score, position):
    """Return a function of x (positions, then attention), and its modules."""
    where = strengthen(POSITIONS[position](D, HEAD))
    dim = D + where.widening
    head = dim // HEADS
    where_inside = where if head == HEAD else None
    attention = MultiHeadAttention(dim, HEADS, score=SCORES[score](head, head)).eval()

    def run(x, mask=None, real=None):
        return attention(where(x, real), mask=mask, positions=where_inside)

    return run, attention


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("score", SCORES)
@quick
@given(shape=shapes)
def test_rows_sum_to_one_and_hidden_weights_are_zero(score, mask, shape):
    """Rows of weights are distributions (A8), masked ones too (F3); columns need not be (M1)."""
    b, q, k = shape
    attend = Attend(SCORES[score](D, D))
    seen_by = MASKS[mask](b, q, k)
    with saccade.watch(attend) as seen:
        context = attend(torch.randn(b, q, D), torch.randn(b, k, D), torch.randn(b, k, 3), seen_by)
    weights = seen[""].weights[:, 0]
    visible = None if seen_by is None else seen_by.visible((b, q, k), torch.device("cpu"))
    visible = torch.ones(b, q, k).bool() if visible is None else visible.expand(b, q, k)
    assert (weights[~visible] == 0).all()
    assert (weights >= 0).all()
    assert context.isfinite().all()
    torch.testing.assert_close(weights.sum(-1), visible.any(-1).float(), atol=1e-6, rtol=0)


@pytest.mark.parametrize("position", [p for p in POSITIONS if p != "conditional"])
@pytest.mark.parametrize("score", SCORES)
@quick
@given(n=st.integers(2, 9))
def test_no_gradient_from_the_future_F1(score, position, n):
    run, _ = attention_over(score, position)
    x = torch.randn(2, n, D, requires_grad=True)
    t = n // 2
    (grad,) = torch.autograd.grad(run(x, masks.causal())[:, t - 1].sum(), x)
    assert (grad[:, t:] == 0).all()
    assert (grad[:, :t] != 0).any()


@pytest.mark.parametrize("score", SCORES)
@quick
@given(n=st.integers(2, 9))
def test_without_positions_permuted_tokens_give_permuted_outputs_I8(score, n):
    """Self-attention is equivariant (M10)."""
    run, _ = attention_over(score, "none")
    x, order = torch.randn(2, n, D), torch.randperm(n)
    torch.testing.assert_close(run(x[:, order]), run(x)[:, order], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("position", [p for p in POSITIONS if p != "none"])
def test_with_positions_order_matters_G12(position):
    """ "Mary gives John a flower" and "John gives Mary a flower" have the same words: equal after
    pooling without positions (M10), different with each kind, added or concatenated (G10).
    """
    mary, gives, john, a, flower = torch.randn(5, D)
    one = torch.stack((mary, gives, john, a, flower))[None]
    other = torch.stack((john, gives, mary, a, flower))[None]
    plain, _ = attention_over("scaled_dot", "none")
    torch.testing.assert_close(plain(one).mean(1), plain(other).mean(1), atol=1e-6, rtol=1e-5)
    ordered, _ = attention_over("scaled_dot", position)
    assert (ordered(one).mean(1) - ordered(other).mean(1)).abs().max() > 1e-4


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("score", SCORES)
@quick
@given(n=st.integers(1, 6), pads=st.integers(1, 4))
def test_padding_changes_nothing_F2(score, position, n, pads):
    run, attention = attention_over(score, position)
    x = torch.randn(2, n, D)
    padded = torch.cat((x, 100 * torch.randn(2, pads, D)), 1)
    with saccade.watch(attention) as seen:
        out = run(padded, masks.padding([n, n]), (torch.arange(n + pads) < n).expand(2, -1))
    torch.testing.assert_close(out[:, :n], run(x), atol=1e-5, rtol=1e-5)
    assert (seen[""].weights[..., n:] == 0).all()


@pytest.mark.parametrize("score", SCORES)
@quick
@given(n=st.integers(1, 6))
def test_an_item_does_not_depend_on_its_batch(score, n):
    run, _ = attention_over(score, "sinusoidal")
    x = torch.randn(3, n, D)
    alone = torch.cat([run(item[None]) for item in x])
    torch.testing.assert_close(run(x), alone, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("mask", ["causal", "causal_sliding"])
@pytest.mark.parametrize("position", ["none", "relative", "rotary", "rotary_halves"])
@pytest.mark.parametrize("score", SCORES)
@quick
@given(parts=st.lists(st.integers(1, 4), min_size=1, max_size=4), data=st.data())
def test_cached_equals_uncached(score, position, mask, parts, data):
    where = strengthen(POSITIONS[position](D, HEAD))
    attention = MultiHeadAttention(D, HEADS, score=SCORES[score](HEAD, HEAD)).eval()
    shown = masks.causal() if mask == "causal" else masks.causal() & masks.sliding(3)
    x = torch.randn(2, sum(parts), D)
    cache = KeyValueCache(capacity=data.draw(st.integers(1, 8)))
    with torch.no_grad():
        steps = [attention(p, mask=shown, positions=where, cache=cache) for p in x.split(parts, 1)]
        whole = attention(x, mask=shown, positions=where)
    torch.testing.assert_close(torch.cat(steps, 1), whole, atol=1e-5, rtol=1e-5)
