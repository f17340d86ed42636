"""AdamW, the learning rate over time, and the running average of the weights."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from annotated_types import Gt, Le
from torch import nn

from saccade.config import Conflict, Count, Fraction, NotNegative, Positive, Whole, without_effect
from saccade.errors import RecipeError
from saccade.shapes import Tensor

WARMEST = 0.1
"""The share of the budget at which a warm-up is over in any case."""


@dataclass(frozen=True, kw_only=True)
class OptimConfig:
    """How weights are changed.

    schedule       after the warm-up: "constant", "inverse_sqrt" (Vaswani et al. 2017), or
                   "cosine" or "linear" down to `final_rate` of the learning rate at the end of
                   the budget, be it steps or minutes, whichever is further on
    warmup         updates over which the learning rate rises from 0; with "cosine" and "linear" it
                   is over when a tenth of the budget is used up
    clip           gradients longer than this are shortened to it; 0 leaves them
    layer_decay    each layer learns at this share of the rate of the one above it, embeddings the
                   slowest: for fine-tuning (Howard and Ruder 2018)
    freeze         parts that do not learn, by how their names begin: ["encoder.stem"]
    """

    betas: tuple[Fraction, Fraction] = (0.9, 0.98)
    eps: Positive = 1e-9
    weight_decay: NotNegative = 0.01
    schedule: Literal["constant", "inverse_sqrt", "cosine", "linear"] = "cosine"
    warmup: Whole = 400
    final_rate: Fraction = 0.01
    clip: NotNegative = 1.0
    layer_decay: Annotated[float, Gt(0), Le(1)] = 1.0
    freeze: tuple[str, ...] = ()

    def conflicts(self) -> Iterator[Conflict]:
        """The end of a learning rate that does not fall to one."""
        if self.schedule not in ("cosine", "linear"):
            reason = f'with schedule = "{self.schedule}"'
            yield from without_effect(self, ["final_rate"], reason)

    def make(self, model: nn.Module, learning_rate: float) -> torch.optim.AdamW:
        """AdamW; weights decay, biases, norms and other vectors do not.

        Each group of weights has a `scale`, its share of the learning rate.
        """
        freeze(model, self.freeze)
        shares = layer_shares(model, self.layer_decay)
        groups: dict[tuple[float, bool], list[nn.Parameter]] = {}
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                groups.setdefault((shares[name], parameter.ndim <= 1), []).append(parameter)
        if not groups:
            raise RecipeError(f"optim.freeze = {list(self.freeze)} leaves nothing to learn")
        return torch.optim.AdamW(
            [
                {
                    "params": parameters,
                    "weight_decay": 0.0 if is_vector else self.weight_decay,
                    "scale": share,
                }
                for (share, is_vector), parameters in groups.items()
            ],
            lr=learning_rate,
            betas=self.betas,
            eps=self.eps,
            fused=True,
        )

    def factor(self, step: int, progress: float) -> float:
        """What the learning rate is multiplied with in update `step` (from 0).

        `progress` is the share of the budget that is used up.

        >>> OptimConfig(schedule="inverse_sqrt", warmup=100).factor(399, 0.0)
        0.5
        """
        risen = (step + 1) / max(1, self.warmup)
        if self.schedule in ("cosine", "linear"):  # which know how long a training will be
            risen = max(risen, progress / WARMEST)
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
        return self.final_rate + (1 - self.final_rate) * falling


def freeze(model: nn.Module, beginnings: Sequence[str]) -> None:
    """Keep the weights whose names begin so as they are."""
    names = [name for name, _ in model.named_parameters()]
    for beginning in beginnings:
        if not any(name.startswith(beginning) for name in names):
            parts = dict.fromkeys(".".join(name.split(".")[:2]) for name in names)
            raise RecipeError(
                f"optim.freeze: nothing of the model begins with {beginning!r}; its parts are "
                f"{', '.join(parts)}"
            )
    for name, parameter in model.named_parameters():
        if name.startswith(tuple(beginnings)):
            parameter.requires_grad = False


def layer_shares(model: nn.Module, decay: float) -> dict[str, float]:
    """Of the learning rate, by the name of each weight: decay to the power of what lies above it.

    What stands before the layers of a stack is its lowest place, what comes after them is above.
    """
    names = [name for name, _ in model.named_parameters()]
    places = {name: (found[1], int(found[2])) for name in names if (found := _LAYER.match(name))}
    heights: dict[str, int] = {}
    for stack, number in places.values():
        heights[stack] = max(heights.get(stack, 0), number + 1)
    for name in names:
        if (found := _BEFORE.match(name)) and found[1] in heights:
            places[name] = (found[1], -1)
    above = {name: heights[stack] - number for name, (stack, number) in places.items()}
    return {name: decay ** above.get(name, 0) for name in names}


_LAYER = re.compile(r"(.*?)\.layers\.(\d+)\.")
_BEFORE = re.compile(r"(.*?)\.(?:stem|stem_norm|embedding|position)\.")
"""The parts that stand before the layers of a stack."""


@dataclass(frozen=True, kw_only=True)
class AverageConfig:
    """Which weights are validated and kept: the plain ones, or an average of the recent ones.

    kind    "none"; "ema": an exponential moving average over the updates; "last": the mean of
            those at the last `last` validations (the checkpoints of Vaswani et al. 2017)
    decay   how much of the average is kept at each update; less in the beginning
    """

    kind: Literal["none", "ema", "last"] = "ema"
    decay: Fraction = 0.999
    last: Count = 5

    def conflicts(self) -> Iterator[Conflict]:
        """Options of another kind of average."""
        unused = {"none": ["decay", "last"], "ema": ["last"], "last": ["decay"]}[self.kind]
        yield from without_effect(self, unused, f'with kind = "{self.kind}"')


class Average:
    """The running average of a model's weights, made from snapshots of them by step.

    With the weights go the statistics that batch norm keeps: they are of the weights of the moment.
    """

    def __init__(self, config: AverageConfig, model: nn.Module) -> None:
        self.config = config
        kept = model.state_dict(keep_vars=True).values()  # not the tables that can be made anew
        others = [tensor for tensor in kept if tensor.is_floating_point()]
        each = {id(tensor): tensor for tensor in (*model.parameters(), *others)}
        self._tensors = list(each.values())
        self.snapshots: dict[int, list[Tensor]] = {}
        if config.kind == "ema":
            self.snapshots[0] = self._copy()

    @torch.no_grad()
    def after_update(self, step: int) -> None:
        """Take in the weights after update `step` (from 0)."""
        if self.config.kind == "ema":
            decay = min(self.config.decay, (1 + step) / (10 + step))
            now = [tensor.detach() for tensor in self._tensors]
            torch._foreach_lerp_(self.snapshots[0], now, 1 - decay)

    def before_validation(self, step: int) -> None:
        """Take in the weights that are about to be validated."""
        if self.config.kind == "last":
            self.snapshots[step] = self._copy()
            for old in sorted(self.snapshots)[: -self.config.last]:
                del self.snapshots[old]

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The average in the place of the model's weights, for the length of a `with` block."""
        own = [tensor.data for tensor in self._tensors]
        averaged = [
            torch.stack(parts).mean(0) for parts in zip(*self.snapshots.values(), strict=True)
        ]
        for tensor, other in zip(self._tensors, averaged or own, strict=True):
            tensor.data = other
        try:
            yield
        finally:
            for tensor, mine in zip(self._tensors, own, strict=True):
                tensor.data = mine

    def tensors(self) -> dict[str, Tensor]:
        """All snapshots, for a checkpoint: "last.500.3" is the fourth weight at step 500."""
        return {
            f"{self.config.kind}.{step}.{i}": tensor
            for step, tensors in self.snapshots.items()
            for i, tensor in enumerate(tensors)
        }

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take the snapshots of a checkpoint; those of another kind of average are of no use."""
        found: dict[int, dict[int, Tensor]] = {}
        for name, tensor in tensors.items():
            kind, step, i = name.split(".")
            if kind == self.config.kind:
                found.setdefault(int(step), {})[int(i)] = tensor
        self.snapshots = {
            step: [parts[i].to(p.device) for i, p in enumerate(self._tensors)]
            for step, parts in found.items()
        } or self.snapshots

    def _copy(self) -> list[Tensor]:
        return [tensor.detach().clone() for tensor in self._tensors]
