"""The quick steps of plain Transformer decoders: the same as the general way, and never stale."""

import copy

import pytest
import torch

from saccade.attention import ScoreConfig
from saccade.attention.watch import watch
from saccade.decoders import quick
from saccade.decoders.quick import Linear, Quick
from saccade.decoders.transformer import TransformerDecoderConfig
from saccade.interfaces import Memory
from saccade.layers.embeddings import OutputProjection, TokenEmbedding
from saccade.positions import PositionConfig
from tests.encoders.test_readers import randomised

B, S, D, M, V = 4, 5, 12, 10, 19
SMALL = {"num_layers": 2, "num_heads": 2, "hidden_dim": 17}
PLAIN = {
    "pre": {},
    "post": {"norm_order": "post"},
    "gelu": {"activation": "gelu_tanh"},
    "learned": {"position": PositionConfig(kind="learned")},
    "none": {"position": PositionConfig(kind="none")},
    "concat": {"position": PositionConfig(kind="sinusoidal", fuse="concat", width=6)},
    "rotary": {"position": PositionConfig(kind="rotary")},
    "eps": {"norm_eps": 0.1},
}
OTHERS = {
    "relative": {"position": PositionConfig(kind="relative")},
    "grouped": {"num_kv_heads": 1},
    "cosine": {"score": ScoreConfig(kind="cosine")},
    "batch-norm": {"norm": "batch"},
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
def written(decoder, memory, *, quick, select=None):
    """The logits of a few steps, with rows exchanged in between as beam search does it."""
    state = decoder.start(memory)
    assert state.quick is not None
    if not quick:
        state = copy.copy(state)
        object.__setattr__(state, "quick", None)
    found = []
    tokens = torch.arange(B)
    for step in range(5):
        logits, state = decoder.step(tokens, state)
        found.append(logits)
        if select is not None and step == 1:
            state = decoder.select(state, select)
            tokens = tokens[select]
        tokens = (tokens + 3) % V
    return torch.cat(found)


@pytest.mark.parametrize("memory_dim", [None, D, M], ids=["alone", "same-width", "other-width"])
@pytest.mark.parametrize(
    "select",
    [None, torch.tensor([2, 0]), torch.tensor([0, 0, 1, 1, 3, 3]), torch.tensor([3, 0, 0, 1])],
    ids=["all", "fewer", "shared", "unequal"],
)
@pytest.mark.parametrize("options", PLAIN.values(), ids=PLAIN)
def test_quick_steps_are_the_general_ones(options, select, memory_dim):
    decoder = build(options, memory_dim)
    memory = memory_of(memory_dim)
    ours = written(decoder, memory, quick=True, select=select)
    torch.testing.assert_close(
        ours, written(decoder, memory, quick=False, select=select), atol=1e-5, rtol=1e-5
    )


@pytest.mark.parametrize("options", OTHERS.values(), ids=OTHERS)
def test_other_decoders_go_the_general_way(options):
    assert build(options, D).start(memory_of(D)).quick is None


def test_a_blind_row_goes_the_general_way():
    nothing = Memory(torch.randn(2, S, D), torch.tensor([[True] * S, [False] * S]))
    state = build({}, D).start(nothing)
    assert state.quick is None


@torch.no_grad()
def test_changed_weights_are_laid_out_anew():
    decoder = build({}, D)
    memory = memory_of(D)
    first = decoder.start(memory).quick
    assert decoder.start(memory).quick is first
    changes = [
        decoder.layers[1].feed_forward.narrow.weight.normal_,
        lambda: decoder.load_state_dict({k: v * 1.1 for k, v in decoder.state_dict().items()}),
        lambda: setattr(decoder.output.weight, "data", torch.randn(V, D)),
        decoder.layers[0].cross.projection.bias.normal_,
    ]
    for change in changes:
        before = written(decoder, memory, quick=True)
        change()
        after = written(decoder, memory, quick=True)
        assert not torch.allclose(before, after, atol=1e-3)
        torch.testing.assert_close(
            after, written(decoder, memory, quick=False), atol=1e-5, rtol=1e-5
        )


def test_training_changes_what_is_written():
    decoder = build({}, None)
    optimizer = torch.optim.AdamW(decoder.parameters(), lr=0.1)
    before = written(decoder, None, quick=True)
    decoder.train()
    with torch.no_grad():
        assert decoder.start().quick is None  # dropout
    decoder(torch.arange(6).view(2, 3)).square().mean().backward()
    optimizer.step()
    decoder.eval()
    assert not torch.allclose(before, written(decoder, None, quick=True), atol=1e-3)


@torch.no_grad()
def test_who_watches_sees_the_weights():
    decoder = build({}, D)
    state = decoder.start(memory_of(D))
    assert isinstance(state.quick, Quick)
    with watch(decoder) as record:
        decoder.step(torch.arange(B), state)
    assert set(record) == {
        f"layers.{i}.{part}" for i in range(2) for part in ("self_attention", "cross")
    }


def test_gradients_flow_through_steps():
    decoder = build({}, D)
    logits, _ = decoder.step(torch.arange(B), decoder.start(memory_of(D)))
    assert logits.requires_grad


def test_the_layout_is_no_part_of_the_model():
    decoder = build({}, D)
    names = set(decoder.state_dict())
    written(decoder, memory_of(D), quick=True)
    assert set(decoder.state_dict()) == names
    twin = copy.deepcopy(decoder)
    with torch.no_grad():
        twin.output.weight.zero_()
    assert written(twin, memory_of(D), quick=True).abs().max() == 0
    assert written(decoder, memory_of(D), quick=True).abs().max() > 0


@pytest.mark.parametrize("rows", [1, 2, 5, 64, 65])
@pytest.mark.parametrize("biased", [True, False], ids=["bias", "no-bias"])
@pytest.mark.parametrize("shape", [(40, 8), (8, 40)], ids=["wide", "narrow"])
def test_a_packed_matrix_gives_what_the_matrix_gives(shape, biased, rows, monkeypatch):
    monkeypatch.setattr(quick, "LARGE", 0)
    weight, bias = torch.randn(shape), torch.randn(shape[0]) if biased else None
    linear, x = Linear(weight, bias), torch.randn(rows, shape[1])
    torch.testing.assert_close(linear(x), torch.nn.functional.linear(x, weight, bias))
    assert (linear.packed is not None) == (quick.PACKS and rows in quick.FEW)


@pytest.mark.parametrize("memory_dim", [None, M], ids=["alone", "memory"])
@pytest.mark.parametrize("position", ["sinusoidal", "rotary"])
def test_small_products_are_sums(position, memory_dim, monkeypatch):
    monkeypatch.setattr(quick, "MANY", 0)
    decoder = build({"position": PositionConfig(kind=position)}, memory_dim)
    memory = memory_of(memory_dim)
    ours = written(decoder, memory, quick=True)
    theirs = written(decoder, memory, quick=False)
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


def test_packed_steps_are_the_general_ones_in_a_copy_too(monkeypatch):
    monkeypatch.setattr(quick, "LARGE", 0)
    decoder, memory = build({}, M), memory_of(M)
    ours = written(decoder, memory, quick=True)
    theirs = written(decoder, memory, quick=False)
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    again = copy.deepcopy(decoder)
    assert again._quick is None
    torch.testing.assert_close(written(again, memory, quick=True), ours)
