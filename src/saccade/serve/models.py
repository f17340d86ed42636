"""Models of a server: their names, their queues, and the limits on requests for them."""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, aclosing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from saccade.decoding import GenerationConfig
from saccade.engine_protocol import HasEngine
from saccade.errors import SaccadeError, ServeError
from saccade.serve.batcher import Batcher, GenerationOptions, PredictionJob, characters
from saccade.serve.cards import ModelCard
from saccade.serve.deadlines import Deadline
from saccade.serve.limits import RequestLimits
from saccade.serve.problems import Problem
from saccade.serve.prometheus import ServerMetrics
from saccade.serve.streamer import Streamer, StreamPiece
from saccade.tasks import Aligns, Answer, GeneratedText, Predictor, Streams

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
LANGUAGE_PAIR = re.compile(r"([a-z]{2,3})-([a-z]{2,3})")


@dataclass(frozen=True)
class ServedRun:
    """A run folder and the name by which clients address it.

    Attributes:
        name: Name of the model.
        folder: Run folder.
        languages: Source and target language, if the name was given and is a language pair.
            Otherwise they are those of the columns or files that the run was trained on.
    """

    name: str
    folder: Path
    languages: tuple[str, str] | None = None

    @classmethod
    def parse(cls, text: str) -> "ServedRun":
        """Parse RUN or NAME=RUN; without a name, the model is called like its folder.

        Example:
            >>> ServedRun.parse("en-fr=runs/first").languages
            ('en', 'fr')
        """
        name, equals, folder = text.partition("=")
        if not equals or Path(text).is_dir():
            path = Path(text)
            return cls(_checked_name(path.resolve().name, text), path)
        pair = LANGUAGE_PAIR.fullmatch(name)
        languages = (pair[1], pair[2]) if pair else None
        return cls(_checked_name(name, text), Path(folder), languages)


