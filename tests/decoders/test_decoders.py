"""Tests of decoders: all at once = step by step, and against torch (A10, B1, B2, B5, H2, H8)."""

import pytest
import torch
from torch import nn

import saccade
from saccade.attention import ScoreConfig, masks
from saccade.config import kinds
from saccade.decoders.recurrent import RecurrentDecoderConfig
from saccade.decoders.transformer import (
    TransformerDecoderConfig,
    TransformerDecoderLayer,
    TransformerStack,
)
from saccade.errors import PositionError, ShapeError
from saccade.interfaces import Memory
from saccade.layers.embeddings import OutputProjection, TokenEmbedding
from saccade.positions import PositionConfig, SinusoidalConfig
from tests.encoders.test_encoders import POSITIONS as READ_POSITIONS
from tests.encoders.test_encoders import SCORES, randomised

B, S, T, D, M, V = 3, 5, 6, 12, 10, 19
SMALL = {"num_layers": 2, "num_heads": 3, "hidden_dim": 17, "dropout": 0.0}
REAL = torch.arange(S) < torch.tensor([5, 3, 1])[:, None]


def writers():
    for position in READ_POSITIONS[:-1]:  # conditional ones look ahead
        yield (
            f"transformer-{position}",
            TransformerDecoderConfig(**SMALL, position=kinds(PositionConfig)[position]()),
        )
    yield (
        "transformer-concat",
        TransformerDecoderConfig(**SMALL, position=SinusoidalConfig(fuse="concat", width=6)),
    )
    yield "transformer-grouped", TransformerDecoderConfig(**SMALL, num_kv_heads=1)
    for score in SCORES:
        yield (
            f"transformer-{score}",
            TransformerDecoderConfig(**SMALL, norm_order="post", score=kinds(ScoreConfig)[score]()),
        )
    for cell in ("rnn", "gru", "lstm"):
        for attention in ("none", "before", "after"):
            for feed in (True, False):
                yield (
                    f"{cell}-{attention}-{'fed' if feed else 'unfed'}",
                    RecurrentDecoderConfig(
                        attention=attention,
                        cell=cell,
                        dim=8,
                        num_layers=2,
                        feed_context=feed,
                        dropout=0.0,
                    ),
                )
    for score in ("general", "low_rank", "additive"):
        for attention in ("before", "after"):
            yield (
                f"gru-{attention}-{score}",
                RecurrentDecoderConfig(
                    attention=attention, dim=8, score=kinds(ScoreConfig)[score](), dropout=0.0
                ),
            )
    for score in ("dot", "scaled_dot", "cosine"):
        yield (
            f"gru-before-{score}",
            RecurrentDecoderConfig(dim=M, score=kinds(ScoreConfig)[score](), dropout=0.0),
        )


WRITERS = dict(writers())
ATTENTIVE = [name for name in WRITERS if "-none-" not in name]


def build(config):
    if isinstance(config, RecurrentDecoderConfig):
        decoder = config.build(TokenEmbedding(V, D), OutputProjection(D, V), M, M)
    else:
        embedding = TokenEmbedding(V, D - config.position.widening)
        decoder = config.build(embedding, OutputProjection(D, V), D, M)
    return decoder.eval()


def some_memory():
    return Memory(torch.randn(B, S, M), REAL, torch.randn(B, M))


@pytest.mark.parametrize("name", WRITERS)
def test_step_by_step_equals_all_at_once_B5_H8(name):
    """Teacher forcing computes all positions in one pass, generation one by one (M6)."""
    decoder, memory = build(WRITERS[name]), some_memory()
    target = torch.randint(0, V, (B, T))
    with torch.no_grad():
        whole, state, steps = decoder(target, memory), decoder.start(memory), []
        for tokens in target.unbind(1):
            logits, state = decoder.step(tokens, state)
            steps.append(logits)
    torch.testing.assert_close(torch.stack(steps, 1), whole, atol=1e-5, rtol=1e-5)
    assert whole.shape == (B, T, V)


