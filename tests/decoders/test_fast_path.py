"""The fast steps of plain Transformer decoders: equal to the general path, and never stale."""

import copy

import pytest
import torch
from torch import nn

from saccade.attention import CosineConfig
from saccade.attention.watch import watch
from saccade.config import kinds
from saccade.decoders import fast_path
from saccade.decoders.fast_path import FastPath, Linear, sharing
from saccade.decoders.transformer import TransformerDecoderConfig
from saccade.interfaces import Memory
from saccade.layers.embeddings import OutputProjection, TokenEmbedding
from saccade.layers.feed_forward import FeedForward
from saccade.layers.residual import Residual
from saccade.positions import (
    BucketsConfig,
    LearnedConfig,
    NoPositionConfig,
    PositionConfig,
    RelativeConfig,
    RotaryConfig,
    SinusoidalConfig,
)
from saccade.positions.rotary import Rotary
from tests.encoders.test_encoders import randomised

B, S, D, M, V = 4, 5, 12, 10, 19
SMALL = {"num_layers": 2, "num_heads": 2, "hidden_dim": 17}
PLAIN = {
    "pre": {},
    "post": {"norm_order": "post"},
    "gelu": {"activation": "gelu_tanh"},
    "learned": {"position": LearnedConfig()},
    "none": {"position": NoPositionConfig()},
    "concat": {"position": SinusoidalConfig(fuse="concat", width=6)},
    "rotary": {"position": RotaryConfig()},
    "eps": {"norm_eps": 0.1},
    "relu-squared": {"activation": "relu_squared"},
    "no-bias": {"bias": False},
    "full-heads": {"head": "full"},
    "narrow-heads": {"head_dim": 4, "position": RotaryConfig(base=100.0)},
}
OTHERS = {
    "relative": {"position": RelativeConfig()},
    "buckets": {"position": BucketsConfig(num_buckets=6, max_distance=5)},
    "grouped": {"num_kv_heads": 1},
    "cosine": {"score": CosineConfig()},
    "batch-norm": {"norm": "batch"},
    "rms-norm": {"norm": "rms"},
    "gated": {"feed_forward": "gated"},
    "qk-norm": {"qk_norm": True},
}


def build(options, memory_dim):
    torch.manual_seed(0)
    config = TransformerDecoderConfig(**{**SMALL, **options})
    width = D - config.position.widening
    decoder = config.build(TokenEmbedding(V, width), OutputProjection(D, V), D, memory_dim)
    return randomised(decoder).eval()


def memory_of(width):
    real = torch.arange(S) < torch.tensor([5, 3, 1, 2])[:, None]
    return None if width is None else Memory(torch.randn(B, S, width), real)


@torch.no_grad()
def written(decoder, memory, *, fast_path, select=None):
    """Return the logits of a few steps, with rows selected in between as in beam search."""
    state = decoder.start(memory)
    assert state.fast_path is not None
    if not fast_path:
        state = copy.copy(state)
        object.__setattr__(state, "fast_path", None)
    steps = []
    tokens = torch.arange(B)
    for step in range(5):
        logits, state = decoder.step(tokens, state)
        steps.append(logits)
        if select is not None and step == 1:
            state = decoder.select(state, select)
            tokens = tokens[select]
        tokens = (tokens + 3) % V
    return torch.cat(steps)


@pytest.mark.parametrize("memory_dim", [None, D, M], ids=["alone", "same-width", "other-width"])
@pytest.mark.parametrize(
    "select",
    [None, torch.tensor([2, 0]), torch.tensor([0, 0, 1, 1, 3, 3]), torch.tensor([3, 0, 0, 1])],
    ids=["all", "fewer", "shared", "unequal"],
)
@pytest.mark.parametrize("options", PLAIN.values(), ids=PLAIN)
def test_fast_steps_equal_general_steps(options, select, memory_dim):
    decoder = build(options, memory_dim)
    memory = memory_of(memory_dim)
    ours = written(decoder, memory, fast_path=True, select=select)
    torch.testing.assert_close(
        ours, written(decoder, memory, fast_path=False, select=select), atol=1e-5, rtol=1e-5
    )


