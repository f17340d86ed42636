"""Learning rates at points worked out by hand, AdamW's groups, averages against their formulas."""

import math

import pytest
import torch
from torch import nn

from saccade.errors import RecipeError
from saccade.training.optim import Average, AverageConfig, OptimConfig, freeze, layer_fractions


@pytest.mark.parametrize(
    ("schedule", "step", "progress", "factor"),
    [
        ("constant", 0, 0.0, 0.1),
        ("constant", 4, 0.04, 0.5),
        ("constant", 1, 0.4, 0.2),
        ("linear", 0, 0.03, 0.3),  # a tenth of the budget ends the warm-up
        ("linear", 1, 0.25, 0.8),
        ("constant", 9, 0.9, 1.0),
        ("constant", 10, 1.0, 1.0),
        ("inverse_sqrt", 9, 0.0, 1.0),
        ("inverse_sqrt", 39, 0.0, 0.5),
        ("inverse_sqrt", 999, 0.0, 0.1),
        ("cosine", 10, 0.0, 1.0),
        ("cosine", 10, 0.5, 0.6),  # 0.2 + 0.8 / 2
        ("cosine", 10, 1 / 3, 0.8),  # cos(pi/3) = 1/2, so 0.2 + 0.8 * 3/4
        ("cosine", 10, 1.0, 0.2),
        ("cosine", 10, 1.7, 0.2),
        ("linear", 10, 0.25, 0.8),
        ("linear", 10, 1.0, 0.2),
        ("stable", 1, 0.03, 0.3),
        ("stable", 10, 0.5, 1.0),
        ("stable", 10, 0.8, 1.0),  # the last fifth falls
        ("stable", 10, 0.9, 0.6),  # 0.2 + 0.8 / 2
        ("stable", 10, 1.3, 0.2),
        ("linear", 2, 0.0, 0.3),  # the warm-up comes first
    ],
)
def test_learning_rate_factor_of_every_schedule(schedule, step, progress, factor):
    config = OptimConfig(schedule=schedule, warmup=10, final_rate=0.2)
    assert config.factor(step, progress) == pytest.approx(factor, abs=1e-12)


def test_zero_warmup_starts_at_the_full_rate():
    for schedule in ("constant", "inverse_sqrt", "cosine", "linear", "stable"):
        config = OptimConfig(schedule=schedule, warmup=0)
        assert config.factor(0, 0.0) == 1.0
        assert 0 < config.factor(5, 0.5) <= 1.0


def test_vectors_have_no_weight_decay():
    model = nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2), nn.Embedding(4, 2))
    model[0].weight.requires_grad_(False)
    optimizer = OptimConfig(weight_decay=0.5).build(model, 0.1)
    decays = {p: g["weight_decay"] for g in optimizer.param_groups for p in g["params"]}
    assert decays == {
        model[0].bias: 0.0,
        model[1].weight: 0.0,
        model[1].bias: 0.0,
        model[2].weight: 0.5,
    }
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    before = [p.detach().clone() for p in model.parameters()]
    optimizer.step()
    for p, old in zip(model.parameters(), before, strict=True):
        kept = 1 - 0.1 * 0.5 if p is model[2].weight else 1.0
        assert torch.allclose(p, old * kept, atol=1e-7)


def test_adamw_equals_hand_worked_numbers():
    """w = 1, gradient 2: m and v are unbiased at once, so the step is lr times sign, and decay."""
    model = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(1.0)
    optimizer = OptimConfig(weight_decay=0.1).build(model, 0.01)
    model.weight.grad = torch.tensor([[2.0]])
    optimizer.step()
    assert model.weight.item() == pytest.approx(1.0 - 0.01 * 0.1 - 0.01, abs=1e-6)


def fill(model, value):
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(value)


def value_in(average, model):
    current = average.current() or dict(model.named_parameters())
    return [current[name].flatten()[0].item() for name, _ in model.named_parameters()]


def test_ema_equals_its_formula():
    """Step 0 keeps 1/10, step 1 keeps 2/11; later ones keep `decay`."""
    model = nn.Linear(2, 2)
    fill(model, 1.0)
    average = Average(AverageConfig(kind="ema", decay=0.5), model)
    expected = 1.0
    for step, value in enumerate([3.0, -2.0, 5.0, *[float(i) for i in range(20)]]):
        fill(model, value)
        average.after_update(step)
        average.before_validation(step)
        kept = min(0.5, (1 + step) / (10 + step))
        expected = kept * expected + (1 - kept) * value
        assert value_in(average, model) == [pytest.approx(expected, rel=1e-5)] * 2
        assert {p.flatten()[0].item() for p in model.parameters()} == {value}
    assert math.isclose(min(0.5, 21 / 30), 0.5)


