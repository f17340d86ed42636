"""Attention rollout: by hand, and against a slow, obvious loop."""

import numpy as np
import pytest

from saccade.errors import SaccadeError, ShapeError, WatchError
from saccade.lens.record import AttentionRecord, ImageSide, Side
from saccade.lens.record.rollout import rollout


def attention(*shape, seed=0):
    weights = np.random.default_rng(seed).gamma(0.5, size=shape)
    return weights / weights.sum(-1, keepdims=True)


def slow_rollout(layers):
    """Compute the flow from j into i over every path, cell by cell (Abnar and Zuidema)."""
    n = len(layers[0])
    flow = [[float(i == j) for j in range(n)] for i in range(n)]
    for weights in layers:
        mixed = []
        for i in range(n):
            row = [0.5 * float(weights[i][j]) + 0.5 * (i == j) for j in range(n)]
            mixed.append([value / sum(row) for value in row])
        flow = [
            [sum(mixed[i][m] * flow[m][j] for m in range(n)) for j in range(n)] for i in range(n)
        ]
    return np.array(flow)


def self_record(layers, side=None):
    size = layers[0].shape[-1]
    side = side or Side.of_words([f"w{i}" for i in range(size)])
    return AttentionRecord(side, side, {f"layers.{i}": layer for i, layer in enumerate(layers)})


def test_rollout_of_two_tokens_by_hand():
    """A'₁ = [[.5 .5][.25 .75]], A'₂ = [[1 0][.4 .6]]: A'₂ A'₁ = [[.5 .5][.35 .65]]."""
    first = np.array([[0.0, 1.0], [0.5, 0.5]])
    second = np.array([[1.0, 0.0], [0.8, 0.2]])
    assert rollout([first]) == pytest.approx(np.array([[0.5, 0.5], [0.25, 0.75]]))
    assert rollout([first, second]) == pytest.approx(np.array([[0.5, 0.5], [0.35, 0.65]]))
    # the other way round: [[.5 .5][.25 .75]] @ [[1 0][.4 .6]]
    assert rollout([second, first]) == pytest.approx(np.array([[0.7, 0.3], [0.55, 0.45]]))


def test_rows_are_normalised():
    """[[.5 0][.1 .1]] is mixed to [[.75 0][.05 .55]], whose rows sum to .75 and .6."""
    rolled = rollout([np.array([[0.5, 0.0], [0.1, 0.1]])])
    assert rolled == pytest.approx(np.array([[1, 0], [1 / 12, 11 / 12]]))


@pytest.mark.parametrize(("layers", "tokens"), [(1, 1), (1, 7), (2, 3), (5, 11), (12, 2)])
def test_rollout_equals_the_slow_loop(layers, tokens):
    """Rows of a rollout sum to 1 (J4)."""
    weights = list(attention(layers, tokens, tokens))
    rolled = rollout(weights)
    assert rolled == pytest.approx(slow_rollout(weights), abs=1e-6)
    assert rolled.sum(1) == pytest.approx(1.0)
    assert rolled.dtype == np.float32


def test_a_query_that_sees_nothing_keeps_its_token():
    assert rollout([np.array([[0.0, 0.0], [1.0, 0.0]])])[0].tolist() == [1.0, 0.0]


def test_a_causal_rollout_shows_no_future():
    weights = np.tril(attention(4, 6, 6)) + 0.1 * np.eye(6)
    rolled = rollout(list(weights / weights.sum(-1, keepdims=True)))
    assert (np.triu(rolled, 1) == 0).all()


def test_a_record_rolls_out_the_mean_of_heads_or_one_head():
    layers = [attention(3, 5, 5, seed=i) for i in range(4)]
    record = self_record(layers)
    mean = [layer.mean(0) for layer in layers]
    assert record.rollout() == pytest.approx(slow_rollout(mean), abs=1e-6)
    second = [layer[1] for layer in layers]
    assert record.rollout(1) == pytest.approx(slow_rollout(second), abs=1e-6)
    assert record.rollout().sum(1) == pytest.approx(1.0)


def test_rollout_through_one_layer():
    weights = attention(2, 4, 4)
    record = self_record([weights, attention(2, 4, 4, seed=1)]).slice(layers=["layers.0"])
    assert record.rollout() == pytest.approx(0.5 * weights.mean(0) + 0.5 * np.eye(4))


def test_a_loaded_record_rolls_out(tmp_path):
    record = self_record([attention(1, 3, 3)])
    again = AttentionRecord.load(record.save(tmp_path / "a.npz"))
    assert (again.rollout() == record.rollout()).all()


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([], "at least one layer"),
        ([np.ones((2, 3))], r"layer 0 of 1 has \(2, 3\)"),
        ([np.ones((2, 2)), np.ones((3, 3))], r"layer 1 of 2 has \(3, 3\), layer 0 has \(2, 2\)"),
        ([np.zeros((0, 0))], r"\(0, 0\)"),
        ([np.array([[np.nan]])], "NaN"),
        ([np.array([[np.inf]])], "infinity"),
        ([np.array([[-0.5]])], "negative"),
    ],
)
def test_raises_on_weights_that_cannot_be_rolled_out(layers, message):
    with pytest.raises(SaccadeError, match=message):
        rollout(layers)


def test_raises_on_records_that_cannot_be_rolled_out():
    read, wrote = Side.of_words(["a", "b"]), Side.of_words(["x", "y"])
    with pytest.raises(WatchError, match="attention rollout needs self-attention"):
        AttentionRecord(read, wrote, {"l": attention(1, 2, 2)}).rollout()
    with pytest.raises(WatchError, match="at least one layer"):
        AttentionRecord(read, read, {}).rollout()
    with pytest.raises(WatchError, match="no head 3"):
        self_record([attention(2, 2, 2)]).rollout(3)
    image = ImageSide(np.zeros((4, 4, 3), np.uint8), (1, 2))
    with pytest.raises(WatchError, match="attention rollout needs self-attention"):
        AttentionRecord(image, wrote, {"l": attention(1, 2, 2)}).rollout()


def test_raises_if_an_image_attends_to_anything_but_itself():
    image = ImageSide(np.zeros((4, 4, 3), np.uint8), (1, 2))
    other = ImageSide(np.ones((4, 4, 3), np.uint8), (1, 2))
    for read in (Side.of_words(["a", "b"]), other):
        with pytest.raises(ShapeError, match="an image can only attend to itself"):
            AttentionRecord(read, image, {"l": attention(1, 2, 2)})