@pytest.mark.parametrize("options", OTHERS.values(), ids=OTHERS)
def test_other_decoders_take_the_general_path(options):
    assert build(options, D).start(memory_of(D)).fast_path is None


def test_a_fully_masked_row_takes_the_general_path():
    nothing = Memory(torch.randn(2, S, D), torch.tensor([[True] * S, [False] * S]))
    state = build({}, D).start(nothing)
    assert state.fast_path is None


OPTIMIZERS = {
    "adamw-fused": lambda p: torch.optim.AdamW(p, lr=0.1, fused=True),
    "adamw-foreach": lambda p: torch.optim.AdamW(p, lr=0.1, foreach=True),
    "adamw-loop": lambda p: torch.optim.AdamW(p, lr=0.1, foreach=False),
    "adam-fused": lambda p: torch.optim.Adam(p, lr=0.1, fused=True),
    "sgd-fused": lambda p: torch.optim.SGD(p, lr=0.1, fused=True),
    "sgd-foreach": lambda p: torch.optim.SGD(p, lr=0.1, foreach=True),
    "adagrad-fused": lambda p: torch.optim.Adagrad(p, lr=0.1, fused=True),
}


def optimizer_step(make):
    def change(decoder, memory):
        decoder.train()
        optimizer = make(decoder.parameters())
        with torch.enable_grad():
            decoder(torch.arange(3 * B).view(B, 3), memory).square().mean().backward()
        optimizer.step()
        decoder.eval()

    return change


def scale_data(decoder, memory):
    for parameter in decoder.parameters():
        parameter.data.mul_(1.1)


def replace_data(decoder, memory):
    for parameter in decoder.parameters():
        parameter.data = parameter.data * 1.1


def load_other_weights(decoder, memory):
    decoder.load_state_dict({name: 1.1 * value for name, value in decoder.state_dict().items()})


def assign_other_weights(decoder, memory):
    other = {name: 1.1 * value for name, value in decoder.state_dict().items()}
    decoder.load_state_dict(other, assign=True)


@torch.no_grad()
def copy_into(decoder, memory):
    for parameter in decoder.parameters():
        parameter.copy_(1.1 * parameter)


def swap_average(decoder, memory):
    average = torch.optim.swa_utils.AveragedModel(
        decoder, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.5)
    )
    average.update_parameters(decoder)
    scale_data(decoder, memory)
    average.update_parameters(decoder)
    for ours, theirs in zip(decoder.parameters(), average.module.parameters(), strict=True):
        ours.data, theirs.data = theirs.data, ours.data


CHANGES = {name: optimizer_step(make) for name, make in OPTIMIZERS.items()} | {
    change.__name__: change
    for change in (
        scale_data,
        replace_data,
        load_other_weights,
        assign_other_weights,
        copy_into,
        swap_average,
    )
}


@torch.no_grad()
def full_forward(decoder, memory):
    tokens = torch.stack([(torch.arange(B) + 3 * step) % V for step in range(5)], 1)
    return decoder(tokens, memory).transpose(0, 1).flatten(0, 1)


