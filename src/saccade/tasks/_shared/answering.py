"""Answering, for all tasks: inputs are prepared, batched by length, answered and looked into.

A task defines three steps: `prepare` turns inputs into examples, `answer` answers a batch of them,
and `look` returns where the model looked for a batch of answers. Checking, sorting, batching,
threads, progress and cancellation are here, once. None of this needs torch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from saccade.errors import DecodingError
from saccade.tasks._shared.notebook import list_html, text_html
from saccade.tasks._shared.parallel_batches import Rows, Workers

if TYPE_CHECKING:
    from saccade.lens.record import AttentionRecord

TaskInput = Any
"""An input of a task, such as a text, a pair of texts or an image."""
Options = Mapping[str, Any]
"""Options of `predict`, by name."""
NO_OPTIONS: Options = MappingProxyType({})

OnBatch = Callable[[int], None]
"""Called after each batch with the number of examples in it."""


class AnswerPiece(NamedTuple):
    """A part of an input that was answered on its own.

    Attributes:
        input: Its (start, end) characters in the input.
        text: The (start, end) characters of its answer in the text.
    """

    input: tuple[int, int]
    text: tuple[int, int]


@dataclass(frozen=True)
class Answer:
    """A model's prediction.

    Attributes:
        text: The text.
        score: Its mean log-probability.
        attention: The attention record, if requested.
        alternatives: Other answers, the best first.
        finished: False if the text was cut at its maximum length.
        truncated: True if the input was too long and only a part of it was read.
        pieces: The parts that a long input was split into; empty if it was answered at once.
        tokens: The generated tokens, if the text alone does not determine them.
        confidence: How sure the model is, from 0 to 1: the probability of a label; of a generated
            text, the geometric mean of the probabilities of its tokens. None if there is none, as
            for a blank input or a number.
    """

    text: str
    score: float
    attention: AttentionRecord | None = None
    alternatives: tuple[Answer, ...] = ()
    finished: bool = True
    truncated: bool = False
    pieces: tuple[AnswerPiece, ...] = ()
    tokens: tuple[int, ...] | None = field(default=None, repr=False, compare=False)
    confidence: float | None = None

    def __str__(self) -> str:
        """Return the text."""
        return self.text

    def _repr_html_(self) -> str:
        """Return the answer as a notebook shows it."""
        return text_html(self.text, self.confidence)

    def to_dict(self) -> dict[str, object]:
        """Return the answer as plain JSON values, without attention.

        These are the fields of `saccade predict --json` and of the HTTP API.
        """
        table: dict[str, object] = {
            "text": self.text,
            "score": self.score,
            "confidence": self.confidence,
            "truncated": self.truncated,
        }
        if self.pieces:
            table["pieces"] = [
                {"input": list(piece.input), "text": list(piece.text)} for piece in self.pieces
            ]
        if self.alternatives:
            others = (other.to_dict() for other in self.alternatives)
            table["alternatives"] = [
                {name: other[name] for name in ("text", "score", "confidence")} for other in others
            ]
        return table

    def as_json(self) -> dict[str, object]:
        """Return what `to_dict` returns; its earlier name."""
        return self.to_dict()


class Answers(list[Any]):
    """A list of answers, which a notebook shows as a table."""

    def _repr_html_(self) -> str:
        return list_html([answer._repr_html_() for answer in self])


BLANK = Answer("", 0.0)
"""The answer to a blank input."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Example:
    """An input as a task reads it.

    Attributes:
        number: The number of the input, from 0, for its seed and for messages.
        piece: The number of the part of the input, from 0, if a long input is split.
        length: The number of tokens that are read; examples of similar length are answered
            together.
        encoded: The number of tokens of the complete input.
        weights: Maximum number of weights per head in the attention record of the input; 0 for
            all pieces but the first.
        group: Examples are answered together only if this is equal.
        blank: Whether there is nothing to answer.
    """

    number: int
    piece: int = 0
    length: int = 0
    encoded: int = 0
    weights: int = 0
    group: Hashable = None
    blank: bool = False

    @property
    def cut(self) -> bool:
        """Whether only a part of it is read."""
        return self.encoded > self.length


ExampleT = TypeVar("ExampleT", bound=Example)


def answer_all(
    examples: Sequence[ExampleT],
    answer: Callable[[list[ExampleT]], Sequence[Answer]],
    look: Callable[[list[ExampleT], Sequence[Answer]], Sequence[AttentionRecord]] | None,
    workers: Workers,
    *,
    batch_size: int,
    on_batch: OnBatch | None,
) -> list[Answer]:
    """Answer examples batch by batch, several batches in parallel, and look into them."""
    require_batch_size(batch_size)
    answers = [BLANK] * len(examples)

    def answer_batch(rows: Rows) -> Sequence[Answer]:
        batch = [examples[i] for i in rows]
        answered = answer(batch)
        if look is None:
            return answered
        records = look(batch, answered)
        pairs = zip(answered, records, strict=True)
        return [replace(one, attention=record) for one, record in pairs]

    batches = batches_of(examples, workers.batch_size(len(examples), batch_size))
    for rows, answered in workers.side_by_side(answer_batch, batches):
        for i, one in zip(rows, answered, strict=True):
            answers[i] = replace(one, truncated=True) if examples[i].cut else one
        if on_batch is not None:
            on_batch(sum(examples[i].piece == 0 for i in rows))
    return answers


def batches_of(examples: Sequence[Example], batch_size: int) -> list[Rows]:
    """Return the indices of examples that are answered together: equal group, similar length.

    The longest come first, so that no thread is left with a long batch when the others are done.
    """
    groups: dict[Hashable, Rows] = {}
    for i, example in enumerate(examples):
        if not example.blank:
            groups.setdefault(example.group, []).append(i)
    batches = []
    for rows in groups.values():
        rows.sort(key=lambda i: -examples[i].length)
        batches += [rows[at : at + batch_size] for at in range(0, len(rows), batch_size)]
    return sorted(batches, key=lambda rows: -examples[rows[0]].length)


def require_several(inputs: object) -> None:
    """Raise `DecodingError` if one input is given where a list of inputs is expected."""
    images = sys.modules.get("PIL.Image")  # nobody has an image while it is not imported
    kinds = (str, bytes, Path) if images is None else (str, bytes, Path, images.Image)
    if isinstance(inputs, kinds):
        raise DecodingError("predict takes several inputs, got one: put it into a list")


def require_batch_size(batch_size: int) -> None:
    """Raise `DecodingError` unless at least one input is answered at a time."""
    if batch_size < 1:
        raise DecodingError(f"batch_size must be at least 1, got {batch_size}; 64 is usual")


def require_no_options(options: Options, known: Sequence[str] = ()) -> None:
    """Raise `DecodingError` if there are options that a task lacks; `known` are those it has."""
    if options:
        names = ", ".join((*known, "attention", "batch_size"))
        raise DecodingError(
            f"{next(iter(options))!r} is not an option of this task; use one of: {names}"
        )
