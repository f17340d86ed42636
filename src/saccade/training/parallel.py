"""How processes divide the training of one model among them.

Replicas (DDP): each process has all weights, gradients and the state of the optimizer, and adds up
gradients with the others. Shards (FSDP): each process has some rows of every tensor. A layer's
weights are gathered for the time in which the layer computes, so a model can be larger than the
memory of one device. Both make the same updates, and read and write the same checkpoints.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, Literal, Protocol

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from saccade.shapes import Tensor
from saccade.tasks import Loss, Task
from saccade.training.distributed import World
from saccade.training.run import put_tensors, require_shapes
from saccade.training.sharded_tensors import put_rows, whole

ParallelKind = Literal["ddp", "fsdp"]
_LAYER = re.compile(r"(^|\.)layers\.\d+$")


class Parallel(Protocol):
    """The model in training, as this process has it.

    Attributes:
        model: the model whose weights the optimizer updates.
    """

    model: nn.Module

    def loss(self, batch: Any) -> Loss:
        """Return the loss of a batch."""

    def train(self) -> None:
        """Turn dropout on."""

    def alone(self) -> AbstractContextManager[None]:
        """Return a context in which gradients are added up and need not be exchanged yet."""

    def complete(self, tensors: Mapping[str, Tensor] | None = None) -> AbstractContextManager[None]:
        """Return a context in which the task of the first process can predict.

        All processes must enter it.

        Args:
            tensors: weights and buffers, by name, in place of the current ones.
        """

    def put(self, tensors: Mapping[str, Tensor], where: str) -> None:
        """Replace the weights by complete tensors."""

    def release(self) -> None:
        """Leave the task as one that was never in training."""


def parallel(
    kind: ParallelKind, task: Task, world: World, *, recompute: bool = False
) -> Replicas | Shards:
    """Return a task for training together with the other processes.

    Args:
        kind: "ddp" or "fsdp"; one process needs neither.
        task: the task.
        world: the processes.
        recompute: compute the activations of each layer again in the backward pass.
    """
    kinds: dict[str, type[Replicas] | type[Shards]] = {"ddp": Replicas, "fsdp": Shards}
    return (Replicas if world.size == 1 else kinds[kind])(task, world, recompute=recompute)


class Replicas:
    """A task of which every process has all weights."""

    def __init__(self, task: Task, world: World, *, recompute: bool) -> None:
        self.task, self.world, self.model = task, world, task.model
        self.plain = recompute_layers(task.model) if recompute else []
        self.learner = world.wrap(task)

    def loss(self, batch: Any) -> Loss:
        """Return the loss of a batch."""
        return self.learner(batch)

    def train(self) -> None:
        """Turn dropout on."""
        self.task.train()

    def alone(self) -> AbstractContextManager[None]:
        """Return a context in which gradients are added up but not exchanged yet."""
        return self.world.alone(self.learner)

    @contextmanager
    def complete(self, tensors: Mapping[str, Tensor] | None = None) -> Iterator[None]:
        """Put these tensors in the place of the weights inside the block."""
        if tensors is None or not self.world.first:
            yield
            return
        own = {**dict(self.model.named_parameters()), **dict(self.model.named_buffers())}
        before = {name: own[name].data for name in tensors}
        for name, tensor in tensors.items():
            own[name].data = tensor
        try:
            yield
        finally:
            for name, tensor in before.items():
                own[name].data = tensor

    def put(self, tensors: Mapping[str, Tensor], where: str) -> None:
        """Replace the weights."""
        put_tensors(self.model, tensors, where)

    def release(self) -> None:
        """Let the layers compute as before."""
        for undo in self.plain:
            undo()


class Shards:
    """A task of which every process has some rows of each weight (torch's `fully_shard`).

    The task itself keeps no weights in between; its copy learns.
    """

    def __init__(self, task: Task, world: World, *, recompute: bool) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        self.task, self.world = task, world
        learner = copy.copy(task)
        learner._modules = {name: copy.deepcopy(part) for name, part in task._modules.items()}
        self._empty()
        task.to(world.device)  # the buffers, which are small
        self.model = learner.model
        self.unit = _Unit(learner)
        if recompute:
            recompute_layers(self.model)
        mesh = init_device_mesh(world.device.type, (world.size,))
        for layer in reversed(own_layers(self.model)):
            fully_shard(layer, mesh=mesh)
        fully_shard(self.unit, mesh=mesh)
        for module in self.model.modules():
            if isinstance(module, nn.RNNBase):
                module.register_forward_pre_hook(_refresh)

    def loss(self, batch: Any) -> Loss:
        """Return the loss of a batch."""
        _, loss = self.unit(batch)
        return loss

    def train(self) -> None:
        """Turn dropout on."""
        self.unit.train()

    def alone(self) -> AbstractContextManager[None]:
        """Return a context without effect: gradients that are not exchanged would need memory."""
        return nullcontext()

    @contextmanager
    def complete(self, tensors: Mapping[str, Tensor] | None = None) -> Iterator[None]:
        """Gather all weights in the first process inside the block."""
        own = {**dict(self.model.named_parameters()), **dict(self.model.named_buffers())}
        theirs = {**dict(self.task.model.named_parameters())}
        buffers = dict(self.task.model.named_buffers())
        for name, tensor in (own | dict(tensors or {})).items():
            full = whole(tensor.detach())
            if self.world.first and name in theirs:
                theirs[name].data = full
            elif self.world.first:
                buffers[name].data = full.clone()
        try:
            yield
        finally:
            self._empty()

    def put(self, tensors: Mapping[str, Tensor], where: str) -> None:
        """Replace the weights by the rows of complete tensors."""
        shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        require_shapes(self.model, shapes, where)
        put_rows(self.model, tensors)

    def release(self) -> None:
        """Give the task memory for its weights again, which are those of no step."""
        shapes = {name: weight.shape for name, weight in self.model.named_parameters()}
        for name, weight in self.task.model.named_parameters():
            weight.data = weight.data.new_zeros(shapes[name])

    def _empty(self) -> None:
        for weight in self.task.model.parameters():
            weight.data = weight.data.new_empty(0)


class _Unit(nn.Module):
    """A task whose output is a tuple, in which torch finds the tensor that needs a gradient."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.task = task

    def forward(self, batch: Any) -> tuple[Tensor, Loss]:
        loss = self.task(batch)
        return loss.total, loss


def _refresh(module: nn.Module, args: object) -> None:
    """Let a recurrent network see its gathered weights: it keeps a list of them."""
    assert isinstance(module, nn.RNNBase)
    module._flat_weights = [module._parameters[name] for name in module._flat_weights_names]


def own_layers(model: nn.Module) -> list[nn.Module]:
    """Return the layers of the model's stacks that share no weight with another part."""
    layers = [module for name, module in model.named_modules() if _LAYER.search(name)]
    owners: dict[int, set[int]] = {}
    for i, layer in enumerate(layers):
        for weight in layer.parameters():
            owners.setdefault(id(weight), set()).add(i)
    inside: dict[int, int] = {}
    for module in model.modules():
        for weight in module._parameters.values():
            if weight is not None:
                inside[id(weight)] = inside.get(id(weight), 0) + 1
    return [
        layer
        for layer in layers
        if all(
            len(owners[id(weight)]) == 1 and inside[id(weight)] == 1
            for weight in layer.parameters()
        )
    ]


def recompute_layers(model: nn.Module) -> list[Callable[[], None]]:
    """Let each layer compute its activations again in the backward pass, not keep them.

    Returns:
        Functions that undo it.
    """
    layers = [module for name, module in model.named_modules() if _LAYER.search(name)]
    for layer in layers:
        layer.forward = partial(_recomputed, layer, layer.forward)
    return [partial(delattr, layer, "forward") for layer in layers]


def _recomputed(layer: nn.Module, plain: Callable[..., Any], *args: Any, **options: Any) -> Any:
    if not (layer.training and torch.is_grad_enabled()):
        return plain(*args, **options)
    return checkpoint(plain, *args, use_reentrant=False, **options)
