"""Muon against its formula in float64, against torch's own, and over every kind of layer."""

import math

import pytest
import torch
from torch import nn

from saccade.attention.projection import Packed
from saccade.layers.embeddings import TokenEmbedding
from saccade.training import checkpoint, muon
from saccade.training.distributed import World
from saccade.training.muon import Muon, hidden_matrices, orthogonalize, orthogonalize_all
from saccade.training.optim import OptimConfig

SHAPES = [(16, 16), (16, 64), (64, 16), (48, 33)]


def singular_vectors(matrix):
    """Return U V of a matrix U S V: the orthogonal matrix that is nearest to it."""
    u, _, v = torch.linalg.svd(matrix.double(), full_matrices=False)
    return u @ v


@pytest.mark.parametrize("shape", SHAPES)
def test_orthogonalized_matrices_are_nearly_orthogonal(shape):
    matrices = torch.randn(3, *shape, generator=torch.Generator().manual_seed(0))
    for before, after in zip(matrices, orthogonalize(matrices), strict=True):
        values = torch.linalg.svdvals(after)
        assert values.max() < 1.25
        assert values.median() > 0.75
        cosine = nn.functional.cosine_similarity(
            after.double().flatten(), singular_vectors(before).flatten(), 0
        )
        assert cosine > 0.95


def test_orthogonalize_does_not_fail_for_a_gradient_of_zeros():
    assert torch.equal(orthogonalize(torch.zeros(2, 16, 20)), torch.zeros(2, 16, 20))


def test_singular_values_from_3_thousandths_on_come_near_to_1():
    u, _, v = torch.linalg.svd(torch.randn(64, 64, generator=torch.Generator().manual_seed(0)))
    values = torch.logspace(-2.5, 0, 64)
    after = torch.linalg.svdvals(orthogonalize((u * (values / values.norm()) @ v)[None])[0])
    assert after.max() < 1.25
    assert after[: (values / values.norm() > 0.003).sum()].min() > 0.75


class Meeting(World):
    """A process that knows what all processes bring; without that, it keeps what it brings."""

    brought = None

    def gather(self, vector):
        object.__setattr__(self, "mine", vector)
        return self.brought or [vector] * self.size


@pytest.mark.parametrize("count", [2, 3, 7])
def test_processes_divide_the_matrices_and_get_every_result(count):
    shapes = [(16, 16), (16, 64), (64, 16), (16, 16), (48, 33)]
    generator = torch.Generator().manual_seed(0)
    matrices = [torch.randn(shape, generator=generator) for shape in shapes]
    expected = orthogonalize_all(matrices, World())
    worlds = [Meeting(rank=rank, size=count) for rank in range(count)]
    for world in worlds:
        orthogonalize_all(matrices, world)
    brought = [world.mine for world in worlds]
    assert sum(int(vector.count_nonzero()) for vector in brought) == sum(
        matrix.numel() for matrix in matrices
    )
    for world in worlds:
        object.__setattr__(world, "brought", brought)
        for mine, alone in zip(orthogonalize_all(matrices, world), expected, strict=True):
            torch.testing.assert_close(mine, alone)


@pytest.mark.parametrize("shape", SHAPES)
def test_updates_are_those_of_torch_in_another_precision(shape, monkeypatch):
    monkeypatch.setattr(muon, "COEFFICIENTS", ((3.4445, -4.7750, 2.0315),) * 5)  # those of torch
    ours, theirs = (nn.Parameter(torch.ones(shape)) for _ in range(2))
    options = {"lr": 0.02, "weight_decay": 0.1}
    mine = Muon([{"params": [ours], "parts": [(shape[0],)]}], **options)
    torchs = torch.optim.Muon([theirs], **options, adjust_lr_fn="match_rms_adamw")
    generator = torch.Generator().manual_seed(1)
    for _ in range(5):
        before_ours, before_theirs = ours.detach().clone(), theirs.detach().clone()
        ours.grad = torch.randn(shape, generator=generator)
        theirs.grad = ours.grad.clone()
        mine.step()
        torchs.step()
        change = (ours.detach() - before_ours).flatten()
        reference = (theirs.detach() - before_theirs).flatten()
        assert nn.functional.cosine_similarity(change, reference, 0) > 0.999
        assert float(change.norm() / reference.norm()) == pytest.approx(1, abs=0.02)


