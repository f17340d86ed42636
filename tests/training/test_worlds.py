"""Any number of processes makes the same updates, with all weights in each or a part of them."""

import copy
from contextlib import suppress

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from saccade.training import checkpoint
from saccade.training.distributed import World
from saccade.training.muon import orthogonalize, rows_of_ranks, update_rows
from saccade.training.parallel import Replicas, own_layers, recompute_layers
from tests.training.runs import metrics, prepare
from tests.training.worlds import TRANSFORMER, train_in_worlds

MUON = "training.optim.kind=muon"
EXACT, SINGLE = 1e-9, 1e-3
"""Largest relative difference of two curves in float64, and in float32."""


def job(out, *parts, **options):
    return {
        "out": out,
        "parts": [{"world": part} if type(part) is int else part for part in parts],
    } | options


def whole(name, **options):
    return job(name, 1, recipe="transformer.toml", **options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = prepare(tmp_path_factory.mktemp("worlds") / "it")
    (folder / "transformer.toml").write_text(TRANSFORMER)
    return folder


def assert_same_curves(folder, one, other, tolerance):
    """Compare the losses and gradients of all updates, and the final weights."""
    ours, theirs = metrics(folder / one), metrics(folder / other)
    assert [line["step"] for line in ours] == [line["step"] for line in theirs]
    for mine, yours in zip(ours, theirs, strict=True):
        assert mine.get("predictions") == yours.get("predictions")  # the same batches
        for name in ("loss", "gradient", "train_loss", "valid_loss", "epoch"):
            assert mine.get(name, 0) == pytest.approx(yours.get(name, 0), rel=tolerance), name
    weights = [load_file(folder / out / "model.safetensors") for out in (one, other)]
    assert weights[0].keys() == weights[1].keys()
    for name, tensor in weights[0].items():
        torch.testing.assert_close(tensor, weights[1][name], rtol=tolerance, atol=tolerance)


def assert_same_checkpoints(folder, one, other):
    """Compare the newest checkpoints: their tensors have the same names and shapes."""
    saved = [checkpoint.newest(folder / out / "checkpoints") for out in (one, other)]
    for group, tensors in saved[0].tensors.items():
        shapes = [{n: t.shape for n, t in c.tensors[group].items()} for c in saved]
        assert shapes[0] == shapes[1], group
        for name, tensor in tensors.items():
            theirs = saved[1].tensors[group][name].to(tensor.dtype)
            torch.testing.assert_close(tensor, theirs, rtol=1e-6, atol=1e-8)


def test_a_run_may_change_between_one_process_ddp_and_fsdp(folder):
    """With dropout, Muon, an average and activations that are recomputed."""
    fsdp = {"world": 2, "parallel": "fsdp"}
    changed = job(
        "changed",
        {**fsdp, "stop": 3},
        {"world": 1, "stop": 4},
        {"world": 2, "stop": 5},
        fsdp,
        recipe="transformer.toml",
        changes=[MUON, "training.recompute=true"],
    )
    train_in_worlds(folder, [whole("one", changes=[MUON]), changed])
    assert_same_curves(folder, "one", "changed", EXACT)
    assert_same_checkpoints(folder, "one", "changed")
    bytes_of = {
        name: int((folder / f"{name}.bytes").read_text())
        for name in ("one-0", "changed-0", "changed-1")
    }
    assert max(bytes_of["changed-0"], bytes_of["changed-1"]) <= 0.65 * bytes_of["one-0"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "changes"),
    [
        ("transformer.toml", ()),
        ("transformer.toml", ("training.average.kind=last",)),
        ("tiny.toml", ()),
        ("tiny.toml", (MUON, "model.dim=16", "model.encoder.dim=16", "model.decoder.dim=32")),
    ],
    ids=["adamw", "last", "recurrent", "recurrent-muon"],
)
def test_two_shards_equal_one_process(folder, recipe, changes, request):
    name = request.node.callspec.id
    options = {"recipe": recipe, "changes": changes}
    shards = job(f"{name}-fsdp", {"world": 2, "parallel": "fsdp"}, **options)
    train_in_worlds(folder, [job(name, 1, **options), shards])
    assert_same_curves(folder, name, f"{name}-fsdp", EXACT)
    assert_same_checkpoints(folder, name, f"{name}-fsdp")


@pytest.mark.slow
def test_resuming_with_1_2_3_and_4_processes_changes_nothing(folder):
    """In float64, and with dropout; 3 processes do not divide the 4 batches of an update."""
    four = {"changes": ["training.update_tokens=320", "training.accumulate=1"]}
    orders = {
        "mixed": ((4, 2), (1, 4), (3, 7), (2, 9), (4, None)),
        "rising": ((1, 3), (2, 6), (4, None)),
        "falling": ((4, 5), (2, 8), (1, None)),
    }
    jobs = [
        job(name, *({"world": world, "stop": stop} for world, stop in parts), **four)
        for name, parts in orders.items()
    ]
    train_in_worlds(folder, [job("whole", 1, **four), *jobs])
    for name in orders:
        assert_same_curves(folder, "whole", name, EXACT)


