"""Tests of Attend, fused and explicit (checklist A8, A9, D1 to D6, F1 to F4)."""

import subprocess
import sys

import pytest
import torch
from torch.nn import functional as F

import saccade
from saccade.attention import Additive, Attend, Dot, ScaledDot, masks
from saccade.errors import MaskError, ShapeError
from tests.variants import FACTORED, MASKS, SCORES

B, H, Q, K, D = 2, 3, 5, 7, 8


def test_constant_values_are_returned_unchanged_A8():
    values = torch.randn(D).expand(K, D)
    context = Attend(ScaledDot())(torch.randn(Q, D), torch.randn(K, D), values)
    torch.testing.assert_close(context, values[:1].expand(Q, D))


def test_a_strong_query_looks_up_its_key_A9():
    keys = torch.linalg.qr(torch.randn(D, D)).Q
    values = torch.randn(D, 5)
    context = Attend(Dot())(100 * keys[3:4], keys, values)
    torch.testing.assert_close(context, values[3:4], atol=1e-3, rtol=0)


def test_the_order_of_the_inputs_does_not_matter_D1():
    """The width of the values is free (M4), and one query is invariant to the order (M10)."""
    query, keys, values = torch.randn(Q, D), torch.randn(K, D), torch.randn(K, 13)
    order = torch.randperm(K)
    attend = Attend(ScaledDot())
    assert attend(query, keys, values).shape == (Q, 13)
    torch.testing.assert_close(
        attend(query, keys[order], values[order]), attend(query, keys, values), atol=1e-6, rtol=0
    )


def test_self_attention_without_parameters_D2():
    """With one row per token, the scores compare tokens: they are n × n (M3)."""
    x = torch.randn(Q, D)
    torch.testing.assert_close(Attend(Dot())(x, x, x), (x @ x.T).softmax(-1) @ x)


def test_attention_is_not_linear_in_its_input_M13():
    x = torch.randn(Q, D)
    attend = Attend(ScaledDot())
    assert (attend(2 * x, 2 * x, 2 * x) - 2 * attend(x, x, x)).abs().max() > 1e-2


def test_a_grid_equals_the_list_of_its_cells_D4():
    grid, query = torch.randn(B, D, 4, 6), torch.randn(B, Q, D)
    flat = grid.flatten(2).transpose(1, 2)
    stretched = torch.stack([grid[:, :, i, j] for i in range(4) for j in range(6)], 1)
    attend = Attend(ScaledDot())
    assert torch.equal(attend(query, flat, flat), attend(query, stretched, stretched))


@pytest.mark.parametrize("width", [3, 13])
@pytest.mark.parametrize("lead", [(), (2,), (2, 3), (2, 3, 2)])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("score", SCORES)
def test_fused_equals_explicit(score, mask, lead, width):
    batch = lead[0] if lead else 1
    if not lead and ("padding" in mask or mask == "dense_batch"):
        return  # a mask per item needs a batch
    attend = Attend(SCORES[score](D, D)).double()
    inputs = [torch.randn(*lead, n, w).double() for n, w in ((Q, D), (K, D), (K, width))]
    seen_by = MASKS[mask](batch, Q, K)
    for x in inputs:
        x.requires_grad_()
    fused = attend(*inputs, seen_by)
    with saccade.watch(attend, detach=False) as seen:
        explicit = attend(*inputs, seen_by)
    weights = seen[""].weights
    assert fused.shape == explicit.shape == (*lead, Q, width)
    torch.testing.assert_close(fused, explicit)
    torch.testing.assert_close(
        fused.reshape(-1, Q, width), (weights.reshape(-1, Q, K) @ inputs[2].reshape(-1, K, width))
    )
    direction = torch.randn_like(fused)
    gradients = torch.autograd.grad(fused, inputs, direction)
    expected = torch.autograd.grad(explicit, inputs, direction)
    for gradient, reference in zip(gradients, expected, strict=True):
        assert reference.isfinite().all()
        torch.testing.assert_close(gradient, reference)