@pytest.mark.parametrize("name", WRITERS)
def test_select_returns_the_state_of_rows(name):
    decoder, memory = build(WRITERS[name]), some_memory()
    target = torch.randint(0, V, (B, T))
    rows = torch.tensor([2, 0, 2, 1])
    with torch.no_grad():
        whole, state = decoder(target[rows], _chosen(memory, rows)), decoder.start(memory)
        for tokens in target[:, :3].unbind(1):
            _, state = decoder.step(tokens, state)
        state = decoder.select(state, rows)
        for i, tokens in enumerate(target[rows][:, 3:].unbind(1), start=3):
            logits, state = decoder.step(tokens, state)
            torch.testing.assert_close(logits, whole[:, i], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", WRITERS)
def test_no_gradient_from_the_future_or_padding(name):
    decoder = build(WRITERS[name])
    states = torch.randn(B, S, M, requires_grad=True)
    memory = Memory(states, REAL, torch.randn(B, M))
    target = torch.randint(0, V, (B, T))
    logits = decoder(target, memory)
    changed = target.clone()
    changed[:, 4:] = (changed[:, 4:] + 1) % V
    torch.testing.assert_close(decoder(changed, memory)[:, :4], logits[:, :4], atol=1e-6, rtol=1e-5)
    if name in ATTENTIVE:
        (grad,) = torch.autograd.grad(logits.sum(), states)
        assert (grad[~REAL] == 0).all()
        assert (grad[REAL] != 0).any()


@pytest.mark.parametrize("name", [n for n in WRITERS if "-none-" in n])
def test_without_attention_only_the_summary_matters_B1(name):
    decoder, summary = build(WRITERS[name]), torch.randn(B, M)
    target = torch.randint(0, V, (B, T))
    first = decoder(target, Memory(torch.randn(B, S, M), REAL, summary))
    other = decoder(target, Memory(torch.randn(B, S, M), REAL, summary))
    assert torch.equal(first, other)
    assert not torch.equal(first, decoder(target, Memory(torch.randn(B, S, M), REAL, summary + 1)))


@pytest.mark.parametrize("name", ATTENTIVE)
def test_one_context_per_step_and_one_watched_call_B2(name):
    """The encoder gives annotations; contexts are made of them at each step (M11)."""
    decoder, memory = build(WRITERS[name]), some_memory()
    target = torch.randint(0, V, (B, T))
    with saccade.watch(decoder) as seen, torch.no_grad():
        decoder(target, memory)
    with saccade.watch(decoder) as stepped, torch.no_grad():
        state = decoder.start(memory)
        for tokens in target.unbind(1):
            _, state = decoder.step(tokens, state)
    reading = [key for key in seen if key == "" or key.endswith("cross")]
    assert reading == (
        [""]
        if isinstance(WRITERS[name], RecurrentDecoderConfig)
        else ["layers.0.cross", "layers.1.cross"]
    )
    for key in reading:
        assert len(seen[key].calls) == 1
        weights = seen[key].weights
        assert weights.shape[2:] == (T, S)
        assert (weights[2, :, :, 1:] == 0).all()
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:3]))
        joined = torch.cat(stepped[key].calls, 2)
        torch.testing.assert_close(joined, weights, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("attention", ["before", "after"])
def test_feeding_the_context_widens_the_cells_A10(attention):
    fed = build(RecurrentDecoderConfig(attention=attention, dim=8, dropout=0.0))
    unfed = build(
        RecurrentDecoderConfig(attention=attention, dim=8, dropout=0.0, feed_context=False)
    )
    extra = M if attention == "before" else D
    assert fed.recurrent.network.input_size == D + extra
    assert unfed.recurrent.network.input_size == D
    for decoder in (fed, unfed):
        decoder(torch.randint(0, V, (B, T)), some_memory()).sum().backward()
        assert all(p.grad is not None for p in decoder.parameters())


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm_first", [False, True])
def test_layer_equals_torch_H2(norm_first, activation, bias):
    twin = randomised(
        nn.TransformerDecoderLayer(
            D, 3, 17, activation=activation, norm_first=norm_first, batch_first=True, bias=bias
        )
    ).eval()
    ours = TransformerDecoderLayer.from_torch(twin)
    x, memory = torch.randn(B, T, D), torch.randn(B, S, D)
    hidden = nn.Transformer.generate_square_subsequent_mask(T)
    expected = twin(x, memory, tgt_mask=hidden, memory_key_padding_mask=~REAL)
    got = ours(x, memory, mask=masks.causal(), memory_mask=masks.padding(REAL))
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)


def test_stack_equals_torch_H2():
    layer = nn.TransformerDecoderLayer(D, 3, 17, batch_first=True)
    twin = randomised(nn.TransformerDecoder(layer, 2, norm=nn.LayerNorm(D))).eval()
    ours = TransformerStack.from_torch(twin)
    x, memory = torch.randn(B, T, D), torch.randn(B, S, D)
    hidden = nn.Transformer.generate_square_subsequent_mask(T)
    torch.testing.assert_close(
        ours(x, Memory(memory)), twin(x, memory, tgt_mask=hidden), atol=1e-5, rtol=1e-5
    )


def test_raises_on_a_missing_or_unexpected_memory():
    reads = build(TransformerDecoderConfig(**SMALL))
    with pytest.raises(ShapeError, match="none was given"):
        reads(torch.randint(0, V, (B, T)))
    alone = TransformerDecoderConfig(**SMALL).build(TokenEmbedding(V, D), OutputProjection(D, V), D)
    with pytest.raises(ShapeError, match="without cross-attention"):
        alone(torch.randint(0, V, (B, T)), some_memory())


@pytest.mark.parametrize("kind", ["conditional", "relative_2d"])
def test_raises_on_positions_that_cannot_generate(kind):
    with pytest.raises(PositionError, match=kind):
        build(TransformerDecoderConfig(**SMALL, position=kinds(PositionConfig)[kind]()))


def _chosen(memory, rows):
    return Memory(memory.states[rows], memory.mask[rows], memory.summary[rows])
