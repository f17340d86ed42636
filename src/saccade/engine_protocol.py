"""The protocol of engines, through which tasks generate text; it needs no torch."""

from typing import Any, Protocol, TypeVar, runtime_checkable

Request_contra = TypeVar("Request_contra", contravariant=True)
Hypothesis = TypeVar("Hypothesis")
Inputs_contra = TypeVar("Inputs_contra", contravariant=True)


@runtime_checkable
class Engine(Protocol[Inputs_contra, Request_contra, Hypothesis]):
    """The part of a task that generates: its own model, or another program with the same weights.

    All engines give the same answers up to rounding. `name` is the name that is shown to users.
    """

    name: str

    def length_group(self, length: int) -> int:
        """Return the group of an input of `length` tokens; only inputs of one group share a batch.

        Engines use it so that the other inputs of a batch do not change an answer.
        """
        ...

    def generate(self, inputs: Inputs_contra, request: Request_contra) -> list[list[Hypothesis]]:
        """Return the hypotheses of each input, best first. Several threads may call it at once.

        Args:
            inputs: Inputs as the task has them: token ids without start and stop tokens, or images.
            request: The limits and options of generation.
        """
        ...


@runtime_checkable
class HasEngine(Protocol):
    """A task that generates through an exchangeable engine."""

    engine: Engine[Any, Any, Any]