class ServedModel:
    """A predictor that answers requests through a bounded queue.

    Args:
        name: Name by which clients address it.
        task: Task, or another predictor, that answers.
        limits: Limits of its requests.
        metrics: Metrics of the server.
        languages: Source and target language of a translator.
        card: What the page shows of its run.

    Attributes:
        pending: Requests that wait or are being answered.
    """

    def __init__(
        self,
        name: str,
        task: Predictor,
        *,
        limits: RequestLimits,
        metrics: ServerMetrics,
        languages: tuple[str, str] | None = None,
        card: ModelCard | None = None,
    ) -> None:
        self.name, self.task, self.limits = name, task, limits
        self.languages = languages if languages and isinstance(task, Aligns) else None
        self.card = card or ModelCard()
        self.pending = 0
        self._metrics = metrics
        self._batcher = Batcher(task, limits, self._count_batch)
        self._streamer = Streamer(limits.streams, task.prepare_single_thread)

    @property
    def full(self) -> bool:
        """Whether its queue has no room for another request."""
        return self.pending >= self.limits.queue

    @property
    def engine(self) -> str:
        """Name of the engine that generates its answers."""
        return self.task.engine.name if isinstance(self.task, HasEngine) else "eager"

    @property
    def streams(self) -> bool:
        """Whether its answers can be streamed."""
        return isinstance(self.task, Streams)

    async def predict(
        self,
        values: Sequence[object],
        options: GenerationOptions,
        deadline: Deadline,
        *,
        attention: bool = False,
    ) -> list[Answer]:
        """Return an answer for each input.

        Args:
            values: Inputs as JSON values, or the bytes of files.
            options: Options of `predict`.
            deadline: Deadline of the request.
            attention: Whether the answers carry attention records.

        Raises:
            Problem: The queue is full, an input or option is invalid, or the deadline has passed.
        """
        return await self._answered(
            partial(self._job, values, options, attention=attention), deadline
        )

    async def score(
        self,
        values: Sequence[object],
        outputs: Sequence[str],
        deadline: Deadline,
        *,
        attention: bool = False,
    ) -> list[Answer]:
        """Return the scores of an output for each input; see `predict` and `Task.score`."""
        return await self._answered(
            partial(self._scoring_job, values, outputs, attention=attention), deadline
        )

    async def _answered(
        self, job_of: Callable[[], PredictionJob], deadline: Deadline
    ) -> list[Answer]:
        with self._queue_place():
            job = await deadline.run(job_of)
            self._batcher.submit(job)
            try:
                answers = await deadline.wait_for(asyncio.wrap_future(job.future))
            except SaccadeError as error:
                raise Problem("invalid", str(error)) from error
            finally:
                if job.future.cancel():
                    self._metrics.abandoned.labels(self.name).inc()
        records = (answer.attention for answer in answers if answer.attention is not None)
        count = sum(layer.size for record in records for layer in record.weights.values())
        self._require_few_weights(count, "has")
        return answers

    async def stream(
        self, prompt: str, options: GenerationOptions, deadline: Deadline
    ) -> AsyncGenerator[StreamPiece, None]:
        """Yield the answer piece by piece."""
        task = self.task
        if not isinstance(task, Streams):
            raise Problem("invalid", f"{self.name} cannot stream its answers; ask without stream")
        with self._queue_place():
            self._job([prompt], options, attention=False)  # checks the limits
            start = partial(task.stream, prompt, **options)
            piece = StreamPiece("")
            async with aclosing(self._streamer.stream(start)) as pieces:
                try:
                    cut = await deadline.run(partial(self._truncates, prompt, options))
                    while piece.finished is None:
                        piece = await deadline.wait_for(anext(pieces))
                        yield replace(piece, truncated=cut)
                except SaccadeError as error:
                    raise Problem("invalid", str(error)) from error
                finally:
                    if piece.finished is None and not deadline.satisfied:
                        self._metrics.abandoned.labels(self.name).inc()

    def close(self, seconds: float) -> bool:
        """End its threads; return whether they ended within `seconds`."""
        streams_ended = self._streamer.close(seconds)
        return self._batcher.close(seconds) and streams_ended

    @contextmanager
    def _queue_place(self) -> Iterator[None]:
        """Occupy a place in the queue while a request is answered."""
        if self.full:
            raise Problem(
                "full",
                f"{self.limits.queue} requests for {self.name} are waiting already; "
                "try again later",
            )
        self.pending += 1
        try:
            yield
        finally:
            self.pending -= 1

    def _job(
        self, values: Sequence[object], options: GenerationOptions, *, attention: bool
    ) -> PredictionJob:
        """Return the job of a request; raise if it exceeds a limit."""
        if len(values) > self.limits.inputs:
            raise Problem(
                "invalid",
                f"the request has {len(values)} inputs, more than the {self.limits.inputs} "
                "allowed; send several requests",
            )
        self._require_modest(options)
        try:
            inputs = [self.task.from_json(value) for value in values]
            length = sum(map(characters, inputs))
            if length > self.limits.characters:
                raise Problem(
                    "invalid",
                    f"the texts of the request have {length:,} characters together, more than the "
                    f"{self.limits.characters:,} allowed; send fewer or shorter texts",
                )
            generation = self.task.generation
            settings = None if generation is None else generation.changed(options)
            pieces = 0
            if settings is not None:
                self._require_few_tokens(len(inputs), settings)
                pieces = self._require_few_pieces(inputs, options, settings)
            return PredictionJob(
                inputs,
                options,
                attention,
                alone=settings is not None and settings.sample,
                pieces=pieces,
                pixels=self._pixels(inputs),
                weights=self._weights(inputs, options) if attention else 0,
            )
        except SaccadeError as error:
            raise Problem("invalid", str(error)) from error

    def _scoring_job(
        self, values: Sequence[object], outputs: Sequence[str], *, attention: bool
    ) -> PredictionJob:
        """Return the job of a request with outputs; raise if it exceeds a limit."""
        if len(outputs) != len(values):
            raise Problem(
                "invalid",
                f"the request has {len(values)} inputs and {len(outputs)} outputs; send one output "
                "per input",
            )
        job = replace(self._job(values, {}, attention=attention), outputs=outputs, alone=False)
        if (length := job.sizes[1]) > self.limits.characters:
            raise Problem(
                "invalid",
                f"the texts of the request have {length:,} characters together, more than the "
                f"{self.limits.characters:,} allowed; send fewer or shorter texts",
            )
        match self.task.describe().writes:
            case GeneratedText(tokenizer=tokenizer, options=own):
                most = max(self.limits.max_length, own.max_length)
                lengths = [len(ids) for ids in tokenizer.encode_batch(list(outputs))]
                if (longest := max(lengths)) > most:
                    raise Problem(
                        "invalid",
                        f"output {lengths.index(longest) + 1} has {longest:,} tokens, more than "
                        f"the {most:,} allowed; send a shorter output",
                    )
        return job

    def _truncates(self, prompt: str, options: GenerationOptions) -> bool:
        """Return whether only a part of a prompt is read."""
        return any(example.cut for example in self.task.prepare([prompt], options))

    def _most_tokens(self, settings: GenerationConfig) -> int:
        own, limits = self.task.generation or settings, self.limits
        largest = max(limits.max_beam, own.beam) * max(limits.max_length, own.max_length)
        return max(limits.request_tokens, largest)

    def _require_few_pieces(
        self, inputs: Sequence[object], options: GenerationOptions, settings: GenerationConfig
    ) -> int:
        """Return the number of pieces that texts are split into; raise if it is too large."""
        if not self.task.unsplit or settings.split == "none":
            return len(inputs)
        pieces = self.task.prepare(inputs, options)
        most, count = self._most_tokens(settings), 0
        if len(pieces) > len(inputs):
            count = settings.beam * sum(settings.longest(piece.length) for piece in pieces)
        if count > most:
            raise Problem(
                "invalid",
                f"the texts are split into {len(pieces):,} pieces, whose answers can have "
                f"{count:,} tokens in all beams, more than the {most:,} allowed; send shorter "
                "texts, or a smaller beam or max_length",
            )
        return len(pieces)

    def _require_few_tokens(self, inputs: int, settings: GenerationConfig) -> None:
        """Raise if inputs x beam x max_length is too large; never for a single input."""
        most = self._most_tokens(settings)
        count = inputs * settings.beam * settings.max_length
        if count > most:
            raise Problem(
                "invalid",
                f"inputs x beam x max_length is {inputs} x {settings.beam} x {settings.max_length} "
                f"= {count:,}, more than the {most:,} allowed; send fewer inputs, or a smaller "
                "beam or max_length",
            )

    def _pixels(self, inputs: Sequence[object]) -> int:
        """Return the pixels of all images, read from their headers; raise if there are too many."""
        if self.task.reads != "image":
            return 0
        from saccade.data.sources.images import image_size

        images = [(number, data) for number, data in enumerate(inputs, 1) if type(data) is bytes]
        sizes = (image_size(data, f"input {number}") for number, data in images)
        pixels = sum(width * height for width, height in sizes)
        if pixels > self.limits.pixels:
            raise Problem(
                "invalid",
                f"the images of the request have {pixels:,} pixels together, more than the "
                f"{self.limits.pixels:,} allowed; send fewer or smaller images",
            )
        return pixels

    def _weights(self, inputs: Sequence[object], options: GenerationOptions) -> int:
        """Return how many attention weights the answers can have; raise if there are too many."""
        weights = self.task.attention_size(inputs, options)
        self._require_few_weights(weights, "can have")
        return weights

    def _require_modest(self, options: GenerationOptions) -> None:
        """Raise if an option exceeds its limit; a recipe's own values are always allowed."""
        own, limits = self.task.generation, self.limits
        caps = {
            "beam": limits.max_beam,
            "num_best": limits.max_beam,
            "max_length": limits.max_length,
        }
        for name, most in caps.items():
            allowed = max(most, getattr(own, name, 0))
            if options.get(name, 0) > allowed:
                raise Problem(
                    "invalid", f"{name} must be at most {allowed}, got {options[name]}; lower it"
                )

    def _require_few_weights(self, count: int, verb: str) -> None:
        if count > self.limits.weights:
            raise Problem(
                "invalid",
                f"the attention of the request {verb} {count:,} weights, more than the "
                f"{self.limits.weights:,} allowed; send fewer or shorter inputs or a smaller "
                "max_length, or ask without attention",
            )

    def _count_batch(self, rows: int, seconds: float) -> None:
        self._metrics.batch_rows.labels(self.name).observe(rows)
        self._metrics.batch_seconds.labels(self.name).observe(seconds)


