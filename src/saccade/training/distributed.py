"""Several processes that train one model: torchrun starts them, DDP adds up their gradients.

    torchrun --nproc-per-node 2 -m saccade train ...

Each process reads its own part of the batches, which follows from (batches read, rank, world). When
one dies, torchrun restarts all of them, and they resume from the newest checkpoint. The processes
of a new attempt first meet in the store of torchrun, where the keys of earlier attempts are left.

Processes exchange numbers by collectives, which have a timeout, since an update is short. What one
process does alone (vocabularies, validations, checkpoints) may take any time: the others then wait
for a key of the store, without a timeout.
"""

import itertools
import json
import os
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import torch
from torch import distributed, nn
from torch.distributed import PrefixStore, Store, TCPStore  # type: ignore[attr-defined]
from torch.nn.parallel import DistributedDataParallel

from saccade.errors import LostProcessError, RunError, SaccadeError, StoppedError
from saccade.shapes import Float, Tensor

FAILURE, ENDED = "saccade/failure", "saccade/ended"
"""Keys of the store under which the first process leaves its error for the others, and that it has
ended."""
MISTAKE = "saccade-mistake"
"""Name of a file in which an error is left for later attempts, which would fail in the same way."""
PRESENT, ROSTER = "saccade/present", "saccade/roster"
"""Keys of the store by which the processes of an attempt find each other."""
ARRIVAL = timedelta(minutes=10)
"""Time in which all processes of an attempt must have started."""
LIMIT = timedelta(minutes=30)
"""Timeout of a collective."""
PAUSE, HEARD, GRACE = 0.05, 0.5, 5.0
"""Seconds between two looks at a key, for the others to read that the first process has failed, and
for the first process to end after that."""

Result = TypeVar("Result")


