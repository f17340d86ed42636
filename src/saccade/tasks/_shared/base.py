"""The Task seam: all that the training loop, the command line and the server know of a task.

A task holds the model, its vocabularies and its metrics. It turns rows of a file into examples,
examples into batches, a batch into a loss, and inputs into answers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from saccade.attention.watch import count_heads
from saccade.data.corpus import Item, Split
from saccade.data.corpus import items as grouped
from saccade.data.sources.columns import Column, counted
from saccade.data.store.cache import Encoded
from saccade.data.store.ragged import Integers
from saccade.decoders.fast_path import sharing
from saccade.errors import DecodingError
from saccade.shapes import Float, Tensor
from saccade.tasks._shared.answering import (
    Answer,
    Answers,
    Example,
    OnBatch,
    Options,
    TaskInput,
    answer_all,
    require_several,
)
from saccade.tasks._shared.description import VOCABULARY_FILE
from saccade.tasks._shared.evaluation import Evaluation
from saccade.tasks._shared.parallel_batches import Workers
from saccade.tasks._shared.predictor import Predictor
from saccade.tasks._shared.scoring import ScoredAnswer, TokenScore, scored_answer
from saccade.tasks._shared.torch_workers import TorchWorkers
from saccade.text import Tokenizer, VocabularyConfig

if TYPE_CHECKING:
    from saccade.lens.record import AttentionRecord

Rows = Sequence[int] | npt.NDArray[np.int64]
"""The indices of examples."""
Progress = Callable[[int], None]
"""Called with the number of rows done so far."""


@dataclass(frozen=True)
class Loss:
    """The loss of a batch as a sum over its predictions.

    The loop adds up the counts of all batches and processes of an update and divides by the total,
    so that every prediction weighs the same.

    Attributes:
        total: The sum.
        count: The number of predictions.
        metrics: Further sums over the predictions, without gradient, by name.
        items: Computes the mean loss of each item of the batch; None if only the sum is known.
    """

    total: Float[Tensor, ""]
    count: int
    metrics: Mapping[str, Float[Tensor, ""]] = field(default_factory=dict)
    items: Callable[[], Float[Tensor, " b"]] | None = None


BatchT = TypeVar("BatchT", bound="Batch")


@dataclass(frozen=True)
class Batch:
    """Base class for batches: every field is a tensor or None."""

    def to(self: BatchT, device: torch.device | str) -> BatchT:
        """Return the batch on another device."""
        values = (getattr(self, entry.name) for entry in fields(self))
        return type(self)(*(None if value is None else value.to(device) for value in values))


class Task(nn.Module, Predictor):
    """A model with its vocabularies, its metrics, and the way from data to answers.

    A subclass implements `describe`, `forward`, the way from rows to batches (`encode`, `sizes`,
    `collate`, `force`), the three steps of `predict` (`prepare`, `answer`, `look`), `measure` and
    `files`.

    Attributes:
        unit: A plural noun for what a batch counts, such as tokens.
        reinitialised: Prefixes of parameters that are never taken from another model.
        selection_metric: The metric by which the best weights are selected.
        config: The options that the task was created with.
        model: The model.
    """

    unit: ClassVar[str] = "tokens"
    reinitialised: ClassVar[tuple[str, ...]] = ()
    selection_metric: str
    config: TaskConfig
    model: nn.Module

    @property
    def largest_weight(self) -> float:
        """The largest weight that the loss gives to an example, where their mean is 1."""
        return 1.0

    @abstractmethod
    def forward(self, batch: Any) -> Loss:
        """Return the loss of a batch."""

    @abstractmethod
    def encode(self, split: Split, folder: Path, progress: Progress | None = None) -> Encoded:
        """Return the examples of a split as numbers, from the cache in `folder` if it has them."""

    @abstractmethod
    def sizes(self, examples: Encoded) -> Integers:
        """Return the number of tokens of each example on each side (n, sides)."""

    @abstractmethod
    def collate(self, examples: Encoded, rows: Rows) -> Batch:
        """Return the examples at `rows` as one batch."""

    @abstractmethod
    def force(self, inputs: Sequence[TaskInput], outputs: Sequence[str]) -> Batch:
        """Return the batch in which each input has the given output (teacher forcing)."""

    @abstractmethod
    def files(self) -> dict[str, str]:
        """Return the files that a run folder needs apart from recipe and weights, by name."""

    def token_scores(
        self, examples: Sequence[Any], outputs: Sequence[str]
    ) -> Sequence[Sequence[TokenScore]]:
        """Return the score of each token of the given outputs of a batch; see `score`."""
        raise DecodingError(
            f"outputs of the task {self.name} cannot be scored, because they have no probability; "
            "score the outputs of a classifier, translator or language model"
        )

    def attention_toward(self, given: TaskInput, answer: ScoredAnswer) -> AttentionRecord:
        """Return where the model looks if an input is answered by a given output.

        Args:
            given: The input.
            answer: The output, with what `look` returned for it.
        """
        assert answer.attention is not None
        return answer.attention

    def measure(self, items: list[Item], answers: Sequence[Any], *, quick: bool) -> Evaluation:
        """Return the metrics of the answers to some items; see `evaluate`."""
        raise NotImplementedError(f"{type(self).__name__} must define measure or evaluate")

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of a data file that the task reads."""
        return self.config.columns

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.parameters()).device

    @property
    def comparison_metric(self) -> str:
        """The metric by which several models are compared."""
        return self.selection_metric

    def ensure_eval(self) -> None:
        """Switch off dropout, without a walk over all modules if it is off already."""
        if self.training or self.model.training:
            self.eval()

    def remarks(self, examples: Encoded) -> Iterator[str]:
        """Yield sentences about rows that are left out or read in part."""
        skipped = examples.skipped
        if skipped.empty or skipped.too_long:
            parts = []
            if skipped.empty:
                parts.append(f"{counted(skipped.empty, 'row')} with an empty column")
            if skipped.too_long:
                long = counted(skipped.too_long, "row")
                parts.append(f"{long} that {'is' if skipped.too_long == 1 else 'are'} too long")
            several = ", the first" if skipped.empty + skipped.too_long > 1 else ""
            yield f"left out {' and '.join(parts)}{several}: {skipped.first[0]}"

    def items(self, split: Split) -> Iterator[Item]:
        """Yield the items of a split; rows with the same input are one item."""
        return grouped(split)

    @property
    def attention_layers(self) -> Sequence[str] | None:
        """The names of the attentions that `look` records; None for all."""
        return None

    def attention_size(self, inputs: Sequence[TaskInput], options: Options) -> int:
        """Return an upper bound of the number of attention weights in the records of these inputs.

        It is known before any answer is, from lengths and limits.
        """
        examples = self.prepare(inputs, options)
        heads = count_heads(self.model, self.attention_layers)
        return heads * sum(example.weights for example in examples)

    def finish(self, examples: Encoded) -> str:
        """Finish the task after training, with the best weights and validation examples.

        Returns:
            A sentence about what changed; changes must be part of `files`.
        """
        return ""

    @property
    def workers(self) -> Workers:
        """The threads that answer batches; torch's, on a CPU."""
        return TorchWorkers(self.device)

    @contextmanager
    def thread_of_batches(self) -> Iterator[None]:
        """Share copied weights among all batches that a thread answers, whatever others set."""
        torch.get_num_threads()  # fixes the number for this thread
        with sharing({}):
            yield

    def prepare_single_thread(self) -> None:
        """Let the calling thread compute alone: decoding steps are too small to be divided."""
        torch.set_num_threads(1)

    def answer_all(self, examples: Sequence[Example], **options: Any) -> list[Answer]:
        """Answer prepared examples; see `Predictor.answer_all`."""
        self.ensure_eval()
        return super().answer_all(examples, **options)

    def score(
        self,
        inputs: Sequence[TaskInput],
        outputs: Sequence[str],
        *,
        attention: bool = False,
        batch_size: int = 64,
    ) -> list[Any]:
        """Return how probable given outputs are, token by token: why not this answer?

        Each output is forced in one pass (teacher forcing); nothing is generated. An output is a
        text, a label, or tags separated by spaces, as `evaluate` reads them.

        Args:
            inputs: The inputs, as `predict` takes them.
            outputs: The output of each input.
            attention: Whether to return where the model looked, as an `AttentionRecord`. Where a
                label is read from does not depend on the label, so the record of a label shows the
                attention that speaks for it: each weight times its effect on its probability.
            batch_size: The maximum number of inputs of similar length that are scored together.

        Returns:
            One `ScoredAnswer` per input, whose `token_scores` have the probability of each token
            and the most probable token at its place.

        Raises:
            DecodingError: An input or an output is not valid, or outputs have no probability.
            WatchError: `attention` of a model without attention.
        """
        require_several(inputs)
        require_several(outputs)
        if len(inputs) != len(outputs):
            raise DecodingError(
                f"score takes one output per input, got {len(inputs)} inputs and {len(outputs)} "
                "outputs; "
                "pass them in the same order"
            )
        examples = self.prepare(inputs, self.unsplit)
        self.warn(examples)
        self.ensure_eval()

        def scored(batch: Sequence[Example]) -> list[ScoredAnswer]:
            given = [outputs[example.number] for example in batch]
            rows = zip(given, self.token_scores(batch, given), strict=True)
            return [scored_answer(text, tokens) for text, tokens in rows]

        look = self.look_with_belief if attention else None
        answers = answer_all(
            examples, scored, look, self.workers, batch_size=batch_size, on_batch=None
        )
        rows = zip(inputs, outputs, answers, strict=True)
        return Answers(self._with_toward(*row) for row in rows)

    def _with_toward(self, given: TaskInput, output: str, answer: Answer) -> ScoredAnswer:
        if not isinstance(answer, ScoredAnswer):  # of a blank input
            return scored_answer(output, ())
        if answer.attention is None:
            return answer
        return replace(answer, attention=self.attention_toward(given, answer))

    def evaluate(
        self,
        items: Iterable[Item],
        *,
        quick: bool = False,
        on_batch: OnBatch | None = None,
        batch_size: int = 64,
        **options: Any,
    ) -> Evaluation:
        """Answer items and measure the answers.

        Args:
            items: The items, as `items` yields them.
            quick: Whether to leave out confidence intervals and beams, as in validations during
                training.
            on_batch: Called after each batch with the number of items it answered.
            batch_size: The maximum number of items that are answered together.
            options: Options of the task, such as those of `[generation]`.
        """
        items = list(items)
        if quick and self.generation is not None:
            options = {"beam": 1, "num_best": 1, **options}
        examples = self.prepare([self.input_of(item) for item in items], options)
        if not quick:
            self.warn(examples)
        answers = self.answer_all(examples, batch_size=batch_size, on_batch=on_batch)
        return self.measure(items, answers, quick=quick)

    @torch.no_grad()
    def records(self, inputs: Sequence[TaskInput], outputs: Sequence[str]) -> list[AttentionRecord]:
        """Return where the model looks if each input is answered by the given output."""
        self.ensure_eval()
        examples = self.prepare(inputs, self.unsplit)
        return self.look(examples, [Answer(text, 0.0) for text in outputs])