class ModelRegistry:
    """All models of a server, by their names.

    Args:
        models: The models, each with a name of its own.
        metrics: Metrics of the server.

    Attributes:
        draining: Set when the server stops: from then on no new requests are accepted.
    """

    def __init__(self, models: Sequence[ServedModel], metrics: ServerMetrics) -> None:
        self._by_name = {model.name: model for model in models}
        self.draining = False
        for model in models:
            metrics.pending.labels(model.name).set_function(partial(getattr, model, "pending"))

    def __iter__(self) -> Iterator[ServedModel]:
        return iter(self._by_name.values())

    @property
    def full(self) -> bool:
        """Whether no model has room for another request."""
        return all(model.full for model in self)

    def find(self, name: str | None) -> ServedModel:
        """Return the model with this name, or the only one if `name` is None."""
        if name is None and len(self._by_name) == 1:
            return next(iter(self))
        if name not in self._by_name:
            mistake = "the field model is missing" if name is None else "no model has this name"
            raise Problem("no_such_model", f"{mistake}; available: {', '.join(self._by_name)}")
        return self._by_name[name]

    def translator(self, source: str, target: str) -> ServedModel:
        """Return the model that translates from `source` to `target`."""
        for model in self:
            if model.languages == (source, target):
                return model
        pairs = ", ".join("-".join(model.languages) for model in self if model.languages)
        if not pairs:
            raise Problem(
                "invalid",
                "the languages of the models are not known. Name a model after its languages when "
                "the server starts, as in: saccade serve en-fr=RUN; or use /v1/predict",
            )
        raise Problem("invalid", f"this language pair is not available; available: {pairs}")

    def close(self, seconds: float) -> bool:
        """End the threads of all models; return whether they ended within `seconds` each."""
        ended = [model.close(seconds) for model in self]
        return all(ended)


