"""The eager engine, the default of every task: its own model, step by step in torch."""

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import torch

from saccade.decoding.hypothesis import Hypothesis
from saccade.decoding.options import GenerationRequest
from saccade.decoding.strategies import generate
from saccade.interfaces import Stepper
from saccade.shapes import Int, Tensor

Inputs = TypeVar("Inputs")


class DecodingStart(NamedTuple):
    """A model that has read its inputs, its state, and the first token of each row."""

    stepper: Stepper[Any]
    state: Any
    first: Int[Tensor, " b"]


class Eager(Generic[Inputs]):
    """The engine that generates with a task's own model.

    Args:
        begin: Reads a batch of inputs and returns the model with its state.
    """

    name = "eager"

    def __init__(self, begin: Callable[[Inputs], DecodingStart]) -> None:
        self._begin = begin

    def length_group(self, length: int) -> int:
        """Return 0: in float32 padding changes only the last digits, so all inputs can be mixed."""
        return 0

    @torch.no_grad()
    def generate(self, inputs: Inputs, request: GenerationRequest) -> list[list[Hypothesis]]:
        """Return the hypotheses of each input, best first."""
        stepper, state, first = self._begin(inputs)
        return generate(
            stepper,
            state,
            start=first,
            limits=request.limits,
            options=request.options,
            rows=request.rows,
            device=first.device,
        )
