"""Stop sequences: text up to the first of them, also when it arrives in pieces."""

from collections.abc import Sequence


class StopSequences:
    """Filter that lets text through until a stop sequence appears.

    Text that may be the beginning of a stop sequence is held back until the next piece decides.

    Args:
        sequences: Stop sequences. With none of them, all text passes.

    Attributes:
        reached: Whether a stop sequence has appeared. Nothing passes from then on.

    Example:
        >>> stop = StopSequences(["END"])
        >>> [stop.feed("text E"), stop.feed("ND and more"), stop.flush(), stop.reached]
        ['text ', '', '', True]
    """

    def __init__(self, sequences: Sequence[str]) -> None:
        self._sequences = sequences
        self._held = ""
        self.reached = False

    def feed(self, text: str) -> str:
        """Add a piece of text; return what can be passed on now."""
        if self.reached:
            return ""
        self._held += text
        starts = [at for stop in self._sequences if (at := self._held.find(stop)) >= 0]
        if starts:
            self.reached, passed = True, self._held[: min(starts)]
            self._held = ""
            return passed
        keep = max((self._overlap(stop) for stop in self._sequences), default=0)
        cut = len(self._held) - keep
        passed, self._held = self._held[:cut], self._held[cut:]
        return passed

    def flush(self) -> str:
        """Return the text that is still held back, since no more follows."""
        passed, self._held = self._held, ""
        return passed

    def _overlap(self, stop: str) -> int:
        """Return how many of the last characters held are a beginning of this stop sequence."""
        longest = min(len(stop) - 1, len(self._held))
        return next((n for n in range(longest, 0, -1) if self._held.endswith(stop[:n])), 0)
