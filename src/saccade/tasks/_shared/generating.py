"""Answers that an engine generates, for tasks and for engines that need no torch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from saccade.decoding import GenerationConfig, GenerationRequest, Hypothesis
from saccade.engine_protocol import Engine
from saccade.tasks._shared.answering import Answer, Example, TaskInput
from saccade.tasks._shared.description import GeneratedText
from saccade.tasks._shared.predictor import Predictor

NEXT_PIECE = 1_000_003
"""The distance between the random seeds of two pieces of one input."""


@dataclass(frozen=True, kw_only=True, eq=False)
class GenerationExample(Example):
    """An input that is answered by generating text.

    Attributes:
        limit: Maximum number of tokens of the answer.
        options: The options of generation.
    """

    limit: int
    options: GenerationConfig


class GeneratingPredictor(Predictor):
    """A predictor whose answers an engine generates.

    Attributes:
        engine: The engine: the task's own model, or another program with its weights.
    """

    engine: Engine[Any, GenerationRequest, Hypothesis]

    @property
    @abstractmethod
    def writes(self) -> GeneratedText:
        """The description of the generated text."""

    def generate(
        self, inputs: TaskInput, examples: Sequence[GenerationExample]
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses for a batch, whose options and limits are equal."""
        request = GenerationRequest(
            limits=self.writes.limits(examples[0].limit),
            options=examples[0].options,
            rows=[example.number + NEXT_PIECE * example.piece for example in examples],
        )
        return self.engine.generate(inputs, request)


def answer_of(hypotheses: Sequence[Hypothesis], decode: Callable[[list[int]], str]) -> Answer:
    """Return the best hypothesis as an answer, with the others as alternatives."""
    best, *others = (
        Answer(
            decode(list(hypothesis.tokens)),
            hypothesis.score,
            finished=hypothesis.finished,
            tokens=hypothesis.tokens,
            confidence=hypothesis.confidence,
        )
        for hypothesis in hypotheses
    )
    return replace(best, alternatives=tuple(others))