@pytest.mark.slow
def test_more_processes_than_batches_resume_a_run_of_one_process(folder):
    """The first one trains alone if an update has one batch."""
    options = {"changes": ["training.accumulate=1"]}
    parts = ({"world": 1, "stop": 5}, {"world": 2})
    train_in_worlds(folder, [job("alone", 1, **options), job("resting", *parts, **options)])
    assert_same_curves(folder, "alone", "resting", EXACT)
    assert not (folder / "resting-1.bytes").exists()


@pytest.mark.slow
def test_100_updates_in_float32_have_the_same_loss_curve(folder):
    options = {"dtype": "float32", "recipe": "transformer.toml"}
    options["changes"] = ["training.max_steps=100", "training.update_tokens=320"]
    parts = [{"world": w, "stop": s} for w, s in ((2, 30), (4, 60), (1, 80), (2, None))]
    fsdp = job("single-fsdp", {"world": 2, "parallel": "fsdp"}, **options)
    train_in_worlds(
        folder, [job("single", 1, **options), job("single-changed", *parts, **options), fsdp]
    )
    for name in ("single-changed", "single-fsdp"):
        ours, theirs = metrics(folder / "single"), metrics(folder / name)
        assert len(ours) == len(theirs) >= 100
        for mine, yours in zip(ours, theirs, strict=True):
            for value in ("loss", "valid_loss"):
                assert mine.get(value, 0) == pytest.approx(yours.get(value, 0), rel=SINGLE)


# parts


def test_rows_of_ranks_are_those_that_torch_gives_them():
    for rows in (1, 2, 5, 16, 17):
        for count in (1, 2, 3, 4, 7):
            chunks = [len(chunk) for chunk in torch.zeros(rows, 3).chunk(count)]
            assert rows_of_ranks(rows, count) == chunks + [0] * (count - len(chunks))


def test_processes_with_some_rows_of_each_matrix_get_the_rows_of_its_update():
    generator = torch.Generator().manual_seed(0)
    parts = [(16,), (16, 16, 16), (33,), (17, 20)]
    matrices = [torch.randn(sum(rows), 24, generator=generator) for rows in parts]
    expected = [
        torch.cat(
            [orthogonalize(piece[None])[0] * max(piece.shape) ** 0.5 for piece in m.split(rows)]
        )
        for m, rows in zip(matrices, parts, strict=True)
    ]
    size = 3
    mailbox = {}

    class Mail(World):
        """Processes that run one after the other, again and again until all letters are there."""

        def exchange(self, given, shapes):
            number = mailbox[self.rank, "calls"] = mailbox.get((self.rank, "calls"), 0) + 1
            mailbox[number, self.rank] = given
            if any((number, rank) not in mailbox for rank in range(size)):
                raise LookupError
            return [mailbox[number, rank][self.rank] for rank in range(size)]

    def rows(rank):
        return [m.split(rows_of_ranks(len(m), size))[rank] for m in matrices]

    results = {}
    for _ in range(4):
        for rank in range(size):
            mailbox[rank, "calls"] = 0
            try:
                results[rank] = update_rows(rows(rank), parts, Mail(rank=rank, size=size))
            except LookupError:
                continue
    for i, update in enumerate(expected):
        torch.testing.assert_close(torch.cat([results[rank][i] for rank in range(size)]), update)


class Stack(nn.Module):
    def __init__(self, shared):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(5, 5) for _ in range(3))
        if shared:
            self.layers[2].weight = self.layers[0].weight

    def forward(self, x):
        for layer in self.layers:
            x = torch.nn.functional.dropout(layer(x), 0.5, self.training)
        return x


def test_layers_that_share_a_weight_are_not_divided_by_themselves():
    stack = Stack(shared=False)
    assert own_layers(stack) == list(stack.layers)
    stack = Stack(shared=True)
    assert own_layers(stack) == [stack.layers[1]]


def test_recomputed_layers_give_the_same_gradient_and_can_be_undone():
    stack = Stack(shared=False).train()
    stack.layers = nn.ModuleList(
        nn.Sequential(nn.Linear(5, 20), nn.GELU(), nn.Dropout(0.5), nn.Linear(20, 5))
        for _ in range(3)
    )
    other = copy.deepcopy(stack)
    undo = recompute_layers(other)
    x, kept = torch.randn(7, 5), []

    def keep(tensor):
        kept[-1] += tensor.numel()
        return tensor

    for module in (stack, other):
        torch.manual_seed(0)
        kept.append(0)
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            loss = module(x).sum()
        loss.backward()
    assert kept[1] < kept[0] / 2  # numbers that are kept for the backward pass
    for mine, yours in zip(stack.parameters(), other.parameters(), strict=True):
        assert torch.equal(mine.grad, yours.grad)
    for step in undo:
        step()
    assert not [layer for layer in other.layers if "forward" in vars(layer)]


def test_the_weights_are_back_after_a_validation_even_if_it_fails():
    replicas = Replicas.__new__(Replicas)  # a task would take longer to make
    replicas.model, replicas.world = nn.Linear(2, 2), World()
    before = replicas.model.weight.detach().clone()
    other = {"weight": torch.full((2, 2), 7.0)}
    with suppress(KeyError), replicas.complete(other):
        assert torch.equal(replicas.model.weight, other["weight"])
        raise KeyError
    assert torch.equal(replicas.model.weight, before)
