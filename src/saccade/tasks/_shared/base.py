"""The Task seam: what the loop, the command line, the server and the lens know of a model's job.

A task holds the model, its vocabularies and its metrics. It turns rows of a file into examples,
examples into batches, a batch into a loss, and an input into an answer. A new task is one file in
this folder: a subclass of `Task`, and a `Config` with the options that its recipes may set.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import torch
from torch import nn

from saccade.data.corpus import Item, Split
from saccade.data.corpus import items as grouped
from saccade.data.sources.columns import Column
from saccade.data.store.cache import Encoded
from saccade.decoding import GenerationConfig
from saccade.errors import DataError, WatchError
from saccade.shapes import Float, Tensor
from saccade.tasks._shared.answering import Answer, Example, OnBatch, answer_all, require_several
from saccade.tasks._shared.description import Description

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from saccade.lens.record import AttentionRecord
    from saccade.metrics.score import MetricScore

Progress = Callable[[int], None]
"""Called with the number of rows done so far."""


@dataclass(frozen=True)
class Loss:
    """The loss of a batch as a sum, and the number of predictions that it is the sum of.

    The loop adds up the counts of all batches and processes of an update and divides by that, so
    that every prediction weighs the same. `metrics` are further sums, without gradient.
    """

    total: Float[Tensor, ""]
    count: int
    metrics: Mapping[str, Float[Tensor, ""]] = field(default_factory=dict)


BatchT = TypeVar("BatchT", bound="Batch")


@dataclass(frozen=True)
class Batch:
    """Some examples as tensors: a task's own has a field for each, which may be None."""

    def to(self: BatchT, device: Any) -> BatchT:
        """The same on another device."""
        held = (getattr(self, each.name) for each in fields(self))
        return type(self)(*(None if each is None else each.to(device) for each in held))


@dataclass(frozen=True)
class Evaluation:
    """The metrics of a task over some items, and the answers they come from."""

    scores: dict[str, MetricScore]
    answers: list[str]
    items: list[Item]
    by_length: list[dict[str, Any]] = field(default_factory=list)
    tables: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    """What else is worth a look, such as the most confident mistakes: rows by their title."""
    meanings: Mapping[str, str] = field(default_factory=dict)
    """What the number of a score says, in one sentence, where that is not common knowledge."""
    attention: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    """Where attention was measured, what was found of each head: rows by their title."""
    engine: str = "eager"
    """What gave the answers that the scores are of."""

    def values(self) -> dict[str, float]:
        """The bare numbers."""
        return {name: score.value for name, score in self.scores.items()}

    def as_json(self) -> dict[str, Any]:
        """As plain values: the numbers by their names, then where they come from."""
        table = {
            **self.values(),
            "items": len(self.items),
            "details": {name: self._detail(name) for name in self.scores},
            "by_length": self.by_length,
            "engine": self.engine,
        }
        return {**table, "attention": self.attention} if self.attention else table

    def _detail(self, name: str) -> dict[str, Any]:
        score = self.scores[name]
        detail = {"signature": score.signature, "interval": score.interval}
        said = self.meanings.get(name)
        return detail if said is None else {**detail, "meaning": said}


