"""CTranslate2 as the engine of a task."""

from collections.abc import Callable, Sequence

from saccade.attention.attend import watchers
from saccade.decoding import GenerationRequest, Hypothesis, TextEngine
from saccade.interop.ctranslate2 import Continuations, Translations


class CTranslate2:
    """Answers by CTranslate2; what it cannot do is left to the task's own model, and said once."""

    def __init__(
        self,
        program: Translations | Continuations,
        eager: TextEngine,
        notify: Callable[[str], None],
    ) -> None:
        self.name = program.name
        self._program, self._eager, self._say = program, eager, notify
        self._said: set[str] = set()

    def length_group(self, length: int) -> int:
        """As CTranslate2 needs it."""
        return self._program.length_group(length)

    def generate(
        self, inputs: Sequence[list[int]], request: GenerationRequest
    ) -> list[list[Hypothesis]]:
        """The hypotheses for each input, best first."""
        if watchers.get():  # who watches wants to see the model itself at work
            return self._eager.generate(inputs, request)
        try:
            lacking = self._program.lacks(inputs, request)
            if lacking is None:
                return self._program.generate(inputs, request)
            reason = f"{self._program.name} cannot give {lacking}"
        except (RuntimeError, ValueError) as error:
            reason = f"{self._program.name} failed ({error})"
        return self._instead(reason, inputs, request)

    def _instead(
        self, reason: str, inputs: Sequence[list[int]], request: GenerationRequest
    ) -> list[list[Hypothesis]]:
        if not self._said:
            self.name += " and eager"
        if reason not in self._said:
            self._said.add(reason)
            self._say(f"{reason}; the engine eager answers instead")
        return self._eager.generate(inputs, request)
