"""Capabilities: protocols for what only some tasks can do.

Code above `tasks` asks with `isinstance(task, Aligns)` and never for the class of a task. Three
more capabilities are elsewhere: `saccade.interfaces.HasEngine` (an engine generates the text),
`baselines.HasBaselines`, and attention as such, which `Task.look` returns or raises `WatchError`.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from saccade.tasks._shared.answering import TaskInput

if TYPE_CHECKING:
    from saccade.data.store.cache import Encoded
    from saccade.lens.alignment.align_by import AlignBy
    from saccade.lens.record import AttentionRecord


@runtime_checkable
class Streams(Protocol):
    """A task that returns its text in pieces while it is generated."""

    def stream(self, prompt: str, **options: Any) -> Generator[str, None, bool]:
        """Yield the text in pieces; the generator returns whether the text is finished."""
        ...


@runtime_checkable
class Aligns(Protocol):
    """A task whose attention aligns the words of its output with those of its input.

    Attributes:
        align_by: The attention that words are aligned by; `AlignBy()` if it was not chosen yet.
    """

    align_by: AlignBy

    def records(self, inputs: Sequence[TaskInput], outputs: Sequence[str]) -> list[AttentionRecord]:
        """Return where the model looks if each input is answered by the given output."""
        ...


@runtime_checkable
class Measurable(Protocol):
    """A task whose attention can be measured, because its outputs have a probability."""

    def probability(self, given: TaskInput, output: str) -> float | None:
        """Return the probability of an output for an input; None if outputs have none.

        The probability of a text is the geometric mean of those of its tokens.
        """
        ...


@runtime_checkable
class MeasurableTogether(Measurable, Protocol):
    """A measurable task that computes the probability of an output for many inputs at once."""

    def probabilities(self, inputs: Sequence[TaskInput], output: str) -> list[float] | None:
        """Return the probability of one output for each input; None if outputs have none."""
        ...


@runtime_checkable
class Calibrates(Protocol):
    """A task that divides its logits by a temperature, so that probabilities can be trusted.

    Attributes:
        temperature: The divisor.
    """

    temperature: float

    def calibrate(self, examples: Encoded) -> str:
        """Fit the temperature to validation examples and return a sentence about it."""
        ...
