"""Tests of attention pooling: learned queries over any encoder's states (A8, D1, F2, I8)."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import saccade
from saccade.attention import ScaledDotConfig, ScoreConfig
from saccade.config import conflicts, kinds, read
from saccade.encoders.recurrent import RecurrentEncoderConfig
from saccade.encoders.transformer import TransformerEncoderConfig
from saccade.errors import RecipeError
from saccade.interfaces import Memory
from saccade.models import (
    AttentionPooling,
    AttentionPoolingConfig,
    ConvolutionalClassifierConfig,
    ImageClassifierConfig,
    TextClassifierConfig,
    VectorClassifierConfig,
)
from tests.variants import SCORES, strengthen

B, S, D, C, V, W = 3, 7, 8, 5, 23, 4
REAL = torch.arange(S) < torch.tensor([7, 4, 1])[:, None]
BLOCK = {"num_layers": 1, "num_heads": 2, "hidden_dim": 12, "dropout": 0.0}
READERS = {
    "recurrent": lambda pooling: TextClassifierConfig(
        encoder=RecurrentEncoderConfig(dim=4, dropout=0.0), dim=D, **pooling
    ).build(V, C),
    "transformer": lambda pooling: TextClassifierConfig(
        encoder=TransformerEncoderConfig(**BLOCK), dim=D, **pooling
    ).build(V, C),
    "grid": lambda pooling: ConvolutionalClassifierConfig(widths=(4, D), blocks=1, **pooling).build(
        C
    ),
    "patches": lambda pooling: (
        ImageClassifierConfig(
            encoder=TransformerEncoderConfig(**BLOCK), dim=D, patch_size=2, **pooling
        )
        .sized(8)
        .build(C)
    ),
    "vectors by a recurrent encoder": lambda pooling: VectorClassifierConfig(
        encoder=RecurrentEncoderConfig(dim=4, dropout=0.0), dim=D, **pooling
    ).build(W, C),
    "vectors by a transformer": lambda pooling: VectorClassifierConfig(
        encoder=TransformerEncoderConfig(**BLOCK), dim=D, **pooling
    ).build(W, C),
}


def attention(score="additive", queries=1, join="project"):
    """Return the options of a classifier with attention pooling."""
    if queries == 1:
        join = "project"
    options = AttentionPoolingConfig(score=kinds(ScoreConfig)[score](), queries=queries, join=join)
    return {"pooling": "attention", "attention_pooling": options}


def by_hand(pooling, states, mask):
    """Return the pooled vectors and the weights, one input and one query at a time."""
    pooled, weights = [], []
    for row, real in zip(states, mask, strict=True):
        seen, contexts = row[real], []
        for query in pooling.queries:
            scores = torch.stack([pooling.attend.score(query[None], h[None])[0, 0] for h in seen])
            exponents = scores.exp()
            weight = exponents / exponents.sum()
            contexts.append(sum(a * h for a, h in zip(weight, seen, strict=True)))
            padded = torch.zeros(len(row))
            padded[real] = weight
            weights.append(padded)
        pooled.append(torch.cat(contexts))
    weights = torch.stack(weights).reshape(len(states), 1, len(pooling.queries), -1)
    return pooling.project(torch.stack(pooled)), weights


@pytest.mark.parametrize("join", ["project", "concat"])
@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize("score", SCORES)
@torch.no_grad()
def test_pooling_is_the_weighted_sum_of_the_formula_A8(score, queries, join):
    pooling = AttentionPooling(D, SCORES[score](D, D), queries, join=join).eval()
    strengthen(pooling.attend)
    states = torch.randn(B, S, D)
    with saccade.watch(pooling) as seen:
        pooled = pooling(Memory(states, REAL))
    expected, weights = by_hand(pooling, states, REAL)
    assert pooled.shape == (B, pooling.out_dim)
    assert pooling.out_dim == (queries * D if join == "concat" else D)
    torch.testing.assert_close(pooled, expected, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(seen[""].weights, weights, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(pooling(Memory(states, REAL)), pooled, atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_one_scaled_dot_query_is_torch_attention_with_a_fixed_query_A8():
    pooling = AttentionPooling(D, "scaled_dot").eval()
    torchs = nn.MultiheadAttention(D, 1, bias=False, batch_first=True).eval()
    torchs.in_proj_weight.copy_(torch.eye(D).repeat(3, 1))
    torchs.out_proj.weight.copy_(torch.eye(D))
    pooling.queries.copy_(torch.randn(1, D))
    states = torch.randn(B, S, D)
    query = pooling.queries.expand(B, 1, D)
    expected, weights = torchs(query, states, states, key_padding_mask=~REAL)
    with saccade.watch(pooling) as seen:
        watched = pooling(Memory(states, REAL))
    for pooled in (watched, pooling(Memory(states, REAL))):
        torch.testing.assert_close(pooled, expected[:, 0], atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(seen[""].weights[:, 0], weights, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("queries", [1, 2])
@pytest.mark.parametrize("score", SCORES)
@settings(max_examples=5, deadline=None, derandomize=True)
@given(n=st.integers(1, 6), more=st.integers(1, 4), seed=st.integers(0, 99))
def test_padding_and_order_change_nothing_F2_I8(score, queries, n, more, seed):
    torch.manual_seed(seed)
    pooling = strengthen(AttentionPooling(D, SCORES[score](D, D), queries)).eval()
    states = torch.randn(1, n + more, D)
    real = (torch.arange(n + more) < n)[None]
    with torch.no_grad():
        alone, padded = pooling(Memory(states[:, :n])), pooling(Memory(states, real))
        permuted = pooling(Memory(states[:, torch.randperm(n)]))
        equal = states[:, :1].expand(1, n, D)
        constant = pooling.attend(pooling.queries, equal, equal)
    torch.testing.assert_close(padded, alone, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(permuted, alone, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(constant[0, 0], states[0, 0], atol=1e-5, rtol=1e-4)


def inputs_of(reader):
    """Return two batches of inputs that differ in their padding only, and the mask, if any."""
    if reader in {"grid", "patches"}:
        image = torch.randn(B, 3, 8, 8)
        return image, image, None
    if reader.startswith("vectors"):
        values, others = torch.randn(B, S, W), torch.randn(B, S, W)
        return values, torch.where(REAL[..., None], values, others), REAL
    tokens, others = torch.randint(3, V, (B, S)), torch.randint(3, V, (B, S))
    return tokens, torch.where(REAL, tokens, others), REAL


@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("reader", READERS)
def test_every_reader_is_pooled_with_every_score_and_number_of_queries_A8_F2(
    reader, score, queries
):
    """Rows sum to 1, padding has weight 0, and neither padding nor the batch change an answer."""
    join = "concat" if reader in {"grid", "recurrent"} else "project"
    model = READERS[reader](attention(score, queries, join)).eval()
    given, other, mask = inputs_of(reader)
    run = model if mask is None else lambda batch: model(batch, mask)
    with saccade.watch(model, layers="pooling") as seen:
        logits = run(given)
    weights = seen["pooling"].weights
    assert logits.shape == (B, C)
    assert weights.shape == (B, 1, queries, 16 if mask is None else S)
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, 1, queries), atol=1e-6, rtol=0)
    logits.sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.pooling.parameters())
    assert (model.pooling.queries.grad != 0).any()
    alone = given[1:2] if mask is None else given[1:2, :4]
    with torch.no_grad():
        torch.testing.assert_close(run(other), logits, atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(model(alone), logits[1:2], atol=1e-5, rtol=1e-4)
    if mask is not None:
        assert (weights[:, 0].transpose(1, 2)[~mask] == 0).all()


@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize("score", SCORES)
def test_an_input_of_padding_alone_gives_zeros_and_no_nan_F2_F4(score, queries):
    pooling = AttentionPooling(D, SCORES[score](D, D), queries, join="concat")
    states = torch.randn(2, S, D, requires_grad=True)
    real = torch.stack([torch.zeros(S).bool(), torch.ones(S).bool()])
    with saccade.watch(pooling) as seen:
        pooling(Memory(states, real))
    assert (seen[""].weights[0] == 0).all()
    pooled = pooling(Memory(states, real))
    pooled.sum().backward()
    assert (pooled[0] == 0).all()
    assert (pooled[1] != 0).any()
    assert states.grad.isfinite().all()


def test_query_names():
    assert AttentionPooling(D).query_names == ("query",)
    assert AttentionPooling(D, queries=2).query_names == ("query 1", "query 2")


def test_recipe_keys_of_attention_pooling():
    table = {
        "pooling": "attention",
        "attention_pooling": {"score": {"kind": "scaled_dot"}, "queries": 2, "join": "concat"},
    }
    config = read(TextClassifierConfig, table)
    assert config.attention_pooling.score == ScaledDotConfig()
    assert config.build(V, C).head.in_features == 2 * config.memory_dim
    assert not list(conflicts(config))
    with pytest.raises(RecipeError, match=r"it can be: mean, attention"):
        read(ConvolutionalClassifierConfig, {"pooling": "first"})


def test_options_without_effect_are_reported():
    idle = TextClassifierConfig(attention_pooling=AttentionPoolingConfig(queries=2))
    single = TextClassifierConfig(
        pooling="attention", attention_pooling=AttentionPoolingConfig(join="concat")
    )
    assert [conflict.key for conflict in conflicts(idle)] == ["attention_pooling.queries"]
    assert [conflict.key for conflict in conflicts(single)] == ["attention_pooling.join"]