@dataclass(frozen=True)
class World:
    """This process among those that train one model.

    Args:
        rank: its number, from 0.
        size: how many processes there are.
        local_rank: its number among those on this machine.
        local_size: how many of them are on this machine.
        attempt: how often torchrun has restarted the processes.
        device: what it computes on.
        leaders: the first process of each machine, or rather of each agent of torchrun.
        between_leaders: their group, if there are several machines.
        store: holds the keys that the processes of one attempt wait for.
        meetings: numbers those keys.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    attempt: int = 0
    device: torch.device = torch.device("cpu")
    leaders: tuple[int, ...] = (0,)
    between_leaders: distributed.ProcessGroup | None = field(default=None, compare=False)
    store: Store | None = field(default=None, compare=False)
    meetings: Iterator[int] = field(default_factory=itertools.count, compare=False)

    @property
    def first(self) -> bool:
        """Whether this is the process that writes files and prints messages."""
        return self.rank == 0

    @property
    def leads(self) -> bool:
        """Whether this is the first process of its machine."""
        return self.rank in self.leaders

    @property
    def on_cuda(self) -> bool:
        """Whether processes exchange tensors from GPU to GPU."""
        return self.device.type == "cuda"

    def wrap(self, task: nn.Module) -> nn.Module:
        """Return the task, with its gradients averaged over all processes."""
        if self.size == 1:
            return task
        # of a 1 x 1 convolution: strides of axes of length 1 differ, which costs nothing
        warnings.filterwarnings("ignore", message="Grad strides do not match bucket view strides")
        return DistributedDataParallel(task, device_ids=[self.device] if self.on_cuda else None)

    def alone(self, learner: nn.Module) -> AbstractContextManager[None]:
        """Return a context in which gradients are added up but not exchanged yet."""
        return learner.no_sync() if isinstance(learner, DistributedDataParallel) else nullcontext()

    def sum(self, values: Sequence[float]) -> list[float]:
        """Return each value added up over all processes."""
        if self.size == 1:
            return list(values)
        place = self.device if self.on_cuda else torch.device("cpu")
        sums = torch.tensor(values, dtype=torch.float64, device=place)
        distributed.all_reduce(sums)
        return sums.tolist()

    def add_up(self, vector: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
        """Return the sum of the vectors of all processes."""
        return vector if self.size == 1 else torch.stack(self.gather(vector)).sum(0)

    def gather(self, vector: Float[Tensor, "n"]) -> list[Float[Tensor, "n"]]:
        """Return the vectors of all processes, which have the same length, by rank."""
        if self.size == 1:
            return [vector]
        vectors = [torch.empty_like(vector) for _ in range(self.size)]
        distributed.all_gather(vectors, vector)
        return vectors

    def exchange(
        self, given: Sequence[Sequence[Tensor]], shapes: Sequence[Sequence[tuple[int, int]]]
    ) -> list[list[Tensor]]:
        """Give tensors to each process, and return those that each of them has given.

        Args:
            given: the tensors for each process.
            shapes: the shapes of the tensors from each process.
        """
        example = next(tensor for tensors in given for tensor in tensors)
        sent = [sum(tensor.numel() for tensor in tensors) for tensors in given]
        taken = [sum(rows * columns for rows, columns in own) for own in shapes]
        flat = torch.cat([tensor.flatten() for tensors in given for tensor in tensors])
        result = example.new_empty(sum(taken))
        distributed.all_to_all_single(result, flat, taken, sent)
        return [
            [
                piece.view(shape)
                for piece, shape in zip(
                    part.split([rows * columns for rows, columns in own]), own, strict=True
                )
            ]
            for part, own in zip(result.split(taken), shapes, strict=True)
        ]

    @contextmanager
    def all_threads(self) -> Iterator[None]:
        """Use the threads of all processes on this machine inside the block."""
        own, more = torch.get_num_threads(), self.local_size > 1
        if more:
            torch.set_num_threads(own * self.local_size)
        try:
            yield
        finally:
            if more:
                torch.set_num_threads(own)

    def wait(self) -> None:
        """Wait until all processes are here; for the first one without a timeout."""
        self.from_first(lambda: None)
        self.sum([0.0])

    def from_first(self, work: Callable[[], Result]) -> Result:
        """Let the first process do some work, and return its result in every process.

        The others wait without a timeout, and leave their threads to it.

        Args:
            work: returns plain values, which pass through JSON to the other processes.

        Raises:
            RunError: in the other processes, if the work fails or the first process dies.
        """
        if self.size == 1:
            return work()
        assert self.store is not None, "the processes have not joined"
        key = f"saccade/meeting/{next(self.meetings)}"
        if self.first:
            with self.all_threads():
                result = work()
            self.store.set(key, json.dumps(result))
            return result
        try:
            while not self.store.check([key]):
                _require_first(self.store)
                time.sleep(PAUSE)
            return json.loads(self.store.get(key))
        except RuntimeError as error:
            raise LostProcessError(
                "the connection to the first process was lost, so it has probably died. The newest "
                "checkpoint is kept; continue with --resume"
            ) from error


def from_environment() -> World:
    """Return the world that torchrun describes, or a world of one process."""
    get = os.environ.get
    return World(
        rank=int(get("RANK", "0")),
        size=int(get("WORLD_SIZE", "1")),
        local_rank=int(get("LOCAL_RANK", "0")),
        local_size=int(get("LOCAL_WORLD_SIZE", "1")),
        attempt=int(get("TORCHELASTIC_RESTART_COUNT", "0")),
    )


@contextmanager
def joined(world: World) -> Iterator[World]:
    """Join the processes into one group for the length of the block; give the joined world.

    torchrun may keep one store for all attempts, so each attempt has a prefix of its own in it. The
    error that stopped the first process is left there, so that the others end with it. If it was a
    user's mistake, each process also leaves it in the folder of its agent: all later attempts end
    with it, since another attempt would not help.
    """
    if world.on_cuda:
        torch.cuda.set_device(world.device)
    with _remembered_mistakes(), _connected(world) as connected:
        yield connected


@contextmanager
def _connected(world: World) -> Iterator[World]:
    """Join the processes, and let all end with the error of the first one."""
    if world.size == 1:
        yield world
        return
    has_store = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    root = TCPStore(
        os.environ["MASTER_ADDR"],
        int(os.environ["MASTER_PORT"]),
        world_size=world.size,
        is_master=world.first and not has_store,
        timeout=timedelta(minutes=5),
        multi_tenant=True,
    )
    meeting, world = _met(root, world)
    store = PrefixStore(meeting, root)
    distributed.init_process_group(
        "nccl" if world.on_cuda else "gloo",
        store=store,
        rank=world.rank,
        world_size=world.size,
        timeout=LIMIT,
        device_id=world.device if world.on_cuda else None,
    )
    between = distributed.new_group(world.leaders, backend="gloo") if world.leaders[1:] else None
    try:
        yield replace(world, store=store, between_leaders=between)
    except Exception as error:
        lost = _lost(error)
        if world.first:
            _report(lost or error, store)
        else:
            _let_first_end(error, store)
            if mistake := _mistake(store):  # says more than a lost connection
                raise RunError(mistake) from error
        if lost is not None:
            raise lost from error
        raise
    finally:
        distributed.destroy_process_group()


@contextmanager
def _remembered_mistakes() -> Iterator[None]:
    """Raise the mistake with which an earlier attempt of the same agent has ended, if one has."""
    place = os.environ.get("TORCHELASTIC_ERROR_FILE")  # in .../attempt_0/0/
    path = Path(place).parents[2] / MISTAKE if place else None
    if path is not None and path.exists():
        raise RunError(path.read_text())
    try:
        yield
    except SaccadeError as error:
        if path is not None and not isinstance(error, LostProcessError | StoppedError):
            with suppress(OSError):
                path.write_text(str(error))
        raise


def _report(error: Exception, store: Store) -> None:
    """Leave the error of the first process for the others, unless it is a stop, which all share."""
    if isinstance(error, StoppedError):
        store.set(ENDED, "")
        return
    text = str(error)
    mistake = isinstance(error, SaccadeError) and not isinstance(error, LostProcessError)
    if not isinstance(error, SaccadeError):
        text = (
            f"the first process failed ({type(error).__name__}: {error}); its own message shows "
            "where. The newest checkpoint is kept; continue with --resume"
        )
    store.set(FAILURE, json.dumps([mistake, text]))
    time.sleep(HEARD)  # the store may end with this process


def _lost(error: Exception) -> LostProcessError | None:
    """Return an error for people if this one means that another process is gone."""
    of_backend = type(error) is RuntimeError and ("gloo/" in str(error) or "NCCL" in str(error))
    if not (of_backend or isinstance(error, distributed.DistError)):
        return None
    return LostProcessError(
        "another process of the training has ended, or its connection is lost. The newest "
        "checkpoint is kept; continue with --resume"
    )


def _met(store: Store, world: World) -> tuple[str, World]:
    """Meet the other processes of this attempt; return a name for it, and the world as they see it.

    The store may hold what processes of earlier attempts have left, and agents of torchrun that
    were restarted count their attempts from 0 again. So each process brings a token of its own. The
    first one publishes a roster of all tokens, until each process has seen its own in it.
    """
    token = uuid.uuid4().hex
    own = json.dumps([token, world.attempt, world.local_rank])
    store.set(f"{PRESENT}/{world.rank}", own)
    keys = [f"{PRESENT}/{rank}" for rank in range(world.size)]
    end = time.monotonic() + ARRIVAL.total_seconds()
    name, roster = "", list[str]()
    while time.monotonic() < end:
        if world.first and store.check(keys):
            present = [store.get(key).decode() for key in keys]
            if present != roster:
                name, roster = uuid.uuid4().hex, present
                store.set(ROSTER, json.dumps([name, *roster]))
            arrived = [f"saccade/{name}/{rank}" for rank in range(1, world.size)]
            if not arrived or store.check(arrived):
                store.set(f"saccade/{name}", "")
                break
        elif not world.first and store.check([ROSTER]):
            name, *roster = json.loads(store.get(ROSTER))
            if len(roster) == world.size and roster[world.rank] == own:
                store.set(f"saccade/{name}/{world.rank}", "")
                if store.check([f"saccade/{name}"]):
                    break
        time.sleep(PAUSE)
    else:
        raise LostProcessError(
            f"not all of the {world.size} processes of this training have started within "
            f"{ARRIVAL}; look for the error of another one, and continue with --resume"
        )
    _, attempts, local_ranks = zip(*map(json.loads, roster), strict=True)
    leaders = tuple(rank for rank, local in enumerate(local_ranks) if local == 0)
    return f"saccade/{name}", replace(world, attempt=max(attempts), leaders=leaders)


def _let_first_end(error: Exception, store: Store) -> None:
    """Wait until the first process has left its error, since it is the one that prints it.

    A launcher stops all processes when one has ended with an error.
    """
    key = ENDED if isinstance(error, StoppedError) else FAILURE
    with suppress(RuntimeError):  # the store may be lost as well
        for _ in range(round(GRACE / PAUSE)):
            if store.check([key]):
                time.sleep(2 * HEARD)
                return
            time.sleep(PAUSE)


def _mistake(store: Store) -> str:
    """Return the mistake that the first process has reported; empty if it has reported none."""
    with suppress(RuntimeError):  # the store may be lost as well
        if store.check([FAILURE]):
            mistake, text = json.loads(store.get(FAILURE))
            return str(text) if mistake else ""
    return ""


def _require_first(store: Store) -> None:
    """Raise the error that has stopped the first process, if one has.

    The first process prints it and should end before the others; if it holds the store, the
    connection ends with it.
    """
    if not store.check([FAILURE]):
        return
    mistake, text = json.loads(store.get(FAILURE))
    with suppress(RuntimeError):
        for _ in range(round(GRACE / PAUSE)):
            store.check([FAILURE])
            time.sleep(PAUSE)
    raise (RunError if mistake else LostProcessError)(text)
