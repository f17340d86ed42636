"""The score and the positional encodings that examples/ keeps to show why they fail."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch.nn import functional as F

from saccade.attention import Additive
from saccade.errors import PositionError
from saccade.positions import Grid

EXAMPLES = Path(__file__).parents[2] / "examples"
B, Q, K, D, E = 2, 3, 5, 7, 11


def load(folder: Path, name: str) -> ModuleType:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    return importlib.import_module(name)


Affine = load(EXAMPLES, "rejected_score").Affine
positions = load(EXAMPLES / "claims", "rejected_positions")


def test_a_linear_layer_alone_gives_every_query_the_same_weights_A7():
    score = Affine(D, E)
    query, keys = torch.randn(B, Q, D), torch.randn(B, K, E)
    pairs = torch.cat((query[:, :, None].expand(B, Q, K, D), keys[:, None].expand(B, Q, K, E)), -1)
    weight = torch.cat((score.query_proj.weight, score.key_proj.weight), -1)
    expected = F.linear(pairs, weight, score.query_proj.bias).squeeze(-1)
    torch.testing.assert_close(score(query, keys), expected)
    weights = score(query, keys).softmax(-1)
    torch.testing.assert_close(weights, weights[:, :1].expand_as(weights))
    additive = Additive(D, E, 8)(query, keys).softmax(-1)
    assert (additive - additive[:, :1]).abs().max() > 1e-3


def test_rejected_positions_are_unbounded_or_depend_on_the_length_G11():
    short, long = torch.zeros(4, 6), torch.zeros(8, 6)
    append = positions.AppendIndex()
    assert (append(short)[:, -1] == torch.arange(4)).all()
    assert append(short).shape == (4, 7)
    for encoding in (append, positions.AddIndex(6)):
        assert torch.equal(encoding(short), encoding(long)[:4])
    fraction = positions.AddFraction(6)
    assert not torch.equal(fraction(short), fraction(long)[:4])
    assert fraction(short)[2, 3] == 0.5


def test_rejected_positions_raise_on_an_image():
    with pytest.raises(PositionError, match="work on text only"):
        positions.AddIndex(6).embed(torch.zeros(4, 6), Grid.of(2, 2))