def test_last_is_the_mean_of_the_last_snapshots():
    model = nn.Linear(2, 2)
    average = Average(AverageConfig(kind="last", last=3), model)
    fill(model, 7.0)
    assert value_in(average, model) == [7.0, 7.0]  # nothing to average yet
    for step, (value, mean) in enumerate([(1.0, 1.0), (3.0, 2.0), (5.0, 3.0), (10.0, 6.0)]):
        fill(model, value)
        average.after_update(step)
        average.before_validation(step)
        average.before_validation(step)  # a validation that was stopped is repeated
        assert value_in(average, model) == [pytest.approx(mean)] * 2
    assert len(average.snapshots) == 3


def test_average_none_is_the_weights_themselves():
    model = nn.Linear(2, 2)
    average = Average(AverageConfig(kind="none"), model)
    fill(model, 4.0)
    average.after_update(0)
    average.before_validation(0)
    assert value_in(average, model) == [4.0, 4.0]
    assert average.tensors() == {}
    average.restore({})


@pytest.mark.parametrize("kind", ["ema", "last"])
def test_an_average_is_restored_from_its_tensors(kind):
    model = nn.Linear(2, 2)
    config = AverageConfig(kind=kind, last=2)
    one, other = Average(config, model), Average(config, model)
    for step in (0, 1, 2):
        fill(model, float(step))
        one.after_update(step)
        one.before_validation(step)
    other.restore(one.tensors())
    assert other.snapshots.keys() == one.snapshots.keys()
    assert value_in(other, model) == value_in(one, model)
    different = Average(AverageConfig(kind="last" if kind == "ema" else "ema"), model)
    before = different.tensors()
    different.restore(one.tensors())
    assert different.tensors().keys() == before.keys()


def test_the_statistics_of_batch_norm_are_averaged_with_the_weights():
    model = nn.Sequential(nn.Linear(2, 3, bias=False), nn.BatchNorm1d(3, momentum=1.0))
    average = Average(AverageConfig(kind="last", last=2), model)
    means = []
    for step in (0, 1):
        model(torch.randn(5, 2))
        average.before_validation(step)
        means.append(model[1].running_mean.clone())
    current = average.current()
    torch.testing.assert_close(current["1.running_mean"], (means[0] + means[1]) / 2)
    assert "1.num_batches_tracked" not in current


class Reader(nn.Module):
    """A model with the parts of an encoder: a stem, layers and a norm, with a head beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.ModuleDict(
            {
                "stem": nn.Embedding(5, 2),
                "layers": nn.ModuleList(nn.Linear(2, 2) for _ in range(3)),
                "norm": nn.LayerNorm(2),
            }
        )
        self.head = nn.Linear(2, 2)


def test_lower_layers_learn_slower():
    fractions = layer_fractions(Reader(), 0.5)
    assert fractions["head.weight"] == fractions["encoder.norm.bias"] == 1.0
    assert [fractions[f"encoder.layers.{i}.weight"] for i in range(3)] == [0.125, 0.25, 0.5]
    assert fractions["encoder.stem.weight"] == 0.0625
    optimizer = OptimConfig(layer_decay=0.5).build(Reader(), 0.1)
    assert sorted({group["scale"] for group in optimizer.param_groups}) == [
        0.0625, 0.125, 0.25, 0.5, 1.0
    ]  # fmt: skip


def test_without_layer_decay_there_are_two_groups():
    assert len(OptimConfig().build(Reader(), 0.1).param_groups) == 2


def test_frozen_parts_do_not_learn():
    model = Reader()
    frozen = freeze(model, ("encoder.stem", "encoder.layers.0"))
    optimizer = OptimConfig().build(model, 0.1)
    learning = {id(p) for group in optimizer.param_groups for p in group["params"]}
    left = [name for name, p in model.named_parameters() if id(p) not in learning]
    assert left == ["encoder.stem.weight", "encoder.layers.0.weight", "encoder.layers.0.bias"]
    assert [id(p) for p in frozen] == [id(model.get_parameter(name)) for name in left]
    assert freeze(model, ("encoder.stem",)) == []  # it was frozen already
    with pytest.raises(RecipeError, match=r"begins with 'decoder'; its parts are encoder.stem"):
        freeze(Reader(), ("decoder",))
    freeze(model, ("encoder", "head"))
    with pytest.raises(RecipeError, match="leaves nothing to learn"):
        OptimConfig(freeze=("encoder", "head")).build(model, 0.1)