@pytest.mark.parametrize("copies", [True, False], ids=["copies", "no-copies"])
@pytest.mark.parametrize("memory_dim", [None, M], ids=["alone", "memory"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_generation_uses_the_current_weights(change, memory_dim, copies, monkeypatch):
    if copies:
        monkeypatch.setattr(fast_path, "USES_BEFORE_COPY", 0)
        monkeypatch.setattr(fast_path, "LARGE", 0)
    decoder, memory = build({}, memory_dim), memory_of(memory_dim)
    before = written(decoder, memory, fast_path=True)
    for _ in range(2):
        change(decoder, memory)
        ours = written(decoder, memory, fast_path=True)
        assert not torch.allclose(before, ours, atol=1e-3)
        for reference in (written(decoder, memory, fast_path=False), full_forward(decoder, memory)):
            torch.testing.assert_close(ours, reference, atol=1e-4, rtol=1e-4)
        before = ours


def test_training_mode_takes_the_general_path():
    assert build({}, None).train().start().fast_path is None


def test_copies_are_shared_inside_the_block_only():
    decoder = build({}, None)
    layouts = {}
    with sharing(layouts):
        first = decoder.start().fast_path
        assert decoder.start().fast_path is first
    with sharing(layouts):
        assert decoder.start().fast_path is first
    with sharing({}):
        assert decoder.start().fast_path is not first
    assert decoder.start().fast_path is not decoder.start().fast_path


class GatedFeedForward(FeedForward):
    def forward(self, x):
        return self.narrow(self.activation(self.widen(x)).square())


class ScaledResidual(Residual):
    def forward(self, x, part, num_states=None):
        return x + 0.1 * part(self.norm(x))


class LowRankUpdate(nn.Module):
    """A LoRA-like wrapper that still offers `weight` and `bias`."""

    def __init__(self, linear):
        super().__init__()
        self.linear = linear
        self.down = nn.Linear(linear.in_features, 2, bias=False)
        self.up = nn.Linear(2, linear.out_features, bias=False)

    @property
    def weight(self):
        return self.linear.weight

    @property
    def bias(self):
        return self.linear.bias

    def forward(self, x):
        return self.linear(x) + self.up(self.down(x))


class Doubled(nn.Module):
    def forward(self, weight):
        return 2 * weight


def recast(part, cls):
    part.__class__ = cls


def hook(part):
    part.register_forward_hook(lambda module, args, output: 1.5 * output)


def pre_hook(part):
    part.register_forward_pre_hook(lambda module, args: (1.5 * args[0], *args[1:]))


def patch_forward(part):
    forward = part.forward
    part.forward = lambda *args, **options: 1.5 * forward(*args, **options)


UNKNOWN = {
    "feed-forward": lambda d: recast(d.layers[0].feed_forward, GatedFeedForward),
    "residual": lambda d: recast(d.layers[1].around_cross, ScaledResidual),
    "rms-norm": lambda d: setattr(d.layers[1].around_feed_forward, "norm", nn.RMSNorm(D)),
    "norm-without-weights": lambda d: setattr(
        d.layers[0].around_attention, "norm", nn.LayerNorm(D, elementwise_affine=False)
    ),
    "last-norm": lambda d: setattr(d, "norm", nn.RMSNorm(D)),
    "activation": lambda d: setattr(d.layers[0].feed_forward, "activation", nn.PReLU()),
    "lora-widen": lambda d: setattr(
        d.layers[0].feed_forward, "widen", LowRankUpdate(d.layers[0].feed_forward.widen)
    ),
    "lora-out": lambda d: setattr(
        d.layers[1].self_attention, "out_proj", LowRankUpdate(d.layers[1].self_attention.out_proj)
    ),
    "parametrized": lambda d: nn.utils.parametrize.register_parametrization(
        d.layers[0].cross.out_proj, "weight", Doubled()
    ),
    "patched-forward": lambda d: patch_forward(d.layers[0].feed_forward),
    "position": lambda d: setattr(d, "position", recast_rotary()),
}


class TurnedTwice(Rotary):
    def bias(self, query, at_q, at_k):
        return query @ query.mT if at_q.numel() == at_k.numel() else None


def recast_rotary():
    return TurnedTwice(D // 2)


@pytest.mark.parametrize("memory_dim", [D, M], ids=["same-width", "other-width"])
@pytest.mark.parametrize("change", UNKNOWN.values(), ids=UNKNOWN)
def test_unknown_parts_take_the_general_path(change, memory_dim):
    decoder, memory = build({}, memory_dim), memory_of(memory_dim)
    change(decoder)
    assert decoder.start(memory).fast_path is None
    decoder.step(torch.arange(B), decoder.start(memory))


@pytest.mark.parametrize("add", [hook, pre_hook, patch_forward])
def test_hooks_on_any_part_take_the_general_path(add):
    names = [
        name
        for name, part in build({}, M).named_modules()
        if "forward" in vars(type(part)) and not name.startswith("position")
    ]
    # these are called as modules, so their hooks run
    called = {"", "embedding", "stem_norm", "dropout", "layers"}
    for name in set(names) - called:
        decoder, memory = build({}, M), memory_of(M)
        add(decoder.get_submodule(name))
        assert decoder.start(memory).fast_path is None, name


def test_global_hooks_take_the_general_path():
    decoder = build({}, None)
    handle = nn.modules.module.register_module_forward_hook(lambda module, args, output: None)
    try:
        assert decoder.start().fast_path is None
    finally:
        handle.remove()
    assert decoder.start().fast_path is not None


def test_autocast_and_other_precisions_take_the_general_path():
    decoder = build({}, None)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert decoder.start().fast_path is None
    assert decoder.double().start().fast_path is None


@torch.no_grad()
def test_watch_records_the_weights():
    decoder = build({}, D)
    state = decoder.start(memory_of(D))
    assert isinstance(state.fast_path, FastPath)
    with watch(decoder) as record:
        decoder.step(torch.arange(B), state)
    assert set(record) == {
        f"layers.{i}.{part}" for i in range(2) for part in ("self_attention", "cross")
    }


def test_gradients_flow_through_steps():
    decoder = build({}, D)
    logits, _ = decoder.step(torch.arange(B), decoder.start(memory_of(D)))
    assert logits.requires_grad


def test_the_layout_is_not_part_of_the_model():
    decoder = build({}, D)
    names = set(decoder.state_dict())
    written(decoder, memory_of(D), fast_path=True)
    assert set(decoder.state_dict()) == names
    twin = copy.deepcopy(decoder)
    with torch.no_grad():
        twin.output.weight.zero_()
    assert written(twin, memory_of(D), fast_path=True).abs().max() == 0
    assert written(decoder, memory_of(D), fast_path=True).abs().max() > 0


@pytest.mark.parametrize("uses", [0, 1, 5])
@pytest.mark.parametrize("rows", [1, 2, 5, 64, 65])
@pytest.mark.parametrize("biased", [True, False], ids=["bias", "no-bias"])
@pytest.mark.parametrize("shape", [(40, 8), (8, 40)], ids=["wide", "narrow"])
def test_a_packed_matrix_equals_the_plain_matrix(shape, biased, rows, uses, monkeypatch):
    monkeypatch.setattr(fast_path, "LARGE", 0)
    monkeypatch.setattr(fast_path, "USES_BEFORE_COPY", uses)
    weight, bias = torch.randn(shape), torch.randn(shape[0]) if biased else None
    linear, x = Linear(weight, bias), torch.randn(rows, shape[1])
    for _ in range(3):
        torch.testing.assert_close(linear(x), nn.functional.linear(x, weight, bias))
    copied = uses < 3
    assert (linear.packed is not None) == (copied and fast_path.PACKS and rows in fast_path.FEW)


@pytest.mark.parametrize("memory_dim", [None, M], ids=["alone", "memory"])
@pytest.mark.parametrize("position", ["sinusoidal", "rotary"])
def test_small_products_equal_sums(position, memory_dim, monkeypatch):
    monkeypatch.setattr(fast_path, "MANY", 0)
    decoder = build({"position": kinds(PositionConfig)[position]()}, memory_dim)
    memory = memory_of(memory_dim)
    ours = written(decoder, memory, fast_path=True)
    theirs = written(decoder, memory, fast_path=False)
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


def test_packed_steps_equal_general_steps_also_in_a_copy(monkeypatch):
    monkeypatch.setattr(fast_path, "LARGE", 0)
    monkeypatch.setattr(fast_path, "USES_BEFORE_COPY", 0)
    decoder, memory = build({}, M), memory_of(M)
    ours = written(decoder, memory, fast_path=True)
    theirs = written(decoder, memory, fast_path=False)
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    again = copy.deepcopy(decoder)
    torch.testing.assert_close(written(again, memory, fast_path=True), ours)