def load(
    runs: Sequence[ServedRun],
    *,
    device: str,
    engine: str,
    limits: RequestLimits,
    metrics: ServerMetrics,
    notify: Callable[[str], None] | None = None,
    working: Callable[[str], AbstractContextManager[object]] = nullcontext,
    examples: bool = True,
) -> ModelRegistry:
    """Load the models of run folders; those whose engine is ready need no torch.

    Args:
        runs: Run folders and their names.
        device: Device of the models.
        engine: Engine to use where it supports the model.
        limits: Limits of requests.
        metrics: Metrics of the server.
        notify: Called with one line per decision about an engine.
        working: Return the context of loading with torch, which takes seconds, from its label.
        examples: Whether to offer validation inputs that the runs have kept.

    Raises:
        ServeError: Two runs have the same name.
    """
    from saccade import engines
    from saccade.training.run_folder import RunFolder

    names = [run.name for run in runs]
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise ServeError(
            f"two runs are named {repeated}; give one of them another name, as in: "
            f"other-{repeated}=RUN"
        )
    options: dict[str, Any] = {"device": device, "engine": engine, "notify": notify}
    ready = [engines.open_ready(run.folder, **options) for run in runs]
    others = [run.folder for run, predictor in zip(runs, ready, strict=True) if predictor is None]
    if others:
        from saccade.training import session  # noqa: F401 - with torch, before runs are loaded
    with working(f"loading {', '.join(map(str, others))}") if others else nullcontext():
        predictors = [
            predictor or engines.load(run.folder, **options)
            for run, predictor in zip(runs, ready, strict=True)
        ]
    models = [
        ServedModel(
            run.name,
            predictor,
            limits=limits,
            metrics=metrics,
            languages=run.languages or RunFolder(run.folder).languages(),
            card=ModelCard.of_run(run.folder, predictor, examples=examples),
        )
        for run, predictor in zip(runs, predictors, strict=True)
    ]
    return ModelRegistry(models, metrics)


def _checked_name(name: str, text: str) -> str:
    if not NAME.fullmatch(name):
        raise ServeError(
            f"{name!r} is not a valid name of a model: use letters, digits and . _ -, and begin "
            f"with a letter or digit. Pass a name, as in: mymodel={text}"
        )
    return name
