"""The optimizer, the learning rate over time, and the running average of the weights."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from annotated_types import Gt, Le
from torch import nn

from saccade.config import Conflict, Count, Fraction, NotNegative, Positive, Whole, without_effect
from saccade.errors import RecipeError
from saccade.shapes import Tensor
from saccade.training.distributed import World
from saccade.training.muon import Muon, hidden_matrices
from saccade.training.sharded_tensors import local, rows_of, with_rows

LATEST = 0.1
"""The fraction of the budget at which a warm-up ends at the latest."""
FALLING = ("cosine", "linear", "stable")
"""Schedules that know how long training will be, and fall to `final_rate` at its end."""
DECAY = 0.2
"""The fraction of the budget over which "stable" falls (Hägele et al. 2024: 0.1 to 0.2)."""


@dataclass(frozen=True, kw_only=True)
class OptimConfig:
    """The optimizer and the learning rate over time.

    kind           "adamw" (Loshchilov and Hutter 2019), or "muon" (Jordan et al. 2024), which
                   learns more per update: it updates the matrices of hidden layers by orthogonal
                   directions, and all other weights by AdamW
    momentum       with "muon", fraction of the average of gradients that is kept per update
    betas          decay rates of AdamW's averages of the gradient and of its square, per update;
                   a second value nearer to 1 suits small batches
    eps            added to the square root that AdamW divides by; raise it (1e-6) if the loss
                   jumps in low precision
    weight_decay   fraction of a weight, times the learning rate, that is taken off at each update;
                   biases, norms and other vectors are left out. Raise it (0.05 to 0.1) if the
                   model overfits
    schedule       learning rate after the warm-up: "constant", "inverse_sqrt" (Vaswani et al.
                   2017), or "cosine", "linear" or "stable", which fall to `final_rate` at the end
                   of the budget (steps or minutes, whichever runs out first). "stable" is constant
                   before its last fifth (Hägele et al. 2024). Choose "constant" if the budget may
                   grow later
    warmup         updates over which the learning rate rises from 0; with "cosine", "linear" and
                   "stable" it ends at the latest when a tenth of the budget is used. Raise it if
                   the loss jumps in the first updates
    final_rate     learning rate at the end of "cosine", "linear" and "stable", as a fraction of the
                   highest
    clip           maximum norm of the gradient (Euclidean, over all weights): a larger gradient is
                   scaled down to it; 0 clips nothing. With `loss.class_weights` the limit is
                   multiplied by the largest weight, or clipping would undo the weights
    layer_decay    learning rate of a layer as a fraction of that of the layer above, so that
                   embeddings learn slowest (Howard and Ruder 2018); 1 is the same rate for all.
                   Try 0.9 when fine-tuning
    freeze         parts that are not trained: prefixes of their names, such as ["encoder.stem"];
                   for fine-tuning with little data
    """

    kind: Literal["adamw", "muon"] = "adamw"
    momentum: Fraction = 0.95
    betas: tuple[Fraction, Fraction] = (0.9, 0.98)
    eps: Positive = 1e-9
    weight_decay: NotNegative = 0.01
    schedule: Literal["constant", "inverse_sqrt", "cosine", "linear", "stable"] = "cosine"
    warmup: Whole = 400
    final_rate: Fraction = 0.01
    clip: NotNegative = 1.0
    layer_decay: Annotated[float, Gt(0), Le(1)] = 1.0
    freeze: tuple[str, ...] = ()

    def conflicts(self) -> Iterator[Conflict]:
        """Yield `final_rate` if the schedule does not fall, and `momentum` without Muon."""
        if self.kind != "muon":
            yield from without_effect(self, ["momentum"], f'with kind = "{self.kind}"')
        if self.schedule not in FALLING:
            reason = f'with schedule = "{self.schedule}"'
            yield from without_effect(self, ["final_rate"], reason)

    def build(
        self, model: nn.Module, learning_rate: float, world: World | None = None
    ) -> torch.optim.Optimizer:
        """Return the optimizer over the weights that learn.

        Each group of weights has a `scale`, its fraction of the learning rate. Processes that train
        the model together can share the work of an update.

        Raises:
            RecipeError: if no weight learns.
        """
        fractions = layer_fractions(model, self.layer_decay)
        matrices = hidden_matrices(model) if self.kind == "muon" else {}
        groups: dict[tuple[float, bool, bool], list[nn.Parameter]] = {}
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                kind = fractions[name], parameter.ndim <= 1, parameter in matrices
                groups.setdefault(kind, []).append(parameter)
        if not groups:
            raise RecipeError(
                f"optim.freeze = {list(self.freeze)} leaves nothing to learn; freeze fewer parts"
            )
        options: dict[str, Any] = {
            "lr": learning_rate,
            "betas": self.betas,
            "eps": self.eps,
            "fused": True,
        }
        described: list[dict[str, Any]] = [
            {
                "params": parameters,
                "weight_decay": 0.0 if is_vector else self.weight_decay,
                "scale": fraction,
                "parts": [matrices[weight] for weight in parameters] if is_matrix else None,
            }
            for (fraction, is_vector, is_matrix), parameters in groups.items()
        ]
        if self.kind == "muon":
            return Muon(described, momentum=self.momentum, world=world, **options)
        return torch.optim.AdamW(described, **options)

    def factor(self, step: int, progress: float) -> float:
        """Return what the learning rate is multiplied by in an update.

        Args:
            step: number of the update, from 0.
            progress: fraction of the budget that is used.

        Example:
            >>> OptimConfig(schedule="inverse_sqrt", warmup=100).factor(399, 0.0)
            0.5
        """
        risen = (step + 1) / max(1, self.warmup)
        if self.schedule in FALLING:
            risen = max(risen, progress / LATEST)
        if risen < 1:
            return risen
        match self.schedule:
            case "constant":
                return 1.0
            case "inverse_sqrt":
                return min(1.0, math.sqrt(max(1, self.warmup) / (step + 1)))
            case "cosine":
                falling = (1 + math.cos(math.pi * min(1.0, progress))) / 2
            case "linear":
                falling = 1 - min(1.0, progress)
            case "stable":
                falling = min(1.0, (1 - min(1.0, progress)) / DECAY)
        return self.final_rate + (1 - self.final_rate) * falling


def freeze(model: nn.Module, prefixes: Sequence[str]) -> list[nn.Parameter]:
    """Turn off the gradients of weights whose names begin with a prefix; return those weights.

    Raises:
        RecipeError: if no weight begins with one of the prefixes.
    """
    weights = dict(model.named_parameters())
    for prefix in prefixes:
        if not any(name.startswith(prefix) for name in weights):
            parts = dict.fromkeys(".".join(name.split(".")[:2]) for name in weights)
            raise RecipeError(
                f"optim.freeze: no part of the model begins with {prefix!r}; its parts are "
                f"{', '.join(parts)}"
            )
    frozen = [
        weight
        for name, weight in weights.items()
        if name.startswith(tuple(prefixes)) and weight.requires_grad
    ]
    for weight in frozen:
        weight.requires_grad = False
    return frozen


def layer_fractions(model: nn.Module, decay: float) -> dict[str, float]:
    """Return the fraction of the learning rate of each weight, by its name.

    It is `decay` to the power of the number of layers above. Parts before the layers of a stack
    count as its lowest layer, parts after them have no layer above.
    """
    names = [name for name, _ in model.named_parameters()]
    places = {name: (match[1], int(match[2])) for name in names if (match := _LAYER.match(name))}
    heights: dict[str, int] = {}
    for stack, number in places.values():
        heights[stack] = max(heights.get(stack, 0), number + 1)
    for name in names:
        if (match := _BEFORE.match(name)) and match[1] in heights:
            places[name] = (match[1], -1)
    above = {name: heights[stack] - number for name, (stack, number) in places.items()}
    return {name: decay ** above.get(name, 0) for name in names}


_LAYER = re.compile(r"(.*?)\.layers\.(\d+)\.")
_BEFORE = re.compile(r"(.*?)\.(?:stem|stem_norm|embedding|position)\.")
"""Parts that come before the layers of a stack."""


@dataclass(frozen=True, kw_only=True)
class AverageConfig:
    """The weights that are validated and kept: the plain ones, or an average of recent ones.

    kind    "none": the current weights; "ema": an exponential moving average over the
            updates, good for most training runs; "last": the mean of the weights at the last `last`
            validations (the checkpoints of Vaswani et al. 2017)
    decay   with "ema", the fraction of the average that is kept at each update; it starts lower.
            Nearer to 1 for training runs of many thousand updates
    last    with "last", how many validations are averaged
    """

    kind: Literal["none", "ema", "last"] = "ema"
    decay: Fraction = 0.999
    last: Count = 5

    def conflicts(self) -> Iterator[Conflict]:
        """Yield options of another kind of average."""
        unused = {"none": ["decay", "last"], "ema": ["last"], "last": ["decay"]}[self.kind]
        yield from without_effect(self, unused, f'with kind = "{self.kind}"')


class Average:
    """The running average of a model's weights.

    It is made from snapshots by step. The statistics of batch norm are averaged with the weights
    they belong to.

    Args:
        config: the kind of average.
        model: the model, whose weights are read after each update.
    """

    def __init__(self, config: AverageConfig, model: nn.Module) -> None:
        self.config = config
        saved = model.state_dict(keep_vars=True)  # not the tables that can be rebuilt
        buffers = [(name, tensor) for name, tensor in saved.items() if tensor.is_floating_point()]
        unique: dict[int, tuple[str, Tensor]] = {}
        for name, tensor in (*model.named_parameters(), *buffers):
            unique.setdefault(id(tensor), (name, tensor))
        self._names = [name for name, _ in unique.values()]
        self._tensors = [tensor for _, tensor in unique.values()]
        self.snapshots: dict[int, list[Tensor]] = {}
        if config.kind == "ema":
            self.snapshots[0] = self._copy()

    @torch.no_grad()
    def after_update(self, step: int) -> None:
        """Take in the weights after an update; `step` counts from 0."""
        if self.config.kind == "ema":
            decay = min(self.config.decay, (1 + step) / (10 + step))
            now = [local(tensor.detach()) for tensor in self._tensors]
            torch._foreach_lerp_(self.snapshots[0], now, 1 - decay)

    def before_validation(self, step: int) -> None:
        """Take in the weights that are about to be validated."""
        if self.config.kind == "last":
            self.snapshots[step] = self._copy()
            for old in sorted(self.snapshots)[: -self.config.last]:
                del self.snapshots[old]

    def current(self) -> dict[str, Tensor]:
        """Return the averages by the names of the weights and buffers; empty if there are none."""
        averaged = [
            torch.stack(parts).mean(0) if parts[1:] else parts[0]
            for parts in zip(*self.snapshots.values(), strict=True)
        ]
        return {
            name: with_rows(average, tensor)
            for name, average, tensor in zip(self._names, averaged, self._tensors, strict=False)
        }

    def tensors(self) -> dict[str, Tensor]:
        """Return all snapshots by name: "last.500.3" is the fourth weight at step 500."""
        return {
            f"{self.config.kind}.{step}.{i}": with_rows(tensor, self._tensors[i])
            for step, tensors in self.snapshots.items()
            for i, tensor in enumerate(tensors)
        }

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the snapshots of a checkpoint; those of another kind of average are ignored."""
        snapshots: dict[int, dict[int, Tensor]] = {}
        for name, tensor in tensors.items():
            kind, step, i = name.split(".")
            if kind == self.config.kind:
                snapshots.setdefault(int(step), {})[int(i)] = tensor
        self.snapshots = {
            step: [rows_of(parts[i], p).to(p.device) for i, p in enumerate(self._tensors)]
            for step, parts in snapshots.items()
        } or self.snapshots

    def _copy(self) -> list[Tensor]:
        return [local(tensor.detach()).clone() for tensor in self._tensors]
