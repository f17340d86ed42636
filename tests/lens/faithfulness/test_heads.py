"""Entropy and divergence of heads by hand, and silencing one of them."""

import numpy as np
import pytest
import torch

from saccade.attention import Additive, Attend, MultiHeadAttention
from saccade.errors import WatchError
from saccade.lens.faithfulness.heads import divergence, entropy, without_head


def test_entropy_by_hand():
    """One token: 0 bits; two alike: 1; four alike: 2; nothing seen: 0."""
    one = [[1.0, 0, 0, 0], [0.5, 0.5, 0, 0]]
    other = [[0.25] * 4, [0.0] * 4]
    np.testing.assert_allclose(entropy(np.array([one, other])), [0.5, 1.0])


def test_divergence_by_hand():
    """Apart: 1 bit; alike: 0; (1, 0) against (½, ½): H(¾, ¼) - ½ = 0.3113."""
    weights = np.array([[[1.0, 0.0]], [[0.0, 1.0]], [[0.5, 0.5]], [[1.0, 0.0]]])
    found = divergence(weights)
    assert found[0, 1] == pytest.approx(1.0)
    assert found[0, 2] == pytest.approx(0.311278, abs=1e-6)
    assert found[0, 3] == 0.0
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_array_equal(np.diag(found), 0)


def test_a_silenced_head_gives_nothing_and_is_heard_again():
    torch.manual_seed(0)
    attention = MultiHeadAttention(6, 3)
    x = torch.randn(2, 5, 6)
    whole = attention(x)
    with without_head(attention, "", 1):
        silenced = attention(x)
    assert not torch.allclose(silenced, whole)
    torch.testing.assert_close(attention(x), whole)
    with torch.no_grad():
        attention.out_proj.weight[:, 2:4] = 0  # the head's part of the output projection
    torch.testing.assert_close(attention(x), silenced)


def test_an_attention_without_heads_has_head_0():
    attend = Attend(Additive(3, 3, 4))
    query, keys = torch.randn(2, 2, 3), torch.randn(2, 5, 3)
    with without_head(attend, "", 0):
        assert not attend(query, keys, keys).any()
    assert attend(query, keys, keys).any()


def test_what_there_is_not_is_named_and_nothing_stays_silenced():
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
