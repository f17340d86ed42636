"""Predictors with an engine that is another program; they load no torch to answer.

A task is described by a record of plain values (`ready_record`), which is kept beside the files of
its engine. From the record, the vocabularies and the engine, `ready_predictor` makes a predictor
that prepares inputs and returns answers exactly as the task does. What the engine cannot do, such
as attention, is left to the task, which is loaded when it is first needed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saccade.decoding import GenerationConfig, TextEngine
from saccade.lens.alignment.align_by import AlignBy
from saccade.tasks._shared.answering import Answer, Example, OnBatch, Options, TaskInput
from saccade.tasks._shared.capabilities import Aligns
from saccade.tasks._shared.continuing import ContinuingPredictor
from saccade.tasks._shared.description import Description, GeneratedText, TextInput
from saccade.tasks._shared.generating import GeneratingPredictor
from saccade.tasks._shared.parallel_batches import Workers
from saccade.tasks._shared.predictor import Predictor
from saccade.tasks._shared.translating import TranslatingPredictor
from saccade.text import Tokenizer

if TYPE_CHECKING:
    from saccade.lens.record import AttentionRecord

APART = {"tokenizer", "options"}
"""Fields of descriptions that a record has in another form."""


class NeedsModel(Exception):  # noqa: N818 - it is not an error
    """Raised in place of an answer that only the model of a task can give."""


class LateTask:
    """The task of a predictor, which is loaded when it is first needed.

    Args:
        load: Load the task, whose engine is that of its own model.
    """

    def __init__(self, load: Callable[[], Any]) -> None:
        self._load, self._lock = load, threading.Lock()
        self._task: Any = None
        self._eager: TextEngine | None = None

    @property
    def is_loaded(self) -> bool:
        """Whether the task is loaded."""
        return self._task is not None

    def task(self, engine: TextEngine) -> Any:
        """Return the task, which answers with this engine."""
        with self._lock:
            if self._task is None:
                task = self._load()
                self._eager, task.engine = task.engine, engine
                self._task = task
            return self._task

    def eager(self) -> TextEngine:
        """Return the engine of the task's own model.

        Raises:
            NeedsModel: The task is not loaded.
        """
        if self._eager is None:
            raise NeedsModel
        return self._eager


class ReadyPredictor(GeneratingPredictor):
    """A predictor whose engine is another program.

    Args:
        reads: The description of its input.
        writes: The description of its output.
        engine: The engine, which raises `NeedsModel` for what it cannot do.
        late: The task, for what the engine cannot do.
    """

    def __init__(
        self, reads: TextInput, writes: GeneratedText, engine: TextEngine, late: LateTask
    ) -> None:
        self.engine: TextEngine = engine
        self.late = late
        self._reads, self._writes = reads, writes

    def task(self) -> Any:
        """Return the task, which is loaded by the first call and has the same engine."""
        return self.late.task(self.engine)

    def describe(self) -> Description:
        """Return what the task reads and writes; the options of its model are not known."""
        return Description(reads=self._reads, writes=self._writes, model=None)

    @property
    def writes(self) -> GeneratedText:
        """The description of the generated text."""
        return self._writes

    @property
    def workers(self) -> Workers:
        """The threads that answer batches."""
        return Workers()

    def answer_all(
        self,
        examples: Sequence[Example],
        *,
        attention: bool = False,
        batch_size: int = 64,
        on_batch: OnBatch | None = None,
    ) -> list[Answer]:
        """Answer prepared examples; the task does so if the engine cannot, or if it is loaded."""
        options: dict[str, Any] = {"batch_size": batch_size, "on_batch": on_batch}
        if not attention and not self.late.is_loaded:
            with suppress(NeedsModel):
                return super().answer_all(examples, **options)
        answers: list[Answer] = self.task().answer_all(examples, attention=attention, **options)
        return answers

    def score(
        self,
        inputs: Sequence[TaskInput],
        outputs: Sequence[str],
        *,
        attention: bool = False,
        batch_size: int = 64,
    ) -> list[Any]:
        """Return how probable the task's model finds given outputs."""
        scores: list[Any] = self.task().score(
            inputs, outputs, attention=attention, batch_size=batch_size
        )
        return scores

    def attention_size(self, inputs: Sequence[TaskInput], options: Options) -> int:
        """Return an upper bound of the number of attention weights in the records of inputs."""
        size: int = self.task().attention_size(inputs, options)
        return size

    def thread_of_batches(self) -> AbstractContextManager[None]:
        """Return a context without effect: the engine shares its weights anyway."""
        return nullcontext()

    def prepare_single_thread(self) -> None:
        """Load the task, which alone generates with one thread of several."""
        self.task().prepare_single_thread()


