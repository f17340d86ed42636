"""Tests of watch: exact weights by name, inside the block only."""

import threading

import pytest
import torch
from torch import nn

import saccade
from saccade.attention import Attend, Dot, MultiHeadAttention, ScaledDot, masks
from saccade.attention.attend import one_call
from saccade.attention.watch import count_heads
from saccade.errors import WatchError
from tests.variants import SCORES

D = 8


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attention = MultiHeadAttention(D, 2)
        self.cross = MultiHeadAttention(D, 4)

    def forward(self, x, memory):
        return self.cross(self.self_attention(x), memory)


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(3))

    def forward(self, x, memory):
        for layer in self.layers:
            x = layer(x, memory)
        return x


def fused_calls(monkeypatch):
    calls = []
    original = Attend._fused
    monkeypatch.setattr(Attend, "_fused", lambda *a: calls.append(a[0]) or original(*a))
    return calls


def test_names_are_those_of_the_owning_modules():
    stack = Stack()
    with saccade.watch(stack) as seen:
        stack(torch.randn(2, 3, D), torch.randn(2, 5, D))
    expected = [f"layers.{i}.{name}" for i in range(3) for name in ("self_attention", "cross")]
    assert list(seen.keys()) == expected
    assert len(seen) == 6
    assert "layers.0.cross" in seen
    assert seen["layers.1.cross"].weights.shape == (2, 4, 3, 5)
    assert seen["layers.1.self_attention"].weights.shape == (2, 2, 3, 3)


def test_the_watched_module_itself_has_an_empty_name():
    for module in (MultiHeadAttention(D, 2), Attend(Dot())):
        x = torch.randn(2, 3, D)
        with saccade.watch(module) as seen:
            module(x) if isinstance(module, MultiHeadAttention) else module(x, x, x)
        assert list(seen) == [""]
        assert seen[""].weights.shape[0] == 2


def test_two_attentions_of_one_owner_have_their_own_names():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.near, self.far = Attend(Dot()), Attend(ScaledDot())

    with saccade.watch(nn.Sequential(Two())) as seen:
        pass
    assert list(seen) == ["0.near", "0.far"]


@pytest.mark.parametrize("lead", [(), (2,), (2, 3), (5, 2, 3)])
def test_weights_always_have_batch_and_heads(lead):
    attend = Attend(Dot())
    x = torch.randn(*lead, 4, D)
    with saccade.watch(attend) as seen:
        attend(x, x, x)
    assert seen[""].weights.shape == {0: (1, 1), 1: (2, 1), 2: (2, 3), 3: (10, 3)}[len(lead)] + (
        4,
        4,
    )


def test_calls_keep_their_order():
    attention = MultiHeadAttention(D, 2)
    with saccade.watch(attention) as seen:
        for n in (3, 5, 4):
            attention(torch.randn(1, n, D))
    assert [w.shape[-1] for w in seen[""].calls] == [3, 5, 4]
    assert seen[""].weights is seen[""].calls[-1]


def test_a_loop_over_steps_can_be_recorded_as_one_call():
    attend = Attend(ScaledDot())
    x, memory = torch.randn(2, 4, D), torch.randn(2, 5, D)
    with saccade.watch(attend) as seen:
        attend(x, memory, memory)
        with one_call(attend):
            steps = [attend(q, memory, memory) for q in x.split(1, 1)]
    assert [w.shape for w in seen[""].calls] == [(2, 1, 4, 5)] * 2
    torch.testing.assert_close(seen[""].calls[0], seen[""].calls[1])
    torch.testing.assert_close(torch.cat(steps, 1), attend(x, memory, memory))


def test_prepared_keys_equal_plain_keys():
    for score in SCORES.values():
        attend = Attend(score(D, D))
        x, memory = torch.randn(2, 4, D), torch.randn(2, 5, D)
        torch.testing.assert_close(
            attend(x, attend.prepare(memory), memory), attend(x, memory, memory)
        )


def test_the_fused_kernel_is_used_again_after_the_block(monkeypatch):
    attention, x = MultiHeadAttention(D, 2), torch.randn(1, 3, D)
    calls = fused_calls(monkeypatch)
    attention(x)
    assert len(calls) == 1
    with saccade.watch(attention) as seen:
        attention(x)
    assert len(calls) == 1
    with pytest.raises(RuntimeError, match="on purpose"), saccade.watch(attention):
        raise RuntimeError("on purpose")
    attention(x)
    assert len(calls) == 2
    assert len(seen[""].calls) == 1


