"""Entropy and divergence of heads by hand, and ablation of a head."""

import numpy as np
import pytest
import torch

from saccade.attention import Additive, Attend, MultiHeadAttention
from saccade.errors import WatchError
from saccade.lens.faithfulness.heads import divergence, entropy, without_head


def test_entropy_by_hand():
    """One token: 0 bits; two equally: 1; four equally: 2; nothing seen: 0."""
    one = [[1.0, 0, 0, 0], [0.5, 0.5, 0, 0]]
    other = [[0.25] * 4, [0.0] * 4]
    np.testing.assert_allclose(entropy(np.array([one, other])), [0.5, 1.0])


def test_divergence_by_hand():
    """Disjoint: 1 bit; equal: 0; (1, 0) against (½, ½): H(¾, ¼) - ½ = 0.3113."""
    weights = np.array([[[1.0, 0.0]], [[0.0, 1.0]], [[0.5, 0.5]], [[1.0, 0.0]]])
    divergences = divergence(weights)
    assert divergences[0, 1] == pytest.approx(1.0)
    assert divergences[0, 2] == pytest.approx(0.311278, abs=1e-6)
    assert divergences[0, 3] == 0.0
    np.testing.assert_array_equal(divergences, divergences.T)
    np.testing.assert_array_equal(np.diag(divergences), 0)


def test_an_ablated_head_contributes_nothing_inside_the_block_only():
    torch.manual_seed(0)
    attention = MultiHeadAttention(6, 3)
    x = torch.randn(2, 5, 6)
    complete = attention(x)
    with without_head(attention, "", 1):
        ablated = attention(x)
    assert not torch.allclose(ablated, complete)
    torch.testing.assert_close(attention(x), complete)
    with torch.no_grad():
        attention.out_proj.weight[:, 2:4] = 0  # the columns of the output projection for this head
    torch.testing.assert_close(attention(x), ablated)


def test_an_attention_without_heads_has_head_0():
    attend = Attend(Additive(3, 3, 4))
    query, keys = torch.randn(2, 2, 3), torch.randn(2, 5, 3)
    with without_head(attend, "", 0):
        assert not attend(query, keys, keys).any()
    assert attend(query, keys, keys).any()


def test_raises_on_unknown_heads_and_layers_and_removes_its_hook():
    attention = MultiHeadAttention(6, 3)
    x = torch.randn(1, 2, 6)
    with pytest.raises(WatchError, match="has no head 3"), without_head(attention, "", 3):
        attention(x)
    assert not attention.attend._forward_hooks
    with pytest.raises(WatchError, match="no attention named 'other'"):
        without_head(attention, "other", 0).__enter__()
    attend = Attend(Additive(3, 3, 4))
    with pytest.raises(WatchError, match="has no head 1"), without_head(attend, "", 1):
        attend(torch.randn(2, 3), torch.randn(4, 3), torch.randn(4, 3))