def test_leading_axes_broadcast():
    query, memory = torch.randn(B, H, Q, D), torch.randn(K, D)
    attend = Attend(ScaledDot())
    repeated = memory.expand(B, H, K, D)
    torch.testing.assert_close(attend(query, memory, memory), attend(query, repeated, repeated))
    torch.testing.assert_close(
        attend(query[0, 0], repeated, repeated)[1, 2], attend(query[0, 0], memory, memory)
    )


@pytest.mark.parametrize("with_mask", [False, True])
def test_a_bias_is_added_to_the_scores(with_mask):
    query, keys, values = torch.randn(B, H, Q, D), torch.randn(B, H, K, D), torch.randn(B, H, K, D)
    bias = torch.randn(1, H, Q, K, requires_grad=True)
    hidden = torch.rand(B, 1, Q, K) > 0.6
    hidden[1, :, 2] = True
    mask = masks.dense(~hidden) if with_mask else None
    scores = query @ keys.mT / D**0.5 + bias
    if with_mask:
        scores = scores.masked_fill(hidden, -1e30)
    weights = scores.softmax(-1)
    if with_mask:
        weights = weights * ~hidden
    context = Attend(ScaledDot())(query, keys, values, mask, bias)
    torch.testing.assert_close(context, weights @ values, atol=1e-5, rtol=1e-5)
    direction = torch.randn_like(context)
    (got,) = torch.autograd.grad(context, bias, direction)
    (expected,) = torch.autograd.grad(weights @ values, bias, direction)
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("score", SCORES)
def test_a_fully_masked_query_gets_zeros_F4(score, watched):
    attend = Attend(SCORES[score](D, D))
    inputs = [torch.randn(B, H, n, D, requires_grad=True) for n in (Q, K, K)]
    visible = torch.ones(Q, K, dtype=torch.bool)
    visible[2] = False
    if watched:
        with saccade.watch(attend) as seen:
            context = attend(*inputs, masks.dense(visible))
        assert (seen[""].weights[:, :, 2] == 0).all()
    else:
        context = attend(*inputs, masks.dense(visible))
    assert (context[:, :, 2] == 0).all()
    assert context.isfinite().all()
    context.pow(2).sum().backward()
    for x in inputs:
        if x.grad is not None:
            assert x.grad.isfinite().all()
    if inputs[0].grad is not None:
        assert (inputs[0].grad[:, :, 2] == 0).all()


def test_dropout_acts_on_the_weights_in_training_only():
    """Dropout of weights (E7)."""
    values = torch.eye(K).expand(64, K, K)
    query, keys = torch.randn(64, Q, D), torch.randn(64, K, D)
    attend = Attend(ScaledDot(), dropout=0.5)
    with saccade.watch(attend) as seen:
        explicit = attend(query, keys, values)
    for weights in (attend(query, keys, values), explicit):
        dropped = (weights == 0).float().mean().item()
        assert dropped == pytest.approx(0.5, abs=0.05)
        kept = weights != 0
        torch.testing.assert_close(weights[kept], 2 * seen[""].weights[:, 0][kept])
    torch.testing.assert_close(seen[""].weights.sum(-1), torch.ones(64, 1, Q))
    attend.eval()
    torch.testing.assert_close(attend(query, keys, values), seen[""].weights[:, 0])


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_watched_weights_equal_the_softmax(scale):
    query, keys = torch.randn(B, H, Q, D) * scale, torch.randn(B, H, K, D)
    attend = Attend(ScaledDot())
    with saccade.watch(attend) as seen:
        watched = attend(query, keys, keys)
    exact = (query.double() @ keys.double().mT / D**0.5).softmax(-1)
    tolerance = 1e-6 if scale == 1.0 else 1e-5
    torch.testing.assert_close(seen[""].weights.double(), exact, atol=tolerance, rtol=0)
    torch.testing.assert_close(watched, attend(query, keys, keys), atol=tolerance, rtol=0)