def test_nested_blocks_record_separately():
    stack = Stack()
    x, memory = torch.randn(2, 3, D), torch.randn(2, 5, D)
    with saccade.watch(stack) as outer:
        stack(x, memory)
        with saccade.watch(stack.layers[1]) as inner:
            stack(x, memory)
        stack(x, memory)
    assert list(inner) == ["self_attention", "cross"]
    assert len(inner["cross"].calls) == 1
    assert len(outer["layers.1.cross"].calls) == 3
    assert torch.equal(outer["layers.1.cross"].calls[1], inner["cross"].weights)


def test_other_threads_are_not_watched():
    attention, x = MultiHeadAttention(D, 2), torch.randn(1, 3, D)
    with saccade.watch(attention) as seen:
        thread = threading.Thread(target=attention, args=(x,))
        thread.start()
        thread.join()
    assert seen[""].calls == []


def test_only_chosen_layers_leave_the_fused_path(monkeypatch):
    stack = Stack()
    calls = fused_calls(monkeypatch)
    with saccade.watch(stack, layers="layers.*.cross") as seen:
        stack(torch.randn(2, 3, D), torch.randn(2, 5, D))
    assert list(seen) == [f"layers.{i}.cross" for i in range(3)]
    assert len(calls) == 3
    with saccade.watch(stack, layers=["layers.0.cross", "layers.2.self_attention"]) as seen:
        pass
    assert list(seen) == ["layers.0.cross", "layers.2.self_attention"]


def test_only_chosen_heads_are_kept():
    attention, x = MultiHeadAttention(D, 4), torch.randn(2, 3, D)
    with saccade.watch(attention) as everything:
        attention(x)
    with saccade.watch(attention, heads=[3, 0], device="cpu") as some:
        attention(x)
    assert torch.equal(some[""].weights, everything[""].weights[:, [3, 0]])
    assert some[""].weights.untyped_storage().nbytes() == some[""].weights.numel() * 4


def test_weights_are_detached_by_default():
    attention, x = MultiHeadAttention(D, 2), torch.randn(1, 3, D)
    with saccade.watch(attention) as cut:
        attention(x)
    assert not cut[""].weights.requires_grad
    with saccade.watch(attention, detach=False) as kept:
        attention(x)
    kept[""].weights[0, 0, :, 0].sum().backward()
    assert attention.projection.weight.grad.abs().sum() > 0


def test_the_gradient_of_the_output_is_the_same_while_watched():
    attention, x = MultiHeadAttention(D, 2), torch.randn(2, 5, D, requires_grad=True)
    mask = masks.causal()
    (expected,) = torch.autograd.grad(attention(x, mask=mask).pow(2).sum(), x)
    with saccade.watch(attention):
        out = attention(x, mask=mask)
    (got,) = torch.autograd.grad(out.pow(2).sum(), x)
    torch.testing.assert_close(got, expected, atol=1e-6, rtol=1e-5)


def test_raises_on_unknown_names_layers_and_heads():
    stack = Stack()
    with (
        pytest.raises(WatchError, match="Linear contains no attention to watch"),
        saccade.watch(nn.Linear(2, 3)),
    ):
        pass
    with (
        pytest.raises(WatchError, match=r"'nothing'; choose from: 'layers.0.self"),
        saccade.watch(stack, layers="nothing"),
    ):
        pass
    with saccade.watch(stack) as seen:
        pass
    with pytest.raises(WatchError, match=r"'layers.0.cross' was not called"):
        _ = seen["layers.0.cross"].weights
    with pytest.raises(WatchError, match=r"no attention named 'cross'.* choose one of:"):
        _ = seen["cross"]
    attention = MultiHeadAttention(D, 2)
    with (
        pytest.raises(WatchError, match=r"heads=\[7\] do not exist in '', which has 2"),
        saccade.watch(attention, heads=[7]),
    ):
        attention(torch.randn(1, 3, D))


def test_count_heads_equals_the_number_of_recorded_heads():
    model = nn.ModuleDict({"one": MultiHeadAttention(12, 3), "two": Attend(Dot())})
    x = torch.randn(1, 5, 12)
    with saccade.watch(model) as seen:
        model["one"](x)
        model["two"](x, x, x)
    recorded = sum(watched.weights.numel() for watched in seen.values())
    assert count_heads(model) * 5 * 5 == recorded
    assert (count_heads(model, ["one"]), count_heads(model, []), count_heads(nn.ReLU())) == (
        3,
        0,
        0,
    )
