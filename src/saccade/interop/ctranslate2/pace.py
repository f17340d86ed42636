"""The number of inputs in one call of CTranslate2, so that cancelled work ends soon.

A call with a beam cannot be interrupted. (Greedy search calls back for each token, but at 30 µs or
more for each that costs more than smaller calls do.) While work is cancellable, a batch is split
into calls that should take `SECONDS` each, by the time that earlier calls took; that changes
neither the answers nor, where it was measured, the speed.
"""

import threading
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter

from saccade.cancellation import raise_if_cancelled
from saccade.decoding import Hypothesis

SECONDS, LONGEST = 0.5, 1.0
"""The target duration of a call, and the longest expected duration for a single input."""
PROBES = 2
"""Short calls that are timed before the first long one; the fastest counts."""
MEMORY = 0.7
"""The weight of earlier calls in the mean time of a token."""

Written = list[list[Hypothesis]]
Write = Callable[[Sequence[list[int]]], Written]


class Pace:
    """The measured speed, in seconds per token and beam."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._probed = self._recent = 0.0

    def probe(self, write: Callable[[], Written], beam: int) -> None:
        """Measure `write` once, which writes a few tokens for one input."""
        with self._lock:
            if self._probed:
                return
            rates = []
            for _ in range(PROBES):
                raise_if_cancelled()
                rates.append(_timed(write, beam)[1])
            self._probed = self._recent = min(rates)

    def fits(self, beam: int, tokens: int) -> bool:
        """Whether a call for one input should take `LONGEST` at most."""
        return self._probed * beam * tokens <= LONGEST

    def write(self, write: Write, inputs: Sequence[list[int]], beam: int, tokens: int) -> Written:
        """Return the output of `write`, at most `tokens` per input, in calls of about `SECONDS`."""
        written: Written = []
        while len(written) < len(inputs):
            raise_if_cancelled()
            one = self._recent * beam * tokens  # the seconds of one input; 0 if not known yet
            rows = max(1, int(SECONDS / one)) if one else 1
            part = inputs[len(written) : len(written) + rows]
            answers, rate = _timed(partial(write, part), beam)
            self._recent = MEMORY * self._recent + (1 - MEMORY) * rate if one else rate
            written += answers
        return written


def _timed(write: Callable[[], Written], beam: int) -> tuple[Written, float]:
    """Return the output, and the seconds per token and beam."""
    started = perf_counter()
    written = write()
    seconds = perf_counter() - started
    longest = max(len(one.tokens) + one.finished for row in written for one in row)
    return written, seconds / (len(written) * beam * longest)
