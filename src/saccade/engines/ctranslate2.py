"""CTranslate2 as the engine of a task."""

import sys
from collections.abc import Callable, Sequence

from saccade.decoding import GenerationRequest, Hypothesis, TextEngine
from saccade.interop.ctranslate2 import FolderEngine


class CTranslate2:
    """An engine that falls back to the task's own model, and reports each reason once.

    Args:
        program: The engine of a folder.
        eager: Return the engine of the task's own model.
        notify: Called with a line for people when `eager` answers instead.
    """

    def __init__(
        self,
        program: FolderEngine,
        eager: Callable[[], TextEngine],
        notify: Callable[[str], None],
    ) -> None:
        self.name = program.name
        self._program, self._eager, self._notify = program, eager, notify
        self._reported: set[str] = set()

    def length_group(self, length: int) -> int:
        """Return the group of an input of this length; see `Engine.length_group`."""
        return self._program.length_group(length)

    def generate(
        self, inputs: Sequence[list[int]], request: GenerationRequest
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses for each input, best first."""
        if _is_watched():  # only the model itself shows its attention
            return self._eager().generate(inputs, request)
        try:
            lacking = self._program.lacks(inputs, request)
            if lacking is None:
                return self._program.generate(inputs, request)
            reason = f"{self._program.name} cannot give {lacking}"
        except (RuntimeError, ValueError) as error:
            reason = f"{self._program.name} failed ({error})"
        if not self._reported:
            self.name += " and eager"
        if reason not in self._reported:
            self._reported.add(reason)
            self._notify(f"{reason}; the engine eager answers instead")
        return self._eager().generate(inputs, request)


def _is_watched() -> bool:
    """Return whether attention is watched; nobody can watch while its module is not imported."""
    if not sys.modules.get("saccade.attention.attend"):
        return False
    from saccade.attention.attend import watchers

    return bool(watchers.get())