def test_nan_scores_stay_nan():
    memory = torch.randn(K, D)
    memory[3, 2] = torch.nan
    attend = Attend(Dot())
    assert attend(torch.randn(1, D), memory, memory).isnan().all()
    with saccade.watch(attend) as seen:
        attend(torch.full((1, D), torch.nan), torch.randn(K, D), torch.randn(K, D))
    assert seen[""].weights.isnan().all()


def test_raises_on_keys_values_and_masks_that_do_not_fit():
    attend = Attend(ScaledDot())
    with pytest.raises(ShapeError, match=r"no keys to attend to.*\(2, 0, 8\)"):
        attend(torch.randn(2, Q, D), torch.randn(2, 0, D), torch.randn(2, 0, D))
    with pytest.raises(ShapeError, match="queries of width 8 and keys of width 9"):
        attend(torch.randn(Q, 8), torch.randn(K, 9), torch.randn(K, 9))


def test_messages_without_run_time_shape_checks():
    """Annotations are checked in tests only; elsewhere our own messages must appear."""
    code = """
import torch
from saccade.attention import Attend, ScaledDot, masks
from saccade.errors import MaskError, ShapeError
x = torch.randn(2, 5, 8)
for call, error, words in (
    (lambda: Attend(ScaledDot())(x, x, x[:, :4]), ShapeError, "5 keys and 4 values"),
    (lambda: Attend(ScaledDot())(x, x, x, torch.ones(5, 5).bool()), MaskError, "masks.dense"),
    (lambda: masks.dense(torch.ones(5, 5)), MaskError, "boolean tensor"),
):
    try:
        call()
    except error as caught:
        assert words in str(caught), caught
    else:
        raise SystemExit(f"no {error.__name__} with {words!r}")
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_additive_stays_within_its_memory():
    """2 048 x 2 048 pairs at width 64 are 1 GiB at once; forward and backward stay under half."""
    code = """
import torch
from saccade.attention import Additive, Attend
from tests.memory import peak_mib
attend = Attend(Additive(32, 32, 64))
x = torch.randn(1, 64, 32, requires_grad=True)
attend(x, x, x).sum().backward()
before = peak_mib()
x = torch.randn(1, 2048, 32, requires_grad=True)
attend(x, x, x).sum().backward()
assert x.grad.isfinite().all()
print(peak_mib() - before)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert 50 < float(done.stdout) < 512


def test_fused_never_builds_the_matrix():
    """The matrix of 8 192 x 8 192 weights of 2 heads would be 512 MiB; no one looks (M8)."""
    code = f"""
import torch
from saccade.attention import Attend, masks
from tests.memory import peak_mib
from tests.variants import SCORES
def run(attend, n):
    x = torch.randn(1, 2, n, 16, requires_grad=True)
    attend(x, x, x, masks.causal()).sum().backward()
attends = [Attend(SCORES[score](16, 16)) for score in {list(FACTORED)!r}]
for attend in attends:
    run(attend, 64)
before = peak_mib()
for attend in attends:
    run(attend, 8192)
    print(peak_mib() - before)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    peaks = dict(zip(FACTORED, map(float, done.stdout.split()), strict=True))
    assert all(1 < peak < 200 for peak in peaks.values()), peaks


def test_gradients_reach_every_parameter_of_additive():
    attend = Attend(Additive(D, D, 5))
    attend(torch.randn(Q, D), torch.randn(K, D), torch.randn(K, D)).sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in attend.parameters())


def test_the_explicit_path_also_raises_on_wrong_masks():
    attend = Attend(Additive(D, D, 5))
    x = torch.randn(2, Q, D)
    with pytest.raises(MaskError, match="does not fit"):
        attend(x, x, x, masks.dense(torch.ones(3, 4).bool()))


def test_equals_plain_softmax():
    query, keys, values = torch.randn(B, H, Q, D), torch.randn(B, H, K, D), torch.randn(B, H, K, 4)
    expected = F.softmax(query @ keys.mT / D**0.5, -1) @ values
    torch.testing.assert_close(Attend(ScaledDot())(query, keys, values), expected)
