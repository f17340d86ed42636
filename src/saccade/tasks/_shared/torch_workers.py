"""Batches in parallel with torch: on a CPU each batch has one of its threads."""

from collections.abc import Callable, Iterator, Sequence

import torch

from saccade.allocator import keep_freed_memory
from saccade.decoders.fast_path import shared_layouts, sharing
from saccade.tasks._shared.parallel_batches import Result, Rows, Workers


class TorchWorkers(Workers):
    """Threads that answer batches with a model, without gradients.

    Args:
        device: The device of the model; only a CPU answers several batches at the same time.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device

    @property
    def count(self) -> int:
        """The number of batches that are answered at the same time."""
        return torch.get_num_threads() if self.device.type == "cpu" else 1

    def side_by_side(
        self, work: Callable[[Rows], Result], batches: Sequence[Rows]
    ) -> Iterator[tuple[Rows, Result]]:
        """Yield each batch with the result of `work`; see `Workers.side_by_side`."""
        keep_freed_memory()
        layouts = shared_layouts()

        def computed(rows: Rows) -> Result:
            with sharing(layouts), torch.no_grad():  # per thread
                return work(rows)

        yield from super().side_by_side(computed, batches)

    def _run(
        self, work: Callable[[Rows], Result], batches: Sequence[Rows], workers: int
    ) -> Iterator[Result]:
        threads = torch.get_num_threads()

        def in_one_thread(rows: Rows) -> Result:
            torch.set_num_threads(1)  # holds for the calling thread
            return work(rows)

        try:
            yield from super()._run(in_one_thread, batches, workers)
        finally:
            torch.set_num_threads(threads)
