"""torchrun's agent for the processes of one command on this machine."""

from __future__ import annotations

import os
import signal
import sys
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
        if not failures:
            return None
        # processes that have ended on purpose say why; of the others, the first one is the cause
        rank = min(failures, key=lambda i: (failures[i].exitcode not in FINAL, i))
        return rank, failures[rank].exitcode

    def _forward(self, number: int, frame: FrameType | None) -> None:
        self.stopping = True
        for worker in self.get_worker_group().workers:
            if isinstance(worker.id, int):
                try:
                    os.kill(worker.id, number)
                except ProcessLookupError:
                    continue

    def _monitor_workers(self, worker_group: WorkerGroup) -> RunResult:
        result = super()._monitor_workers(worker_group)
        if result.state in (WorkerState.FAILED, WorkerState.UNHEALTHY):
            codes = [failure.exitcode for failure in result.failures.values()]
            if self.stopping or any(code in FINAL for code in codes):
                self._remaining_restarts = 0
            elif self._remaining_restarts > 0:
                self._announce(result.failures)
        return result

    def _announce(self, failures: dict[int, Any]) -> None:
        for rank, failure in failures.items():
            how = f"signal {-failure.exitcode}" if failure.exitcode < 0 else "an error"
            print(
                f"process {rank} was stopped by {how}; all processes start again from the newest "
                "checkpoint",
                file=sys.stderr,
            )