class ReadyTranslator(TranslatingPredictor, ReadyPredictor):
    """A translator whose engine is another program.

    Args:
        source: The vocabulary of inputs.
        target: The vocabulary of answers.
        reads_lines: See `TranslatingPredictor`.
        align_by: The attention that the task aligns words by.
        parts: The arguments of `ReadyPredictor`.
    """

    def __init__(
        self,
        source: Tokenizer,
        target: Tokenizer,
        *parts: Any,
        reads_lines: bool,
        align_by: AlignBy,
    ) -> None:
        super().__init__(*parts)
        self.source, self.target = source, target
        self.reads_lines, self.align_by = reads_lines, align_by

    @property
    def max_length(self) -> int:
        """The maximum number of tokens of an input that is answered at once."""
        return self._reads.max_length - len(self._reads.after)

    def records(self, inputs: Sequence[TaskInput], outputs: Sequence[str]) -> list[AttentionRecord]:
        """Return where the task's model looks if each input is answered by the given output."""
        records: list[AttentionRecord] = self.task().records(inputs, outputs)
        return records


class ReadyLanguageModel(ContinuingPredictor, ReadyPredictor):
    """A language model whose engine is another program.

    Args:
        tokenizer: The vocabulary.
        parts: The arguments of `ReadyPredictor`.
    """

    def __init__(self, tokenizer: Tokenizer, *parts: Any) -> None:
        super().__init__(*parts)
        self.tokenizer = tokenizer

    @property
    def text_input(self) -> TextInput:
        """The description of the beginning of a text."""
        return self._reads

    def stream(self, prompt: str, **options: Any) -> Generator[str, None, bool]:
        """Yield the text in pieces, as the task's model generates them."""
        streamed: Generator[str, None, bool] = self.task().stream(prompt, **options)
        return streamed


def ready_record(task: Predictor) -> dict[str, Any]:
    """Return what `ready_predictor` needs to know of a task; empty if it has no such predictor."""
    about = task.describe()
    match task, about.reads, about.writes:
        case TranslatingPredictor() | ContinuingPredictor(), TextInput() as reads, GeneratedText():
            writes = about.writes
            record: dict[str, Any] = {
                "task": task.name,
                "reads": _plain(reads),
                "writes": _plain(writes),
                "options": asdict(writes.options),
            }
            if isinstance(task, TranslatingPredictor):
                record["reads_lines"] = task.reads_lines
                record["align_by"] = asdict(task.align_by) if isinstance(task, Aligns) else {}
            return record
    return {}


def ready_predictor(
    record: Mapping[str, Any],
    reads: TextInput,
    writes: GeneratedText,
    engine: TextEngine,
    late: LateTask,
) -> ReadyPredictor:
    """Return the predictor of a record.

    Args:
        record: What `ready_record` returned for the task.
        reads: The description of its input; see `sides_of`.
        writes: The description of its output.
        engine: The engine.
        late: The task, for what the engine cannot do.
    """
    if record["task"] == ReadyTranslator.name:
        return ReadyTranslator(
            reads.tokenizer,
            writes.tokenizer,
            reads,
            writes,
            engine,
            late,
            reads_lines=record["reads_lines"],
            align_by=AlignBy(**record["align_by"]),
        )
    return ReadyLanguageModel(writes.tokenizer, reads, writes, engine, late)


def sides_of(record: Mapping[str, Any], folder: Path) -> tuple[TextInput, GeneratedText]:
    """Return the input and the output that a record describes.

    Args:
        record: What `ready_record` returned for the task.
        folder: The folder of the vocabularies.
    """
    reads, writes = record["reads"], record["writes"]
    source = target = Tokenizer.load(folder / reads["file"])
    if writes["file"] != reads["file"]:
        target = Tokenizer.load(folder / writes["file"])
    options = GenerationConfig(**record["options"])
    return (
        TextInput(tokenizer=source, **_fields(reads)),
        GeneratedText(tokenizer=target, options=options, **_fields(writes)),
    )


def _plain(side: TextInput | GeneratedText) -> dict[str, Any]:
    names = [entry.name for entry in fields(side) if entry.name not in APART]
    return {name: getattr(side, name) for name in names}


def _fields(table: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in table.items()
    }
