"""Tests of masks: what each shows, how they combine, and what they reject (F1 to F3)."""

import pytest
import torch

from saccade.attention import Attend, ScaledDot, masks
from saccade.errors import MaskError

CPU = torch.device("cpu")


def shown(mask, *shape):
    visible = mask.visible(shape, CPU)
    everything = torch.ones(shape, dtype=torch.bool)
    return everything if visible is None else visible.expand(shape)


def test_causal_is_aligned_at_the_end():
    assert shown(masks.causal(), 3, 3).int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert shown(masks.causal(), 2, 4).int().tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]]
    assert shown(masks.causal(), 3, 2).int().tolist() == [[0, 0], [1, 0], [1, 1]]
    assert masks.causal().visible((1, 9), CPU) is None


def test_causal_detects_when_the_kernels_own_mask_is_equal():
    assert masks.causal().is_start_causal(5, 5)
    assert not masks.causal().is_start_causal(2, 5)
    assert not (masks.causal() & masks.padding([5])).is_start_causal(5, 5)


def test_sliding_shows_keys_less_than_window_places_away():
    assert shown(masks.sliding(2), 4, 4).int().tolist() == [
        [1, 1, 0, 0],
        [1, 1, 1, 0],
        [0, 1, 1, 1],
        [0, 0, 1, 1],
    ]
    both = shown(masks.sliding(2) & masks.causal(), 1, 2, 4)
    assert both[0].int().tolist() == [[0, 1, 1, 0], [0, 0, 1, 1]]
    assert masks.sliding(9).visible((4, 4), CPU) is None


@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 5, 3, 4), (2, 7, 5, 3, 4)])
def test_padding_accepts_lengths_or_booleans(shape):
    by_length = shown(masks.padding(torch.tensor([1, 4])), *shape)
    real = torch.tensor([[1, 0, 0, 0], [1, 1, 1, 1]]).bool()
    assert (by_length == shown(masks.padding(real), *shape)).all()
    assert (by_length == shown(masks.padding([1, 4]), *shape)).all()
    assert by_length[0].sum() == by_length[0].numel() // 4
    assert by_length[1].all()


def test_dense_aligns_batch_and_heads():
    marked = torch.rand(2, 3, 4) > 0.5
    assert (shown(masks.dense(marked), 2, 5, 3, 4) == marked[:, None]).all()
    assert (shown(masks.dense(marked[0]), 2, 5, 3, 4) == marked[0]).all()
    by_head = torch.rand(2, 5, 3, 4) > 0.5
    assert (shown(masks.dense(by_head), 2, 5, 3, 4) == by_head).all()


def test_and_shows_what_both_show():
    one, other = torch.rand(3, 4) > 0.3, torch.rand(3, 4) > 0.3
    assert (shown(masks.dense(one) & masks.dense(other), 3, 4) == (one & other)).all()


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (lambda: masks.dense(torch.ones(3, 5).bool()), r"\(3, 5\) does not fit .*\(2, 3, 4\)"),
        (lambda: masks.padding(torch.ones(2, 5).bool()), "covers 5 keys, there are 4"),
        (lambda: masks.padding([1, 2, 3]), r"\(3, 1, 4\) does not fit"),
        (lambda: masks.padding([1, 5]), "length of 5 exceeds the 4 keys"),
        (lambda: masks.padding([1, -5]), "length of -5 is negative"),
        (lambda: masks.padding(torch.tensor([1.0, 2.0])), "integer lengths"),
        (lambda: masks.sliding(0), "window=0"),
        (lambda: masks.dense(torch.ones(4).bool()), "at least"),
    ],
)
def test_raises_on_a_mask_that_does_not_fit(mask, message):
    with pytest.raises(MaskError, match=message):
        Attend(ScaledDot())(
            torch.randn(2, 3, 6), torch.randn(2, 4, 6), torch.randn(2, 4, 6), mask()
        )


def test_dense_raises_on_other_types_than_boolean():
    with pytest.raises(MaskError, match=r"boolean tensor.*float32"):
        masks.dense(torch.ones(3, 4))


def test_multiplying_after_the_softmax_is_not_masking_F3():
    """Masked scores are minus infinity before softmax (M7)."""
    query = keys = torch.randn(6, 8)
    multiplied = (ScaledDot()(query, keys).softmax(-1) * torch.ones(6, 6).tril()).sum(-1)
    assert (multiplied[:-1] < 0.999).all()
    masked = Attend(ScaledDot())._weights(query, keys, masks.causal(), None).sum(-1)
    torch.testing.assert_close(masked, torch.ones(6))
