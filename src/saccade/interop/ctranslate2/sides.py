"""The input and the output of a task, which is all that running its folder needs to know."""

from dataclasses import dataclass

from saccade.tasks import GeneratedText, TextInput

FEWEST_PLACES = 1024
"""The length of a table of positions that are unlimited in our model."""


@dataclass(frozen=True, kw_only=True)
class Sides:
    """The two sides of a task that CTranslate2 can run.

    Attributes:
        reads: Its input.
        writes: Its output.
    """

    reads: TextInput
    writes: GeneratedText

    @property
    def program(self) -> str:
        """The name of the class of CTranslate2 that runs it."""
        return "Generator" if self.writes.start is None else "Translator"

    @property
    def places(self) -> int:
        """The maximum number of tokens on a side."""
        if self.writes.start is None:
            return self.reads.max_length
        longest = max(self.reads.max_length, self.writes.options.max_length, FEWEST_PLACES)
        limits = (self.reads.places, self.writes.places)
        return min([longest, *(places for places in limits if places is not None)])

    @property
    def max_input(self) -> int:
        """The maximum number of tokens of an input that is answered without a cut."""
        if self.writes.start is None:
            return max(1, self.reads.max_length // 2)
        return self.reads.max_length - len(self.reads.after)
