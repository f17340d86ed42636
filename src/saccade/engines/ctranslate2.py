"""CTranslate2 as the engine of a task."""

from collections.abc import Callable, Sequence

from saccade.attention.attend import watchers
from saccade.decoding import Hypothesis, TextEngine, Wish
from saccade.interop.ctranslate2 import Continuations, Translations


class CTranslate2:
    """Answers by CTranslate2; what it cannot do is left to the task's own model, and said once."""

    def __init__(
        self,
        program: Translations | Continuations,
        eager: TextEngine,
        say: Callable[[str], None],
    ) -> None:
        self.name = program.name
        self._program, self._eager, self._say = program, eager, say
        self._said: set[str] = set()

    def alike(self, length: int) -> int:
        """As CTranslate2 needs it."""
        return self._program.alike(length)

    def generate(self, inputs: Sequence[list[int]], wish: Wish) -> list[list[Hypothesis]]:
        """The hypotheses for each input, best first."""
        if watchers.get():  # who watches wants to see the model itself at work
            return self._eager.generate(inputs, wish)
        try:
            lacking = self._program.lacks(inputs, wish)
            if lacking is None:
                return self._program.generate(inputs, wish)
            reason = f"{self._program.name} cannot give {lacking}"
        except (RuntimeError, ValueError) as error:
            reason = f"{self._program.name} failed ({error})"
        return self._instead(reason, inputs, wish)

    def _instead(
        self, reason: str, inputs: Sequence[list[int]], wish: Wish
    ) -> list[list[Hypothesis]]:
        if not self._said:
            self.name += " and eager"
        if reason not in self._said:
            self._said.add(reason)
            self._say(f"{reason}; the engine eager answers instead")
        return self._eager.generate(inputs, wish)
