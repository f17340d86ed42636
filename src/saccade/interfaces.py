"""The seams between the rooms: what one part may ask of another without knowing which it is."""

from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

from saccade.shapes import Bool, Float, Int, Tensor


@runtime_checkable
class Positional(Protocol):
    """What attention asks of a positional encoding: the two hooks that act inside a head.

    `at_q` and `at_k` are the places of the queries and keys, counted from 0. (The third hook,
    `embed`, acts on the tokens before attention, so attention never calls it.)
    """

    def rotate(
        self,
        query: Float[Tensor, "b h q d"],
        keys: Float[Tensor, "b g k d"],
        at_q: Int[Tensor, " q"],
        at_k: Int[Tensor, " k"],
    ) -> tuple[Float[Tensor, "b h q d"], Float[Tensor, "b g k d"]]:
        """Query and keys, each turned by its place."""
        ...

    def bias(
        self,
        query: Float[Tensor, "b h q d"],
        at_q: Int[Tensor, " q"],
        at_k: Int[Tensor, " k"],
    ) -> Float[Tensor, "b h q k"] | None:
        """What is added to the scores because of the places, or None for nothing."""
        ...


@dataclass(frozen=True)
class Memory:
    """What a reader read: vectors, which of them are real, and one vector for the whole."""

    states: Float[Tensor, "b n d"]
    mask: Bool[Tensor, "b n"] | None = None
    summary: Float[Tensor, "b e"] | None = None

    def pooled(self) -> Float[Tensor, "b e"]:
        """One vector for the whole: the reader's own summary, or the mean of the real states."""
        if self.summary is not None:
            return self.summary
        if self.mask is None:
            return self.states.mean(1)
        real = self.mask.unsqueeze(-1).to(self.states.dtype)
        return (self.states * real).sum(1) / real.sum(1).clamp(min=1)


State = TypeVar("State")


@runtime_checkable
class Stepper(Protocol[State]):
    """A model that writes one token at a time: all that greedy, beam and sampling know of it.

    A state belongs to the last call that returned it: `step` may reuse the memory of the state it
    was given, so an old state is not to be stepped again.
    """

    def start(self, *inputs: Any, **options: Any) -> State:
        """Read the inputs, whatever they are; the state before the first token."""
        ...

    def step(self, tokens: Int[Tensor, " b"], state: State) -> tuple[Float[Tensor, "b v"], State]:
        """Write `tokens`, one for each row; the logits of what follows, and the state after it."""
        ...

    def select(self, state: State, rows: Int[Tensor, " n"]) -> State:
        """The state of these rows, in this order; a row may come several times or not at all."""
        ...


Request_contra = TypeVar("Request_contra", contravariant=True)
Hypothesis = TypeVar("Hypothesis")
Inputs_contra = TypeVar("Inputs_contra", contravariant=True)


@runtime_checkable
class Engine(Protocol[Inputs_contra, Request_contra, Hypothesis]):
    """What writes the answers of a task: its own model, or another program with its weights.

    `name` is what people are told; an engine gives the same answers as the task's own model, as far
    as its numbers allow.
    """

    name: str

    def length_group(self, length: int) -> int:
        """Inputs are batched together only if this value is equal for their lengths in tokens.

        The other inputs of a batch must not change an answer.
        """
        ...

    def generate(self, inputs: Inputs_contra, request: Request_contra) -> list[list[Hypothesis]]:
        """Return the hypotheses for each input, best first. Several threads may call it at once.

        Inputs are as the task has them: token ids without start and stop, or images.
        """
        ...


@runtime_checkable
class HasEngine(Protocol):
    """A task whose answers an engine writes."""

    engine: Engine[Any, Any, Any]
