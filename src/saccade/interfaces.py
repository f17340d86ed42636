"""Protocols and records through which parts of the package use each other."""

from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

from saccade.engine_protocol import Engine, HasEngine
from saccade.shapes import Bool, Float, Int, Tensor

__all__ = ["Engine", "HasEngine", "Memory", "Positional", "State", "Stepper"]


@runtime_checkable
class Positional(Protocol):
    """The two hooks of a positional encoding that act inside an attention head.

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
        """Return queries and keys, each rotated by its place."""
        ...

    def bias(
        self,
        query: Float[Tensor, "b h q d"],
        at_q: Int[Tensor, " q"],
        at_k: Int[Tensor, " k"],
    ) -> Float[Tensor, "b h q k"] | None:
        """Return the bias that the places add to the scores, or None for no bias."""
        ...


@dataclass(frozen=True)
class Memory:
    """The output of an encoder, which decoders and classification heads read.

    Attributes:
        states: One vector per token, patch or cell.
        mask: True at real states, False at padding; None if all are real.
        summary: The encoder's own summary of the input, such as the last state of an RNN; None if
            it has none.
    """

    states: Float[Tensor, "b n d"]
    mask: Bool[Tensor, "b n"] | None = None
    summary: Float[Tensor, "b e"] | None = None

    def pooled(self) -> Float[Tensor, "b e"]:
        """Return one vector per input: the encoder's own summary, or the mean of real states."""
        if self.summary is not None:
            return self.summary
        if self.mask is None:
            return self.states.mean(1)
        real = self.mask.unsqueeze(-1).to(self.states.dtype)
        return (self.states * real).sum(1) / real.sum(1).clamp(min=1)


State = TypeVar("State")


@runtime_checkable
class Stepper(Protocol[State]):
    """A model that generates one token at a time.

    Greedy search, beam search and sampling use nothing else of a model. A state is valid until it
    is passed to `step`, which may reuse its memory: do not step an old state again.
    """

    def start(self, *inputs: Any, **options: Any) -> State:
        """Encode the inputs of the model and return the state before the first token."""
        ...

    def step(self, tokens: Int[Tensor, " b"], state: State) -> tuple[Float[Tensor, "b v"], State]:
        """Append one token per row; return the logits of the next token and the new state."""
        ...

    def select(self, state: State, rows: Int[Tensor, " n"]) -> State:
        """Return the state of `rows`, in this order; rows may be repeated or left out."""
        ...