class TaskConfig(ABC):
    """The options of a task: a frozen dataclass whose fields are the tables of its recipes."""

    @property
    @abstractmethod
    def columns(self) -> tuple[Column, ...]:
        """The columns of a data file that the task reads."""

    def require_files(self) -> None:
        """Raise if a file that the options name is missing; called before data is read."""
        return

    @classmethod
    def start_from(cls, model: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the options of a model to start from as those of this task's model."""
        return model

    @abstractmethod
    def create(
        self, train: Split, progress: Progress | None = None, vocabulary: Path | None = None
    ) -> Task:
        """Return a task with new weights.

        Args:
            train: The training data, from which vocabularies and labels are made.
            progress: Called with the number of rows read.
            vocabulary: The folder that training starts from, whose vocabularies are used instead
                if it has some.
        """

    @abstractmethod
    def restore(self, folder: Path) -> Task:
        """Return a task with the `files` of a folder, and with new weights."""


def vocabulary_from(
    folder: Path | None, texts: Iterable[str], config: VocabularyConfig
) -> Tokenizer:
    """Return the vocabulary of a folder or, if it has none, a new vocabulary of the texts."""
    if folder is not None and (folder / VOCABULARY_FILE).is_file():
        return Tokenizer.load(folder / VOCABULARY_FILE)
    return Tokenizer.train(texts, config)


@torch.no_grad()
def likelihood(task: Task, given: TaskInput, output: str) -> float:
    """Return exp(-loss) of an output for an input, where the loss is the mean over predictions."""
    loss = task(task.force([given], [output]).to(task.device))
    return math.exp(-float(loss.total) / loss.count)


@torch.no_grad()
def likelihoods(task: Task, inputs: Sequence[TaskInput], output: str) -> list[float]:
    """Return the `likelihood` of an output for each input, computed in one batch if possible."""
    loss = task(task.force(inputs, [output] * len(inputs)).to(task.device))
    if loss.items is None:
        return [likelihood(task, given, output) for given in inputs]
    return loss.items().double().neg().exp().tolist()
