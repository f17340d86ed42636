"""Several processes that train one model: torchrun starts them, DDP adds up their gradients.

    torchrun --nproc-per-node 2 -m saccade train ...

Each process reads its own part of the batches, which follows from (batches read, rank, world). When
one dies, torchrun restarts all of them, and they resume from the newest checkpoint.

Processes exchange numbers by collectives, which have a time limit, since nobody should wait long
in an update. What one process does alone (vocabularies, validations, checkpoints) may take any
time: the others then wait at a key of the store, without a limit.
"""

import itertools
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import distributed, nn
from torch.distributed import PrefixStore, Store, TCPStore  # type: ignore[attr-defined]
from torch.nn.parallel import DistributedDataParallel

from saccade.errors import RunError, SaccadeError, StoppedError

MISTAKE, FAILURE = "saccade/mistake", "saccade/failure"
"""Keys under which the first process leaves its error: to all later attempts, if they would fail
with it too, and to the other processes of this attempt."""
LIMIT = timedelta(minutes=30)
"""How long a collective waits for the other processes."""
PAUSE, HEARD, GRACE = 0.05, 0.5, 5.0
"""Seconds between two looks at a key; those in which the others hear that the first has failed; and
those in which it then ends."""

Result = TypeVar("Result")


@dataclass(frozen=True)
class World:
    """Which process this is, of how many, and the device it computes on.

    `store` holds the keys at which the processes of one attempt wait for each other; `meetings`
    numbers them.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    attempt: int = 0
    device: torch.device = torch.device("cpu")
    store: Store | None = field(default=None, compare=False)
    meetings: Iterator[int] = field(default_factory=itertools.count, compare=False)

    @property
    def first(self) -> bool:
        """Whether this is the process that writes files and speaks."""
        return self.rank == 0

    @property
    def on_cuda(self) -> bool:
        """Whether processes exchange tensors from GPU to GPU."""
        return self.device.type == "cuda"

    def wrap(self, task: nn.Module) -> nn.Module:
        """The task, with its gradients averaged over all processes."""
        if self.size == 1:
            return task
        return DistributedDataParallel(task, device_ids=[self.device] if self.on_cuda else None)

    def alone(self, learner: nn.Module) -> Any:
        """A block in which gradients are added up but not yet exchanged."""
        return learner.no_sync() if isinstance(learner, DistributedDataParallel) else nullcontext()

    def sum(self, values: Sequence[float]) -> list[float]:
        """Each value added up over all processes."""
        if self.size == 1:
            return list(values)
        place = self.device if self.on_cuda else torch.device("cpu")
        both = torch.tensor(values, dtype=torch.float64, device=place)
        distributed.all_reduce(both)
        return both.tolist()

    def wait(self) -> None:
        """Wait until all processes are here: for the first as long as it takes."""
        self.from_first(lambda: None)
        self.sum([0.0])

    def from_first(self, work: Callable[[], Result]) -> Result:
        """Let the first process do some work; every process gets the result, in plain values.

        The others wait as long as it takes. They raise if the work fails, and when the first
        process dies.
        """
        if self.size == 1:
            return work()
        assert self.store is not None, "the processes have not been joined"
        key = f"saccade/meeting/{next(self.meetings)}"
        if self.first:
            result = work()
            self.store.set(key, json.dumps(result))
            return result
        try:
            while not self.store.check([key]):
                _require_first(self.store)
                time.sleep(PAUSE)
            return json.loads(self.store.get(key))
        except RuntimeError as error:
            raise RunError(
                "the connection to the first of the processes was lost, so it has probably died. "
                "The newest checkpoint is kept; continue with --resume"
            ) from error


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
def joined(world: World) -> Iterator[World]:
    """The processes in one group for the length of the block; gives the world they meet in.

    torchrun keeps one store for all attempts, in which a new attempt would find what the last one
    left; so each attempt has a prefix of its own. What stopped the first process stands there, so
    that the others end with it. If it was a mistake, it also stands outside of the prefix: all
    later attempts end with it, since starting again would not mend it.
    """
    if world.on_cuda:
        torch.cuda.set_device(world.device)
    started_by_torchrun = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    if world.size == 1 and not started_by_torchrun:
        yield world
        return
    root = TCPStore(
        os.environ["MASTER_ADDR"],
        int(os.environ["MASTER_PORT"]),
        world_size=world.size,
        is_master=world.first and not started_by_torchrun,
        timeout=timedelta(minutes=5),
        multi_tenant=True,
    )
    if world.attempt and (mistake := _mistake(root)):
        raise RunError(mistake)
    store = PrefixStore(f"attempt-{world.attempt}", root)
    if world.size > 1:
        distributed.init_process_group(
            "nccl" if world.on_cuda else "gloo",
            store=store,
            rank=world.rank,
            world_size=world.size,
            timeout=LIMIT,
            device_id=world.device if world.on_cuda else None,
        )
    try:
        yield replace(world, store=store)
    except Exception as error:
        if world.first:
            _report(error, root, store)
        elif not isinstance(error, SaccadeError) and (mistake := _mistake(root)):
            raise RunError(mistake) from error  # than that the first process is lost
        raise
    finally:
        if world.size > 1:
            distributed.destroy_process_group()


def _report(error: Exception, root: Store, store: Store) -> None:
    """Leave the error of the first process to the others; they hear of a stop by themselves."""
    if isinstance(error, StoppedError):
        return
    if isinstance(error, SaccadeError):
        root.set(MISTAKE, str(error))
        store.set(FAILURE, str(error))
    else:
        store.set(
            FAILURE,
            f"the first of the processes failed ({type(error).__name__}: {error}); its own message "
            "says where. The newest checkpoint is kept; continue with --resume",
        )
    time.sleep(HEARD)  # the store may end with this process


def _mistake(store: Store) -> str:
    with suppress(RuntimeError):  # the store may be lost as well
        return store.get(MISTAKE).decode() if store.check([MISTAKE]) else ""
    return ""


def _require_first(store: Store) -> None:
    """Raise the error that has stopped the first process, if one has.

    The first process reports it and should end before the others; where it holds the store, its
    end is that of the connection.
    """
    if not store.check([FAILURE]):
        return
    failure = store.get(FAILURE).decode()
    with suppress(RuntimeError):
        for _ in range(round(GRACE / PAUSE)):
            store.check([FAILURE])
            time.sleep(PAUSE)
    raise RunError(failure)
