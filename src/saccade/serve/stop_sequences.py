"""Text up to the first of some ends, also where it comes in pieces."""

from collections.abc import Sequence


class Ends:
    """Lets text through until one of the ends; what may be the beginning of one waits."""

    def __init__(self, ends: Sequence[str]) -> None:
        self._ends = ends
        self._held = ""
        self.reached = False

    def add(self, text: str) -> str:
        """What can be said now."""
        if self.reached:
            return ""
        self._held += text
        places = [at for end in self._ends if (at := self._held.find(end)) >= 0]
        if places:
            self.reached, said = True, self._held[: min(places)]
            self._held = ""
            return said
        keep = max((self._overlap(end) for end in self._ends), default=0)
        cut = len(self._held) - keep
        said, self._held = self._held[:cut], self._held[cut:]
        return said

    def rest(self) -> str:
        """What was held back and is no end, for nothing follows."""
        said, self._held = self._held, ""
        return said

    def _overlap(self, end: str) -> int:
        """How many letters at the end of what is held are a beginning of this end."""
        longest = min(len(end) - 1, len(self._held))
        return next((n for n in range(longest, 0, -1) if self._held.endswith(end[:n])), 0)
