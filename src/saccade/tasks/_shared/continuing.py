"""Texts that are continued: how prompts are encoded and continuations decoded, without torch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from saccade.data.corpus import Item
from saccade.decoding import TextEngine
from saccade.tasks._shared.answering import NO_OPTIONS, Answer, Options
from saccade.tasks._shared.description import TextInput
from saccade.tasks._shared.generating import GeneratingPredictor, GenerationExample, answer_of
from saccade.text import Tokenizer

PROMPT = 80
"""The characters of a validation text that are continued."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ContextExample(GenerationExample):
    """The tokens that an answer continues."""

    tokens: list[int]


class ContinuingPredictor(GeneratingPredictor):
    """A predictor that continues the beginning of a text.

    Attributes:
        tokenizer: The vocabulary.
    """

    name = "language_modeling"
    tokenizer: Tokenizer
    engine: TextEngine

    @property
    @abstractmethod
    def text_input(self) -> TextInput:
        """The description of the beginning of a text."""

    def prepare(
        self, inputs: Sequence[str], options: Options = NO_OPTIONS, *, first: int = 0
    ) -> list[ContextExample]:
        """Encode the prompts; `options` are those of `[generation]`.

        Prompts of equal length are answered together. When prompt and answer fill the block, the
        last half of it is read again.
        """
        generation, size = self.writes.options.changed(options), self.text_input.max_length
        return [
            ContextExample(
                number=number,
                length=min(len(ids), size),
                encoded=len(ids),
                weights=min(len(ids) + generation.max_length, size) ** 2,
                group=min(len(ids), size),
                tokens=ids,
                limit=generation.max_length,
                options=generation,
            )
            for number, ids in enumerate(self.contexts(inputs), first)
        ]

    def answer(self, examples: Sequence[ContextExample]) -> list[Answer]:
        """Continue a batch of prompts with the engine."""
        rows = self.generate([example.tokens for example in examples], examples)
        return [
            answer_of(hypotheses, partial(self.continuation, example.tokens))
            for example, hypotheses in zip(examples, rows, strict=True)
        ]

    def input_of(self, item: Item) -> str:
        """Return the beginning of a text."""
        return item.inputs[0][:PROMPT]

    def contexts(self, prompts: Sequence[str]) -> list[list[int]]:
        """Return the token ids that the answer to each prompt continues."""
        reads = self.text_input
        before, empty = list(reads.before), list(reads.empty)
        return [[*before, *self.encoded(text)] or empty for text in prompts]

    def encoded(self, text: str) -> list[int]:
        """Return the token ids of a text, which follows the opening if there is one."""
        after_text = bool(self.text_input.opening)
        return self.tokenizer.encode_part(text) if after_text else self.tokenizer.encode(text)

    def continuation(self, context: list[int], written: list[int]) -> str:
        """Return the generated text; all is decoded, or the space after the prompt were lost."""
        decode = self.tokenizer.decode
        return decode([*context, *written])[len(decode(context)) :]
