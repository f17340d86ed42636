"""Tests of scores against their formulas, written out by hand (checklist A1 to A6, A11)."""

import math

import pytest
import torch
from torch.nn import functional as F

from saccade.attention import (
    Additive,
    Cosine,
    Dot,
    FactoredScore,
    General,
    LowRank,
    ScaledDot,
)
from saccade.errors import ShapeError
from tests.variants import FACTORED, SCORES, WIDTHS_MAY_DIFFER

B, Q, K, D, E = 2, 5, 7, 11, 13


def test_dot_equals_the_sum_of_products_A1():
    query, keys = torch.randn(B, Q, D), torch.randn(B, K, D)
    expected = (query[:, :, None] * keys[:, None]).sum(-1)
    torch.testing.assert_close(Dot()(query, keys), expected, atol=1e-6, rtol=1e-6)


def test_cosine_ignores_length_and_accepts_zero_vectors_A2():
    query, keys = torch.randn(B, Q, D), torch.randn(B, K, D)
    score = Cosine()(query, keys)
    assert score.abs().max() <= 1 + 1e-6
    torch.testing.assert_close(score, F.cosine_similarity(query[:, :, None], keys[:, None], dim=-1))
    for c in (1e-6, 0.3, 1e6):
        torch.testing.assert_close(Cosine()(c * query, keys), score)
        torch.testing.assert_close(Cosine()(query, c * keys), score)
    query = torch.zeros(1, D, requires_grad=True)
    zero = Cosine()(query, keys[0])
    assert (zero == 0).all()
    zero.sum().backward()
    assert query.grad.isfinite().all()
    assert query.grad.abs().max() < 100


def test_scaled_dot_divides_by_the_root_of_the_width_A3():
    query, keys, values = torch.randn(B, 3, Q, D), torch.randn(B, 3, K, D), torch.randn(B, 3, K, D)
    weights = ScaledDot()(query, keys).softmax(-1)
    expected = F.scaled_dot_product_attention(query, keys, values)
    torch.testing.assert_close(weights @ values, expected, atol=1e-6, rtol=1e-5)


def test_general_has_one_matrix_A4():
    score = General(500, 300)
    assert sum(p.numel() for p in score.parameters()) == 150_000
    query, keys = torch.randn(Q, 500), torch.randn(K, 300)
    by_hand = torch.einsum("qd,de,ke->qk", query, score.query_proj.weight.T, keys)
    torch.testing.assert_close(score(query, keys), by_hand, atol=1e-4, rtol=1e-4)


def test_low_rank_equals_general_with_a_product_of_thin_matrices_A5():
    score = LowRank(500, 300, 32)
    assert sum(p.numel() for p in score.parameters()) == 25_600
    general = General(500, 300)
    product = score.key_proj.weight.T @ score.query_proj.weight
    assert torch.linalg.matrix_rank(product) <= 32
    with torch.no_grad():
        general.query_proj.weight.copy_(product)
    query, keys = torch.randn(Q, 500), torch.randn(K, 300)
    torch.testing.assert_close(score(query, keys), general(query, keys), atol=1e-5, rtol=1e-5)


def test_additive_equals_the_loop_over_pairs_A6():
    score = Additive(500, 300, 64)
    assert sum(p.numel() for p in score.parameters()) == 51_264
    query, keys = torch.randn(Q, 500), torch.randn(K, 300)
    by_hand = torch.empty(Q, K)
    for i in range(Q):
        for j in range(K):
            hidden = score.query_proj.weight @ query[i] + score.key_proj.weight @ keys[j]
            by_hand[i, j] = score.energy.weight[0] @ hidden.tanh()
    torch.testing.assert_close(score(query, keys), by_hand, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", FACTORED)
def test_factored_scores_equal_the_dot_product_of_their_factors(name):
    score = SCORES[name](D, D)
    query, keys = torch.randn(B, 3, Q, D), torch.randn(B, 3, K, D)
    assert isinstance(score, FactoredScore)
    prepared = score.prepare(keys)
    factored = score.factor(query, prepared)
    explicit = (factored.query[..., None, :] * prepared[..., None, :, :]).sum(-1)
    torch.testing.assert_close(score(query, keys), explicit * factored.scale, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("lead", [(), (2,), (2, 3), (2, 3, 2)])
@pytest.mark.parametrize("name", SCORES)
def test_leading_axes_of_any_number_work(name, lead):
    score = SCORES[name](D, D)
    query, keys = torch.randn(*lead, Q, D), torch.randn(*lead, K, D)
    whole = score(query, keys)
    assert whole.shape == (*lead, Q, K)
    flat = [score(a, b) for a, b in zip(query.view(-1, Q, D), keys.view(-1, K, D), strict=True)]
    torch.testing.assert_close(whole.view(-1, Q, K), torch.stack(flat), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", SCORES)
def test_gradcheck_A11(name):
    score = SCORES[name](3, 3).double()
    query = torch.randn(2, 3, 3, dtype=torch.float64, requires_grad=True)
    keys = torch.randn(2, 2, 3, dtype=torch.float64, requires_grad=True)
    parameters = list(score.parameters())
    assert torch.autograd.gradcheck(lambda q, k, *_: score(q, k), (query, keys, *parameters))


@pytest.mark.parametrize("max_elements", [1, 40, 300, 1000])
def test_additive_in_pieces_equals_additive_at_once(max_elements):
    whole = Additive(D, E, 5).double()
    query = torch.randn(B, Q, D, dtype=torch.float64, requires_grad=True)
    keys = torch.randn(B, K, E, dtype=torch.float64, requires_grad=True)
    inputs = (query, keys, *whole.parameters())
    scores = whole(query, keys)
    direction = torch.randn_like(scores)
    expected = torch.autograd.grad(scores, inputs, direction)
    whole.max_elements = max_elements
    pieces = whole(query, keys)
    torch.testing.assert_close(pieces, scores)
    torch.testing.assert_close(torch.autograd.grad(pieces, inputs, direction), expected)


@pytest.mark.parametrize("name", [n for n in SCORES if n not in WIDTHS_MAY_DIFFER])
def test_raises_on_widths_that_must_be_equal(name):
    """A dot product needs queries and keys of one width (M4)."""
    with pytest.raises(ShapeError, match="width 11 and keys of width 13"):
        SCORES[name](D, E)(torch.randn(Q, D), torch.randn(K, E))


@pytest.mark.parametrize("name", WIDTHS_MAY_DIFFER)
def test_raises_on_a_width_that_the_score_was_not_built_for(name):
    score = SCORES[name](D, E)
    assert score(torch.randn(Q, D), torch.randn(K, E)).shape == (Q, K)
    with pytest.raises(ShapeError, match="query width of 11, got 12"):
        score(torch.randn(Q, 12), torch.randn(K, E))
    with pytest.raises(ShapeError, match="key width of 13, got 12"):
        score(torch.randn(Q, D), torch.randn(K, 12))


def test_scaling_keeps_the_variance_at_one_K4():
    for d in (4, 64, 256):
        query, keys = torch.randn(600, d), torch.randn(600, d)
        assert Dot()(query, keys).var().item() == pytest.approx(d, rel=0.05)
        assert ScaledDot()(query, keys).var().item() == pytest.approx(1, rel=0.05)
        assert ScaledDot().factor(query, keys).scale == 1 / math.sqrt(d)
