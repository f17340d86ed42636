"""Predictors: the part of a task that the command line and the server need to predict.

It needs no torch. A `Task` is a `Predictor` with a model; a `ReadyPredictor` has an engine that is
another program, and loads the task only for what that program cannot do.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, ClassVar

from saccade.data.corpus import Item
from saccade.decoding import GenerationConfig
from saccade.errors import DataError, WatchError
from saccade.tasks._shared.answering import (
    NO_OPTIONS,
    Answer,
    Answers,
    Example,
    OnBatch,
    Options,
    TaskInput,
    answer_all,
    require_several,
)
from saccade.tasks._shared.description import Description
from saccade.tasks._shared.parallel_batches import Workers

if TYPE_CHECKING:
    from saccade.lens.record import AttentionRecord

log = logging.getLogger(__name__)


class Predictor(ABC):
    """Base class for all that answers inputs, in the three steps `prepare`, `answer` and `look`.

    Attributes:
        name: The `task` of its recipes.
        unsplit: The options of `prepare` with which each input is one example.
        belief: How far to trust the attention of the trained model, in words; "" if unknown.
    """

    name: ClassVar[str]
    unsplit: ClassVar[Options] = NO_OPTIONS
    belief: str = ""

    @abstractmethod
    def describe(self) -> Description:
        """Return what the task reads and writes, and the options of its model."""

    @abstractmethod
    def prepare(
        self, inputs: Sequence[TaskInput], options: Options = NO_OPTIONS, *, first: int = 0
    ) -> Sequence[Example]:
        """Turn inputs into examples that carry the options they are to be answered with.

        A long input may become several examples, whose answers `join` joins.

        Args:
            inputs: The inputs.
            options: The options of the task, such as those of `[generation]`.
            first: The number of the first input, from 0.
        """

    @abstractmethod
    def answer(self, examples: Sequence[Any]) -> Sequence[Answer]:
        """Answer a batch of examples, in their order."""

    def look(self, examples: Sequence[Any], answers: Sequence[Answer]) -> list[AttentionRecord]:
        """Return where the model looked for each answer of a batch."""
        raise WatchError(
            "this model has no attention: it never looks back at what it read; "
            "use a model with attention"
        )

    def look_with_belief(
        self, examples: Sequence[Any], answers: Sequence[Answer]
    ) -> list[AttentionRecord]:
        """Return what `look` does, with how far to trust it."""
        return [record.with_belief(self.belief) for record in self.look(examples, answers)]

    def join(self, examples: Sequence[Any], answers: list[Answer]) -> list[Answer]:
        """Return one answer per input from the answers to all examples."""
        return answers

    def input_of(self, item: Item) -> TaskInput:
        """Return the input of an item, as `predict` takes it."""
        return item.inputs[0]

    @property
    def reads(self) -> str:
        """The kind of an input, such as "text", "pair" (of texts), "image" or "vectors"."""
        return self.describe().reads.kind

    @property
    def generation(self) -> GenerationConfig | None:
        """The default options of generation; None if no text is generated."""
        return self.describe().generation

    @property
    @abstractmethod
    def workers(self) -> Workers:
        """The threads that answer batches."""

    @abstractmethod
    def score(
        self,
        inputs: Sequence[TaskInput],
        outputs: Sequence[str],
        *,
        attention: bool = False,
        batch_size: int = 64,
    ) -> list[Any]:
        """Return how probable given outputs are; see `Task.score`."""

    @abstractmethod
    def attention_size(self, inputs: Sequence[TaskInput], options: Options) -> int:
        """Return an upper bound of the number of attention weights in the records of inputs."""

    @abstractmethod
    def thread_of_batches(self) -> AbstractContextManager[None]:
        """Return the context of a thread that answers batch after batch with the same weights."""

    @abstractmethod
    def prepare_single_thread(self) -> None:
        """Let the calling thread compute alone, as one of several that generate."""

    def parse(self, line: str) -> TaskInput:
        """Return the input that a line of text stands for."""
        return line

    def from_json(self, value: object) -> TaskInput:
        """Return the input that a JSON value stands for; it never names a file."""
        if not isinstance(value, str):
            raise DataError(f"an input is a text, got {json_kind(value)}; send a JSON string")
        return value

    def warn(self, examples: Sequence[Example]) -> None:
        """Log a warning about inputs that are not read completely."""
        if not (cut := [example for example in examples if example.cut]):
            return
        reads = self.describe().reads
        log.warning(
            "%d of %d inputs are too long, the first is input %d: of its %d %s, %s",
            len(cut),
            len(examples),
            cut[0].number + 1,
            cut[0].encoded,
            reads.unit,
            reads.part.format(cut[0].length),
        )

    def predict(
        self,
        inputs: Sequence[TaskInput],
        *,
        attention: bool = False,
        batch_size: int = 64,
        first: int = 0,
        on_batch: OnBatch | None = None,
        **options: Any,
    ) -> list[Any]:
        """Answer each input, in their order.

        A blank text gets an empty answer. A text that is too long is split, if the task can join
        the answers of its pieces, or else cut, with a warning and `truncated` in its answer.

        Args:
            inputs: The inputs.
            attention: Whether to return where the model looked, as an `AttentionRecord`.
            batch_size: The maximum number of inputs, of similar length, that are answered together;
                on a CPU several batches are answered in parallel.
            first: The number of the first input, for its random seed and for messages.
            on_batch: Called after each batch with the number of inputs it answered.
            options: Options of the task, such as those of `[generation]`.

        Raises:
            DecodingError: An input or an option is not valid.
            WatchError: `attention` of a model without attention.
        """
        require_several(inputs)
        examples = self.prepare(inputs, options, first=first)
        self.warn(examples)
        return Answers(
            self.answer_all(examples, attention=attention, batch_size=batch_size, on_batch=on_batch)
        )

    def answer_all(
        self,
        examples: Sequence[Example],
        *,
        attention: bool = False,
        batch_size: int = 64,
        on_batch: OnBatch | None = None,
    ) -> list[Answer]:
        """Answer prepared examples."""
        look = self.look_with_belief if attention else None
        answers = answer_all(
            examples, self.answer, look, self.workers, batch_size=batch_size, on_batch=on_batch
        )
        return self.join(examples, answers)


def json_kind(value: object) -> str:
    """Return the name of a JSON value's type, for a message."""
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    return names.get(type(value), "null" if value is None else "a number")