def test_two_updates_follow_the_formula():
    weight = nn.Parameter(torch.randn(16, 24, dtype=torch.float64))
    optimizer = Muon(
        [{"params": [weight], "parts": [(16,)]}], lr=0.1, weight_decay=0.5, momentum=0.9
    )
    expected, momentum = weight.detach().clone(), torch.zeros_like(weight)
    for _ in range(2):
        gradient = torch.randn_like(weight)
        weight.grad = gradient.clone()
        optimizer.step()
        momentum = 0.9 * momentum + 0.1 * gradient
        [direction] = orthogonalize((0.1 * gradient + 0.9 * momentum)[None])
        expected = expected * (1 - 0.1 * 0.5) - 0.1 * 0.2 * math.sqrt(24) * direction
        torch.testing.assert_close(weight.detach(), expected, rtol=0, atol=1e-12)


def test_parts_of_a_packed_matrix_are_updated_like_matrices_of_their_own():
    packed = nn.Parameter(torch.randn(64, 32))
    rows = (32, 16, 16)
    single = [nn.Parameter(part.detach().clone()) for part in packed.split(rows)]
    packed.grad = torch.randn(64, 32)
    for parameter, gradient in zip(single, packed.grad.split(rows), strict=True):
        parameter.grad = gradient.clone()
    Muon([{"params": [packed], "parts": [rows]}], lr=0.1).step()
    Muon([{"params": single, "parts": [(len(p),) for p in single]}], lr=0.1).step()
    torch.testing.assert_close(packed.detach(), torch.cat([p.detach() for p in single]))


class Everything(nn.Module):
    """One layer of every kind."""

    def __init__(self):
        super().__init__()
        self.embedding = TokenEmbedding(50, 32)
        self.projection = Packed(32, 32, 16, bias=True)
        self.feed_forward = nn.Linear(32, 64)
        self.convolution = nn.Conv2d(16, 32, 3).to(memory_format=torch.channels_last)
        self.first = nn.Conv2d(1, 16, 3)  # a row has 9 numbers
        self.recurrent = nn.LSTM(32, 16)
        self.energy = nn.Linear(32, 1)
        self.norm = nn.LayerNorm(32)
        self.head = nn.Linear(32, 20)


def test_matrices_of_hidden_layers_are_selected_and_no_others():
    model = Everything()
    names = {parameter: name for name, parameter in model.named_parameters()}
    assert {names[weight]: parts for weight, parts in hidden_matrices(model).items()} == {
        "projection.weight": (32, 16, 16),
        "feed_forward.weight": (64,),
        "convolution.weight": (32,),
        "recurrent.weight_ih_l0": (16, 16, 16, 16),
        "recurrent.weight_hh_l0": (16, 16, 16, 16),
    }
    model.feed_forward.weight.requires_grad_(False)
    assert model.feed_forward.weight not in hidden_matrices(model)


def train(model, optimizer, steps, seed):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        for parameter in model.parameters():
            parameter.grad = torch.randn(parameter.shape, generator=generator)
        optimizer.step()


def test_every_weight_is_updated():
    model = Everything()
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    train(model, OptimConfig(kind="muon").build(model, 0.01), 1, 0)
    for name, weight in model.named_parameters():
        assert not torch.equal(weight, before[name]), name


def test_a_restored_optimizer_continues_to_the_bit():
    torch.manual_seed(0)
    one, config = Everything(), OptimConfig(kind="muon", layer_decay=0.9)
    two = Everything()
    optimizer = config.build(one, 0.01)
    train(one, optimizer, 3, 0)
    two.load_state_dict(one.state_dict())
    other = config.build(two, 0.01)
    saved = checkpoint.flatten_optimizer(optimizer)
    checkpoint.restore_optimizer(other, {name: tensor.clone() for name, tensor in saved.items()})
    train(one, optimizer, 2, 1)
    train(two, other, 2, 1)
    for mine, theirs in zip(one.parameters(), two.parameters(), strict=True):
        assert torch.equal(mine, theirs)
