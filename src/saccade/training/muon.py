"""Muon for the matrices of hidden layers, AdamW for all other weights."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from saccade.attention.projection import Packed
from saccade.shapes import Float, Tensor
from saccade.training.distributed import World
from saccade.training.sharded_tensors import is_sharded, local

COEFFICIENTS = (
    (8.3837, -24.7661, 18.3572),
    (4.0434, -3.0114, 0.5695),
    (3.5056, -2.6267, 0.5257),
    (2.4901, -1.8343, 0.4368),
)
"""Coefficients of the quintic polynomial of each iteration. Each is the best for the range of
singular values that the one before it leaves, from [0.003, 1] on (Amsel et al. 2025)."""
LONG = 2
"""Columns per row from which iterations on the small matrix X X^T cost less than those on X."""
SIZE = 0.2
"""Root mean square of an update by AdamW, relative to the learning rate."""
SMALLEST = 16
"""Rows and columns below which a matrix is updated by AdamW."""
Parts = tuple[int, ...]


def hidden_matrices(model: nn.Module) -> dict[nn.Parameter, Parts]:
    """Return the matrices that Muon updates, with the numbers of rows of their parts.

    These are the weights of linear layers, convolutions (a row per output channel) and recurrent
    layers. Tables (embeddings, positions), the output layer over a vocabulary or over labels, and
    matrices with few rows or columns are left to AdamW. A packed projection has the parts query,
    key and value, a recurrent layer one part per gate.

    Example:
        >>> list(hidden_matrices(nn.GRU(32, 64)).values())
        [(64, 64, 64), (64, 64, 64)]
    """
    matrices = {weight: parts for module in _hidden(model) for weight, parts in _weights(module)}
    return {
        weight: parts
        for weight, parts in matrices.items()
        if weight.requires_grad and min(*parts, math.prod(weight.shape[1:])) >= SMALLEST
    }


def _hidden(model: nn.Module) -> Iterator[nn.Module]:
    for name, module in model.named_modules():
        if name.rpartition(".")[2] != "head":
            yield module


def _weights(module: nn.Module) -> Iterator[tuple[nn.Parameter, Parts]]:
    match module:
        case Packed():
            yield module.weight, module.widths
        case nn.Linear(weight=weight) | nn.Conv1d(weight=weight) | nn.Conv2d(weight=weight):
            if isinstance(weight, nn.Parameter):
                yield weight, (len(weight),)
        case nn.RNNBase():
            for weight in module.parameters(recurse=False):
                if weight.ndim > 1:
                    yield weight, (module.hidden_size,) * (len(weight) // module.hidden_size)


def orthogonalize(matrices: Float[Tensor, "n r c"]) -> Float[Tensor, "n r c"]:
    r"""Return matrices with nearly the same singular vectors, whose singular values are near 1.

    Four Newton-Schulz iterations $X \leftarrow aX + (bXX^\top + c(XX^\top)^2)X$ (Jordan et al.
    2024, "Muon: an optimizer for hidden layers in neural networks") bring all singular values above
    0.003 times the Frobenius norm into [0.8, 1.2]. Their coefficients differ, as in Amsel et al.
    2025 ("The Polar Express"), so that four do the work of five equal ones.
    """
    x = matrices.mT if matrices.shape[-2] > matrices.shape[-1] else matrices
    x = x / torch.linalg.matrix_norm(x, keepdim=True).clamp_min(1e-7)
    if x.shape[-1] >= LONG * x.shape[-2]:
        x = _product_of_polynomials(x @ x.mT) @ x
    else:
        for coefficients in COEFFICIENTS:
            x = _polynomial(x @ x.mT, *coefficients) @ x
    return x.mT if matrices.shape[-2] > matrices.shape[-1] else x


def _product_of_polynomials(gram: Float[Tensor, "n r r"]) -> Float[Tensor, "n r r"]:
    """Return the matrix that all iterations together multiply by, from X X^T of the first."""
    product = _polynomial(gram, *COEFFICIENTS[0])
    last = product
    for coefficients in COEFFICIENTS[1:]:
        gram = last @ gram @ last
        last = _polynomial(gram, *coefficients)
        product = last @ product
    return product


def _polynomial(gram: Float[Tensor, "n r r"], a: float, b: float, c: float) -> Tensor:
    """Return aI + bG + cG^2."""
    inner = c * gram
    inner.diagonal(dim1=-2, dim2=-1).add_(b)
    outer = gram @ inner
    outer.diagonal(dim1=-2, dim2=-1).add_(a)
    return outer


def orthogonalize_all(
    matrices: Sequence[Float[Tensor, "r c"]], world: World
) -> list[Float[Tensor, "r c"]]:
    """Orthogonalize matrices of any shapes; several processes divide them among each other.

    Matrices of one shape are one batch. Every process has every matrix, and gets every result.
    """
    shares = _shares([matrix.shape for matrix in matrices], world.size)
    results: dict[int, Tensor] = {}
    for batch in shares[world.rank]:
        updates = orthogonalize(torch.stack([matrices[i] for i in batch]))
        results |= zip(batch, updates.unbind(), strict=True)
    if world.size > 1:
        order = [[i for batch in share for i in batch] for share in shares]
        counts = [[matrices[i].numel() for i in indices] for indices in order]
        vector = matrices[0].new_zeros(max(map(sum, counts)))
        own = [results[i].flatten() for i in order[world.rank]]
        if own:
            vector[: sum(counts[world.rank])] = torch.cat(own)
        for indices, sizes, gathered in zip(order, counts, world.gather(vector), strict=True):
            pieces = gathered[: sum(sizes)].split(sizes)
            for i, piece in zip(indices, pieces, strict=True):
                results[i] = piece.view_as(matrices[i])
    return [results[i] for i in range(len(matrices))]


def _shares(shapes: Sequence[torch.Size], count: int) -> list[list[list[int]]]:
    """Divide matrices into shares of about equal work; a share has one batch per shape."""
    shares: list[dict[torch.Size, list[int]]] = [{} for _ in range(count)]
    work = [0] * count
    cost = [max(shape) * min(shape) ** 2 for shape in shapes]
    for i in sorted(range(len(shapes)), key=lambda i: -cost[i]):
        least = work.index(min(work))
        shares[least].setdefault(shapes[i], []).append(i)
        work[least] += cost[i]
    return [list(share.values()) for share in shares]


def update_rows(
    matrices: Sequence[Float[Tensor, "n c"]], parts: Sequence[Parts], world: World
) -> list[Float[Tensor, "n c"]]:
    """Orthogonalize matrices of which each process has some rows; scale them by their size.

    Each matrix is gathered in the process that orthogonalizes it, which gives the rows back.

    Args:
        matrices: the rows of this process: of equal numbers in all processes but the last ones,
            which have fewer or none.
        parts: the numbers of rows of the parts of each complete matrix.
        world: the processes.

    Returns:
        The rows of this process, times the square root of the longer side of their part.
    """
    shapes = [torch.Size((sum(rows), m.shape[1])) for m, rows in zip(matrices, parts, strict=True)]
    owned = [sorted(i for batch in share for i in batch) for share in _shares(shapes, world.size)]
    counts = [rows_of_ranks(shape[0], world.size) for shape in shapes]
    mine = owned[world.rank]
    received = world.exchange(
        [[matrices[i] for i in indices] for indices in owned],
        [[(counts[i][rank], shapes[i][1]) for i in mine] for rank in range(world.size)],
    )
    whole = {i: torch.cat([rows[at] for rows in received]) for at, i in enumerate(mine)}
    pieces = [(i, piece) for i in mine for piece in whole[i].split(parts[i])]
    directions = orthogonalize_all([piece for _, piece in pieces], World())
    for (_, piece), direction in zip(pieces, directions, strict=True):
        piece.copy_(direction * math.sqrt(max(piece.shape)))  # a view of the whole matrix
    given = world.exchange(
        [[whole[i].split(counts[i])[rank] for i in mine] for rank in range(world.size)],
        [[(len(matrices[i]), shapes[i][1]) for i in indices] for indices in owned],
    )
    updates = {
        i: rows
        for indices, back in zip(owned, given, strict=True)
        for i, rows in zip(indices, back, strict=True)
    }
    return [updates[i] for i in range(len(matrices))]


def rows_of_ranks(rows: int, count: int) -> list[int]:
    """Return how many rows of a matrix each of several processes has.

    >>> rows_of_ranks(5, 4)
    [2, 2, 1, 0]
    """
    most = -(-rows // count)
    return [min(most, max(0, rows - rank * most)) for rank in range(count)]


class Muon(torch.optim.AdamW):
    r"""Muon for the groups of weights with "parts", AdamW for the others.

    The update of a matrix is its momentum, orthogonalised and scaled to the size that an update by
    AdamW has ($0.2\sqrt{\max(r, c)}$; Liu et al. 2025, "Muon is scalable for LLM training"), so
    that both can have the same learning rate and weight decay. `torch.optim.Muon` computes the same
    for one matrix after the other, in bfloat16; here, matrices of equal shape are one batch, in the
    precision of the weights, and processes that train together divide the matrices among them.

    Args:
        groups: groups of weights as AdamW takes them. A group for Muon also has "parts", the
            numbers of rows of the parts of each of its weights.
        momentum: fraction of the running average of gradients that is kept per update.
        world: the processes that make the same updates.
        options: options of AdamW.
    """

    def __init__(
        self,
        groups: Sequence[Mapping[str, Any]],
        *,
        momentum: float = 0.95,
        world: World | None = None,
        **options: Any,
    ) -> None:
        super().__init__([dict(group) for group in groups], **options)
        self.world = world or World()
        # `GradScaler` leaves out a step with overflown gradients, as it does for plain optimizers
        self._step_supports_amp_scaling = False
        for group in self.param_groups:
            group.setdefault("parts", None)
            group["momentum"] = momentum

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update all weights."""
        matrices = [
            (weight, weight.grad)
            for group in self.param_groups
            if group["parts"] is not None
            for weight in group["params"]
        ]
        for group in self.param_groups:
            if group["parts"] is not None:
                self._update_matrices(group)
        for weight, _ in matrices:
            weight.grad = None  # so that AdamW leaves it alone
        super().step(closure)
        for weight, gradient in matrices:
            weight.grad = gradient

    def _update_matrices(self, group: Mapping[str, Any]) -> None:
        learned = [
            (weight, rows)
            for weight, rows in zip(group["params"], group["parts"], strict=True)
            if weight.grad is not None
        ]
        if not learned:
            return
        for weight, _ in learned:
            if not self.state[weight]:  # AdamW wants a step from every state that is restored
                self.state[weight] |= {
                    "step": torch.zeros(()),
                    "momentum": torch.zeros_like(weight),
                }
        # of weights that processes have divided among them, the rows of this process
        weights = [local(weight) for weight, _ in learned]
        gradients = [local(weight.grad) for weight, _ in learned]
        momenta = [local(self.state[weight]["momentum"]) for weight, _ in learned]
        torch._foreach_lerp_(momenta, gradients, 1 - group["momentum"])
        directions = torch._foreach_lerp(gradients, momenta, group["momentum"])  # Nesterov
        torch._foreach_mul_(weights, 1 - group["lr"] * group["weight_decay"])
        if is_sharded(learned[0][0]):
            matrices = [direction.flatten(1) for direction in directions]
            updates = update_rows(matrices, [rows for _, rows in learned], self.world)
            for weight, update in zip(weights, updates, strict=True):
                weight.add_(update.view(weight.shape), alpha=-group["lr"] * SIZE)
            return
        parts = [
            (part, towards.flatten(1))
            for weight, (_, rows), direction in zip(weights, learned, directions, strict=True)
            for part, towards in zip(weight.split(rows), direction.split(rows), strict=True)
        ]
        updates = orthogonalize_all([towards for _, towards in parts], self.world)
        for (part, towards), update in zip(parts, updates, strict=True):
            rate = group["lr"] * SIZE * math.sqrt(max(towards.shape))
            part.add_(update.view(part.shape), alpha=-rate)
