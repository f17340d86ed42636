"""Several processes that train one model: torchrun starts them, DDP adds up their gradients.

    torchrun --nproc-per-node 2 -m saccade train ...

Each process reads its own share of the batches, which is known from (step, rank, world) alone. When
one dies, torchrun starts all anew; they go on from the newest checkpoint.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
from torch import distributed, nn
from torch._C._distributed_c10d import PrefixStore, TCPStore
from torch.nn.parallel import DistributedDataParallel

from saccade.errors import RunError, SaccadeError, StoppedError

MISTAKE = "saccade/mistake"
"""The key under which the first process leaves its error to the others."""


@dataclass(frozen=True)
class World:
    """Which process this is, of how many."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    attempt: int = 0

    @property
    def first(self) -> bool:
        """Whether this is the process that writes files and speaks."""
        return self.rank == 0

    def wrap(self, task: nn.Module) -> nn.Module:
        """The task, with its gradients averaged over all processes."""
        return task if self.size == 1 else DistributedDataParallel(task)

    def alone(self, learner: nn.Module) -> Any:
        """A block in which gradients are added up but not yet exchanged."""
        return learner.no_sync() if isinstance(learner, DistributedDataParallel) else nullcontext()

    def sum(self, values: Sequence[float]) -> list[float]:
        """Each value added up over all processes."""
        if self.size == 1:
            return list(values)
        both = torch.tensor(values, dtype=torch.float64)
        device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
        both = both.to(device)
        distributed.all_reduce(both)
        return both.tolist()

    def wait(self) -> None:
        """Until all processes are here."""
        self.sum([0.0])


def from_environment() -> World:
    """What torchrun says, or a world of one."""
    get = os.environ.get
    return World(
        rank=int(get("RANK", "0")),
        size=int(get("WORLD_SIZE", "1")),
        local_rank=int(get("LOCAL_RANK", "0")),
        attempt=int(get("TORCHELASTIC_RESTART_COUNT", "0")),
    )


@contextmanager
def joined(world: World, device: torch.device) -> Iterator[None]:
    """The processes in one group for the length of the block.

    torchrun keeps one store for all attempts, in which a new attempt would find what the last one
    left; so each attempt has a prefix of its own. Outside of it stands what stopped the first
    process, if it was a mistake: the others and all later attempts end with it, since starting
    anew would not mend it.
    """
    started_by_torchrun = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    if world.size == 1 and not started_by_torchrun:
        yield
        return
    store = TCPStore(
        os.environ["MASTER_ADDR"],
        int(os.environ["MASTER_PORT"]),
        world_size=world.size,
        is_master=world.first and not started_by_torchrun,
        timeout=timedelta(minutes=5),
        multi_tenant=True,
    )
    if world.attempt and (said := _mistake(store)):
        raise RunError(said)
    if world.size > 1:
        distributed.init_process_group(
            "nccl" if device.type == "cuda" else "gloo",
            store=PrefixStore(f"attempt-{world.attempt}", store),
            rank=world.rank,
            world_size=world.size,
            timeout=timedelta(minutes=30),
        )
    try:
        yield
    except StoppedError:
        raise
    except SaccadeError as error:
        if world.first:
            store.set(MISTAKE, str(error))
        raise
    except RuntimeError as error:  # such as a lost connection to the first process
        if not world.first and (said := _mistake(store)):
            raise RunError(said) from error
        raise
    finally:
        if world.size > 1:
            distributed.destroy_process_group()


def _mistake(store: TCPStore) -> str:
    return store.get(MISTAKE).decode() if store.check([MISTAKE]) else ""
