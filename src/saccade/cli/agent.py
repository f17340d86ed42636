"""torchrun's agent for the processes of one command on this machine."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from types import FrameType
from typing import Any

from torch.distributed.elastic.agent.server.api import (
    RunResult,
    WorkerGroup,
    WorkerSpec,
    WorkerState,
)
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from torch.distributed.elastic.multiprocessing import LogsSpecs

__all__ = ["Agent", "WorkerSpec"]

STOP_SECONDS = 15.0
"""Time that the other processes have to exit after one has ended."""
FINAL = (2, 74, 130)
"""Exit codes of processes that end on purpose: another attempt would end in the same way."""


class Agent(LocalElasticAgent):
    """An agent that passes signals on to its processes, and lets them end by themselves.

    Args:
        spec: the processes.
        logs: where their output goes.
    """

    def __init__(self, spec: WorkerSpec, logs: LogsSpecs) -> None:
        super().__init__(spec, logs, start_method="spawn")
        self.stopping = False

    def failed(self) -> tuple[int, int] | None:
        """Run until all processes have ended; return the rank and the code of one that failed."""
        # the agent itself would kill the processes at a signal, and not report their codes
        os.environ["TORCHELASTIC_SIGNALS_TO_HANDLE"] = "SIGQUIT"
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self._forward) for number in numbers}
        try:
            failures = self.run().failures
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            self._worker_group.spec.rdzv_handler.shutdown()
        if not failures:
            return None
        # processes that have ended on purpose say why; of the others, the first one is the cause
        rank = min(failures, key=lambda i: (failures[i].exitcode not in FINAL, i))
        return rank, failures[rank].exitcode

    def _forward(self, number: int, frame: FrameType | None) -> None:
        self.stopping = True
        self._send([worker.id for worker in self.get_worker_group().workers], number)

    def _send(self, ids: Iterable[Any], number: int) -> None:
        for process in ids:
            with suppress(ProcessLookupError):
                if isinstance(process, int):
                    os.kill(process, number)

    def _let_end(self, ids: Sequence[Any]) -> None:
        """If one process has ended, wait for the others, which end with it and may print why."""
        end = time.monotonic() + STOP_SECONDS
        while 0 < sum(map(_ended, ids)) < len(ids) and time.monotonic() < end:
            time.sleep(0.05)

    def _start_workers(self, worker_group: WorkerGroup) -> dict[int, Any]:
        ids = super()._start_workers(worker_group)
        for number in (signal.SIGINT, signal.SIGTERM):  # some versions of torch have replaced them
            signal.signal(number, self._forward)
        if self.stopping:
            self._send(ids.values(), signal.SIGTERM)
        return ids

    def _monitor_workers(self, worker_group: WorkerGroup) -> RunResult:
        self._let_end([worker.id for worker in worker_group.workers])
        result = super()._monitor_workers(worker_group)
        if result.state in (WorkerState.FAILED, WorkerState.UNHEALTHY):
            codes = [failure.exitcode for failure in result.failures.values()]
            if self.stopping or any(code in FINAL for code in codes):
                self._remaining_restarts = 0
            elif self._remaining_restarts > 0:
                self._announce(result.failures)
        return result

    def _announce(self, failures: dict[int, Any]) -> None:
        rank = min(failures, key=lambda i: (failures[i].exitcode > 0, i))  # killed ones first
        code = failures[rank].exitcode
        how = f"signal {-code}" if code < 0 else "an error"
        print(
            f"process {rank} was stopped by {how}; all processes start again from the newest "
            "checkpoint",
            file=sys.stderr,
        )


def _ended(process: Any) -> bool:
    """Return whether a child of this process has ended, without forgetting its exit code."""
    if not hasattr(os, "waitid"):  # on some systems, which do without the wait
        return False
    try:
        return os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # its exit code was read before
        return True