class Task(nn.Module, ABC):
    """A model with everything that its job needs besides.

    name        the name of its module, as recipes give it in `task`
    unit        what its predictions are of, for people
    new_parts   what of the model is never taken from another: names begin with one of these
    columns     the columns of a data file that it reads
    selects     the metric that tells which weights are the best
    """

    name: ClassVar[str]
    unit: ClassVar[str] = "tokens"
    reinitialised: ClassVar[tuple[str, ...]] = ()
    columns: tuple[Column, ...]
    selection_metric: str
    model: nn.Module

    @abstractmethod
    def forward(self, batch: Any) -> Loss:
        """The loss of a batch."""

    @abstractmethod
    def describe(self) -> Description:
        """Return what the task reads and writes, and the options of its model."""

    @property
    def reads(self) -> str:
        """The kind of an input, such as "text", "pair" (of texts) or "image"."""
        return self.describe().reads.kind

    @property
    def generation(self) -> GenerationConfig | None:
        """The default options of generation; None if no text is generated."""
        return self.describe().generation

    def ensure_eval(self) -> None:
        """No dropout from here on; looking after all modules each time would be a short answer's
        millisecond.
        """
        if self.training or self.model.training:
            self.eval()

    @abstractmethod
    def encode(self, split: Split, folder: Path, progress: Progress | None = None) -> Encoded:
        """The examples of a split as numbers, from the cache in `folder` or put there."""

    @abstractmethod
    def sizes(self, examples: Encoded) -> npt.NDArray[np.int64]:
        """The tokens of each example on each side (n, sides), as they fill a batch."""

    @abstractmethod
    def collate(self, examples: Encoded, rows: Sequence[int] | npt.NDArray[np.int64]) -> Batch:
        """These examples as one batch."""

    def remarks(self, examples: Encoded) -> Iterator[str]:
        """What a user should know of what became of the rows."""
        skipped = examples.skipped
        if skipped.empty or skipped.too_long:
            yield (
                f"left out {skipped.empty} rows with nothing in a column and {skipped.too_long} "
                f"that are too long, the first: {skipped.first[0]}"
            )

    def items(self, split: Split) -> Iterator[Item]:
        """The questions of a split; rows that ask the same are one, with all their answers."""
        return grouped(split)

    def parse(self, line: str) -> Any:
        """The input that a line of text stands for."""
        return line

    @property
    def comparison_metric(self) -> str:
        """The metric that tells which of several models is the best."""
        return self.selection_metric

    def input_of(self, item: Item) -> Any:
        """The input with which `predict` is asked an item of a split."""
        return item.inputs[0]

    def from_json(self, value: Any) -> Any:
        """The input that a value of JSON stands for; it never names a file."""
        if not isinstance(value, str):
            raise DataError(f"an input is a text, got {json_kind(value)}")
        return value

    def attention_size(self, inputs: Sequence[Any], options: Mapping[str, Any]) -> int:
        """The most weights that the attention records of these inputs can hold together.

        `options` are those of `predict`. It is known before any answer is, from lengths and limits.
        """
        return 0

    @abstractmethod
    def prepare(
        self, inputs: Sequence[Any], *, first: int = 0, **options: Any
    ) -> Sequence[Example]:
        """Turn inputs into examples that carry the options they are to be answered with.

        `first` is the number of the first input.
        """

    @abstractmethod
    def answer(self, examples: Sequence[Any]) -> Sequence[Answer]:
        """Answer a batch of examples, in their order."""

    def look(self, examples: Sequence[Any], answers: Sequence[Answer]) -> list[AttentionRecord]:
        """Return where the model looked for each answer of a batch."""
        raise WatchError("this model has no attention: it never looks back at what it read")

    def warn(self, examples: Sequence[Any]) -> None:
        """Log a warning about inputs that are not read as they are, such as cut ones."""

    def predict(
        self,
        inputs: Sequence[Any],
        *,
        attention: bool = False,
        batch_size: int = 64,
        first: int = 0,
        on_batch: OnBatch | None = None,
        **options: Any,
    ) -> list[Any]:
        """Answer each input, in their order.

        attention    also return where the model looked, as an AttentionRecord
        batch_size   inputs of similar length are answered together, at most this many; on a CPU
                     several batches at the same time
        first        number of the first input, for its random seed and for messages
        on_batch     called after each batch with the number of inputs it answered
        options      options of the task, such as those of `[generation]`

        A blank text gets an empty answer. A text that is too long is cut, with a warning.
        """
        require_several(inputs)
        examples = self.prepare(inputs, first=first, **options)
        self.warn(examples)
        return self.answer_all(
            examples, attention=attention, batch_size=batch_size, on_batch=on_batch
        )

    def answer_all(
        self,
        examples: Sequence[Example],
        *,
        attention: bool = False,
        batch_size: int = 64,
        on_batch: OnBatch | None = None,
    ) -> list[Any]:
        """Answer prepared examples."""
        self.ensure_eval()
        look = self.look if attention else None
        return answer_all(
            examples, self.answer, look, self.device, batch_size=batch_size, on_batch=on_batch
        )

    @torch.no_grad()
    def records(self, inputs: Sequence[Any], outputs: Sequence[str]) -> list[AttentionRecord]:
        """Return where the model looks if each input is answered by the given output."""
        self.ensure_eval()
        return self.look(self.prepare(inputs), [Answer(text, 0.0) for text in outputs])

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    @abstractmethod
    def force(self, inputs: Sequence[Any], outputs: Sequence[str]) -> Batch:
        """The batch in which each input is answered by the given output (teacher forcing)."""

    @abstractmethod
    def evaluate(
        self,
        items: Iterable[Item],
        *,
        quick: bool = False,
        on_batch: OnBatch | None = None,
        batch_size: int = 64,
        **options: Any,
    ) -> Evaluation:
        """Answer the items and measure the answers; `on_batch` is called after each batch.

        `quick` is for the many looks of a training: greedy answers, and bare numbers.
        """

    @abstractmethod
    def files(self) -> dict[str, str]:
        """What the task needs besides recipe and weights, such as vocabularies: files' contents."""

    def finish(self, examples: Encoded) -> str:
        """Do what is done once, with the best weights on validation data; what there is to say.

        What it changes must be among `files`.
        """
        return ""


class TaskConfig(ABC):
    """The options of a task: what its recipes may set besides `[training]`."""

    @property
    @abstractmethod
    def columns(self) -> tuple[Column, ...]:
        """The columns of a data file that the task reads."""

    @abstractmethod
    def create(
        self, train: Split, progress: Progress | None = None, vocabulary: Path | None = None
    ) -> Task:
        """A task with new weights, and with vocabularies made from this data.

        `vocabulary` is a folder whose vocabularies are taken instead.
        """

    @abstractmethod
    def restore(self, folder: Path) -> Task:
        """The task whose parts lie in this folder, with new weights to be filled."""


@torch.no_grad()
def likelihood(task: Task, given: Any, output: str) -> float:
    """Return exp(-loss) of an output for an input, where the loss is the mean over predictions."""
    loss = task(task.force([given], [output]).to(task.device))
    return math.exp(-float(loss.total) / loss.count)


def json_kind(value: object) -> str:
    """What a value of JSON is, for a message."""
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    return kinds.get(type(value), "null" if value is None else "a number")
