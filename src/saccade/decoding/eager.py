"""Eager: the engine that every task has, its own model written with step by step."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import torch

from saccade.decoding.hypothesis import Hypothesis
from saccade.decoding.options import GenerationRequest, generate
from saccade.interfaces import Engine, Stepper
from saccade.shapes import Int, Tensor

TextEngine = Engine[Sequence[list[int]], GenerationRequest, Hypothesis]
"""What writes hypotheses for a wish."""


Inputs = TypeVar("Inputs")


class DecodingStart(NamedTuple):
    """A model that has read its inputs, and the token that each row is written on from."""

    stepper: Stepper[Any]
    state: Any
    first: Int[Tensor, " b"]


class Eager(Generic[Inputs]):
    """The engine of a function that reads inputs."""

    name = "eager"

    def __init__(self, begin: Callable[[Inputs], DecodingStart]) -> None:
        self._begin = begin

    def length_group(self, length: int) -> int:
        """Any may stand beside any: in float32 a padded batch changes the last digits at most."""
        return 0

    @torch.no_grad()
    def generate(self, inputs: Inputs, request: GenerationRequest) -> list[list[Hypothesis]]:
        """The hypotheses for each input, best first."""
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
