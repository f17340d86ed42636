"""AdamW, the learning rate over time, and the running average of the weights."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from saccade.config import Count, NotNegative, Positive, Share, Whole
from saccade.shapes import Tensor


@dataclass(frozen=True, kw_only=True)
class OptimConfig:
    """How weights are changed.

    schedule       after the warm-up: "constant", "inverse_sqrt" (Vaswani et al. 2017), or
                   "cosine" or "linear" down to `final_rate` of the learning rate at the end of
                   the budget, be it steps or minutes, whichever is further on
    warmup         updates over which the learning rate rises from 0
    clip           gradients longer than this are shortened to it; 0 leaves them
    """

    betas: tuple[Share, Share] = (0.9, 0.98)
    eps: Positive = 1e-9
    weight_decay: NotNegative = 0.01
    schedule: Literal["constant", "inverse_sqrt", "cosine", "linear"] = "cosine"
    warmup: Whole = 400
    final_rate: Share = 0.01
    clip: NotNegative = 1.0

    def make(self, model: nn.Module, learning_rate: float) -> torch.optim.AdamW:
        """AdamW; weights decay, biases, norms and other vectors do not."""
        weights = [p for p in model.parameters() if p.requires_grad]
        groups = [
            {"params": [p for p in weights if p.ndim > 1], "weight_decay": self.weight_decay},
            {"params": [p for p in weights if p.ndim <= 1], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(
            [group for group in groups if group["params"]],
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
        if step < self.warmup:
            return (step + 1) / self.warmup
        match self.schedule:
            case "constant":
                return 1.0
            case "inverse_sqrt":
                return math.sqrt(max(1, self.warmup) / (step + 1))
            case "cosine":
                falling = (1 + math.cos(math.pi * min(1.0, progress))) / 2
            case "linear":
                falling = 1 - min(1.0, progress)
        return self.final_rate + (1 - self.final_rate) * falling


@dataclass(frozen=True, kw_only=True)
class AverageConfig:
    """Which weights are validated and kept: the plain ones, or an average of the recent ones.

    kind    "none"; "ema": an exponential moving average over the updates; "last": the mean of
            those at the last `last` validations (the checkpoints of Vaswani et al. 2017)
    decay   how much of the average is kept at each update; less in the beginning
    """

    kind: Literal["none", "ema", "last"] = "ema"
    decay: Share = 0.999
    last: Count = 5


class Average:
    """The running average of a model's weights, made from snapshots of them by step."""

    def __init__(self, config: AverageConfig, model: nn.Module) -> None:
        self.config = config
        self._model = model
        self.snapshots: dict[int, list[Tensor]] = {}
        if config.kind == "ema":
            self.snapshots[0] = self._copy()

    @torch.no_grad()
    def after_update(self, step: int) -> None:
        """Take in the weights after update `step` (from 0)."""
        if self.config.kind == "ema":
            decay = min(self.config.decay, (1 + step) / (10 + step))
            now = [p.detach() for p in self._model.parameters()]
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
        parameters = list(self._model.parameters())
        own = [p.data for p in parameters]
        averaged = [
            torch.stack(parts).mean(0) for parts in zip(*self.snapshots.values(), strict=True)
        ]
        for parameter, other in zip(parameters, averaged or own, strict=True):
            parameter.data = other
        try:
            yield
        finally:
            for parameter, mine in zip(parameters, own, strict=True):
                parameter.data = mine

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
        like = list(self._model.parameters())
        self.snapshots = {
            step: [parts[i].to(p.device) for i, p in enumerate(like)]
            for step, parts in found.items()
        } or self.snapshots

    def _copy(self) -> list[Tensor]:
        return [p.detach().clone() for p in self._model.parameters()]
