"""Texts answered by texts: how sources are split, encoded, answered and joined, without torch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import ClassVar

from saccade.decoding import GenerationConfig, TextEngine
from saccade.tasks._shared.answering import NO_OPTIONS, Answer, Options
from saccade.tasks._shared.generating import GeneratingPredictor, GenerationExample, answer_of
from saccade.tasks._shared.pieces import TextPiece, join_answers, split_text
from saccade.text import Tokenizer
from saccade.text.sentences import Span, line_spans


@dataclass(frozen=True, kw_only=True, eq=False)
class SourceExample(GenerationExample):
    """A source text, or a piece of one.

    Attributes:
        text: The text.
        tokens: The token ids that are read.
        source: The complete text of the input.
        span: The (start, end) characters of the piece in it; None if it is not split.
    """

    text: str
    tokens: list[int]
    source: str
    span: Span | None = None


class TranslatingPredictor(GeneratingPredictor):
    """A predictor that reads a text and generates a text.

    Attributes:
        source: The vocabulary of inputs.
        target: The vocabulary of answers.
        reads_lines: Whether sources of the training data have several lines; then only a text that
            is too long is split.
    """

    name = "text_to_text"
    unsplit: ClassVar[Options] = {"split": "none"}
    source: Tokenizer
    target: Tokenizer
    engine: TextEngine
    reads_lines: bool

    @property
    @abstractmethod
    def max_length(self) -> int:
        """The maximum number of tokens of an input that is answered at once."""

    def prepare(
        self, inputs: Sequence[str], options: Options = NO_OPTIONS, *, first: int = 0
    ) -> list[SourceExample]:
        """Encode the sources; `options` are those of `[generation]`.

        A text that is too long, or has several lines, becomes one example per piece.
        """
        generation, most = self.writes.options.changed(options), self.max_length
        encoded = self.source.encode_batch(list(inputs))
        examples: list[SourceExample] = []
        for number, (text, ids) in enumerate(zip(inputs, encoded, strict=True), first):
            lines = len(line_spans(text))
            fits = len(ids) <= most and (lines == 1 or self.reads_lines)
            if generation.split == "none" or not lines or fits:
                examples.append(self._example(text, ids, number, generation))
                continue
            pieces = split_text(text, self.source.encode_batch, most)
            examples += self._pieces(text, pieces, number, generation)
        return examples

    def _example(
        self, text: str, ids: list[int], number: int, generation: GenerationConfig
    ) -> SourceExample:
        most = self.max_length
        length = min(len(ids), most)
        limit = generation.longest(length)
        return SourceExample(
            number=number,
            length=length,
            encoded=len(ids),
            weights=(limit + 1) * (length + 1),
            group=(limit, self.engine.length_group(length)),
            blank=not ids or not text.strip(),
            text=text,
            tokens=ids[:most],
            source=text,
            limit=limit,
            options=generation,
        )

    def _pieces(
        self, text: str, pieces: Sequence[TextPiece], number: int, generation: GenerationConfig
    ) -> Iterator[SourceExample]:
        """Yield the pieces of a text; the first one has the weights of the joined record."""
        examples = [
            self._example(text[piece.start : piece.end], piece.ids, number, generation)
            for piece in pieces
        ]
        read = sum(example.length + 1 for example in examples)
        weights = read * sum(example.limit + 1 for example in examples)
        for i, (example, piece) in enumerate(zip(examples, pieces, strict=True)):
            yield replace(
                example,
                piece=i,
                weights=0 if i else weights,
                source=text,
                span=(piece.start, piece.end),
            )

    def join(self, examples: Sequence[SourceExample], answers: list[Answer]) -> list[Answer]:
        """Return one answer per input; those to the pieces of a text are joined."""
        joined = []
        pairs = zip(examples, answers, strict=True)
        for _, group in groupby(pairs, key=lambda pair: pair[0].number):
            parts, translations = zip(*group, strict=True)
            spans = [example.span for example in parts if example.span is not None]
            if spans:
                joined.append(join_answers(parts[0].source, spans, translations))
            else:
                joined.append(translations[0])
        return joined

    def answer(self, examples: Sequence[SourceExample]) -> list[Answer]:
        """Translate a batch with the engine."""
        rows = self.generate([example.tokens for example in examples], examples)
        return [answer_of(hypotheses, self.target.decode) for hypotheses in rows]
