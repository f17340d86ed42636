"""The models that are served: their names, who may ask, and what is asked of them."""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from saccade.data.sources.images import image_size
from saccade.decoding import GenerationConfig
from saccade.errors import SaccadeError, ServeError
from saccade.interfaces import HasEngine
from saccade.serve.batcher import Batcher, Work, characters
from saccade.serve.deadlines import Waiting
from saccade.serve.limits import Limits
from saccade.serve.problems import Problem
from saccade.serve.prometheus import Measures
from saccade.serve.streamer import End, Streamer
from saccade.tasks import Aligns, Answer, Streams, Task

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
PAIR = re.compile(r"([a-z]{2,3})-([a-z]{2,3})")


@dataclass(frozen=True)
class Served:
    """A run folder and the name that clients know it by.

    `languages` are those it translates from and to, if its name was given and says so.
    """

    name: str
    folder: Path
    languages: tuple[str, str] | None = None

    @classmethod
    def parse(cls, text: str) -> "Served":
        """From RUN or NAME=RUN; without a name it is that of the folder."""
        name, equals, folder = text.partition("=")
        if not equals or Path(text).is_dir():
            path = Path(text)
            return cls(_checked_name(path.resolve().name, text), path)
        pair = PAIR.fullmatch(name)
        languages = (pair[1], pair[2]) if pair else None
        return cls(_checked_name(name, text), Path(folder), languages)


class Model:
    """A task that answers requests: caps on what they may ask, a bounded line, a batcher."""

    def __init__(
        self,
        name: str,
        task: Task,
        *,
        limits: Limits,
        measures: Measures,
        languages: tuple[str, str] | None = None,
    ) -> None:
        self.name, self.task, self.limits = name, task, limits
        self.languages = languages if isinstance(task, Aligns) else None
        self.pending = 0
        self._measures = measures
        self._batcher = Batcher(task, limits, self._observe)
        self._streamer = Streamer(limits.streams)

    @property
    def full(self) -> bool:
        """Whether another request would have to be refused."""
        return self.pending >= self.limits.queue

    @property
    def engine(self) -> str:
        """What writes its answers."""
        return self.task.engine.name if isinstance(self.task, HasEngine) else "eager"

    @property
    def streams(self) -> bool:
        """Whether its answers can be had while they are written."""
        return isinstance(self.task, Streams)

    async def answers(
        self,
        given: Sequence[Any],
        options: Mapping[str, Any],
        waiting: Waiting,
        *,
        attention: bool = False,
    ) -> list[Answer]:
        """An answer for each input, which is a value of JSON."""
        with self._in_line():
            work = await waiting.thread(partial(self._work, given, options, attention=attention))
            self._batcher.submit(work)
            try:
                found = await waiting.until(asyncio.wrap_future(work.future))
            except SaccadeError as error:
                raise Problem("invalid", str(error)) from error
            finally:
                if work.future.cancel():
                    self._measures.abandoned.labels(self.name).inc()
        records = (answer.attention for answer in found if answer.attention is not None)
        count = sum(layer.size for record in records for layer in record.weights.values())
        self._require_few_weights(count, "has")
        return found

    async def pieces(
        self, prompt: str, options: Mapping[str, Any], waiting: Waiting
    ) -> AsyncGenerator[str | End, None]:
        """The answer as it is written, and its end."""
        task = self.task
        if not isinstance(task, Streams):
            raise Problem("invalid", f"{self.name} gives its answers whole, not as a stream")
        with self._in_line():
            work = self._work([prompt], options, attention=False)
            begin = partial(task.stream, work.inputs[0], **work.options)
            said: str | End = ""
            async with aclosing(self._streamer.pieces(begin)) as written:
                try:
                    while not isinstance(said, End):
                        said = await waiting.until(anext(written))
                        yield said
                except SaccadeError as error:
                    raise Problem("invalid", str(error)) from error
                finally:
                    if not (isinstance(said, End) or waiting.enough):
                        self._measures.abandoned.labels(self.name).inc()

    def close(self, seconds: float) -> bool:
        """End its threads; whether they have ended in this time."""
        streams_ended = self._streamer.close(seconds)
        return self._batcher.close(seconds) and streams_ended

    @contextmanager
    def _in_line(self) -> Iterator[None]:
        """A place in the line, for as long as a request is answered."""
        if self.full:
            raise Problem(
                "full", f"{self.limits.queue} requests for {self.name} are waiting; try again"
            )
        self.pending += 1
        try:
            yield
        finally:
            self.pending -= 1

    def _work(self, given: Sequence[Any], options: Mapping[str, Any], *, attention: bool) -> Work:
        """What is asked, if it is allowed."""
        if len(given) > self.limits.inputs:
            raise Problem(
                "invalid",
                f"a request may have {self.limits.inputs} inputs, this one has {len(given)}",
            )
        self._require_modest(options)
        try:
            inputs = [self.task.from_json(value) for value in given]
            length = sum(map(characters, inputs))
            if length > self.limits.characters:
                raise Problem(
                    "invalid",
                    f"the texts of a request may have {self.limits.characters:,} characters "
                    f"together, these have {length:,}",
                )
            generation = self.task.generation
            settings = None if generation is None else generation.changed(options)
            if settings is not None:
                self._require_few_tokens(len(inputs), settings)
            return Work(
                inputs,
                options,
                attention,
                alone=settings is not None and settings.sample,
                pixels=self._pixels(inputs),
                weights=self._weights(inputs, options) if attention else 0,
            )
        except SaccadeError as error:
            raise Problem("invalid", str(error)) from error

    def _require_few_tokens(self, inputs: int, settings: GenerationConfig) -> None:
        """Raise if inputs, beam and length are too much together; never for one input alone."""
        own, limits = self.task.generation or settings, self.limits
        largest = max(limits.beam, own.beam) * max(limits.tokens, own.max_length)
        most = max(limits.request_tokens, largest)
        count = inputs * settings.beam * settings.max_length
        if count > most:
            raise Problem(
                "invalid",
                f"inputs x beam x max_length may be {most:,} in a request, this one has {inputs} x "
                f"{settings.beam} x {settings.max_length} = {count:,}; send fewer inputs, or a "
                "smaller beam or max_length",
            )

    def _pixels(self, inputs: Sequence[Any]) -> int:
        """Those of all images, by their headers, if they are not too many."""
        images = [(number, each) for number, each in enumerate(inputs, 1) if type(each) is bytes]
        sizes = (image_size(data, f"input {number}") for number, data in images)
        pixels = sum(width * height for width, height in sizes)
        if pixels > self.limits.pixels:
            raise Problem(
                "invalid",
                f"the images of a request may have {self.limits.pixels:,} pixels together, these "
                f"have {pixels:,}; send fewer images, or make them smaller",
            )
        return pixels

    def _weights(self, inputs: Sequence[Any], options: Mapping[str, Any]) -> int:
        """Those that the attention can have, if they are not too many."""
        weights = self.task.attention_size(inputs, options)
        self._require_few_weights(weights, "can have")
        return weights

    def _require_modest(self, options: Mapping[str, Any]) -> None:
        """Refuse options beyond the caps; a recipe's own are always allowed."""
        own, limits = self.task.generation, self.limits
        caps = {"beam": limits.beam, "num_best": limits.beam, "max_length": limits.tokens}
        for name, most in caps.items():
            allowed = max(most, getattr(own, name, 0))
            if options.get(name, 0) > allowed:
                raise Problem("invalid", f"{name} may be {allowed} at most, got {options[name]}")

    def _require_few_weights(self, count: int, verb: str) -> None:
        if count > self.limits.weights:
            raise Problem(
                "invalid",
                f"the attention of a request may have {self.limits.weights:,} weights, this one "
                f"{verb} {count:,}; send fewer or shorter inputs or a smaller max_length, or ask "
                "without attention",
            )

    def _observe(self, rows: int, seconds: float) -> None:
        self._measures.rows.labels(self.name).observe(rows)
        self._measures.batch_seconds.labels(self.name).observe(seconds)


class Models:
    """All models of a server, by their names."""

    def __init__(self, models: Sequence[Model], measures: Measures) -> None:
        self._by_name = {model.name: model for model in models}
        for model in models:
            measures.pending.labels(model.name).set_function(partial(getattr, model, "pending"))

    def __iter__(self) -> Iterator[Model]:
        return iter(self._by_name.values())

    @property
    def full(self) -> bool:
        """Whether no model has room for another request."""
        return all(model.full for model in self)

    def find(self, name: str | None) -> Model:
        """The model of this name; where there is only one, it may be left out."""
        if name is None and len(self._by_name) == 1:
            return next(iter(self))
        if name not in self._by_name:
            asked = "model is missing" if name is None else "there is no such model"
            raise Problem("no_such_model", f"{asked}; there are: {', '.join(self._by_name)}")
        return self._by_name[name]

    def translator(self, source: str, target: str) -> Model:
        """The model that translates so."""
        for model in self:
            if model.languages == (source, target):
                return model
        known = ", ".join("-".join(model.languages) for model in self if model.languages)
        raise Problem("invalid", f"this pair of languages is not served; there are: {known}")

    def close(self, seconds: float) -> bool:
        """End all threads; whether they have ended in this time."""
        ended = [model.close(seconds) for model in self]
        return all(ended)


def load(
    served: Sequence[Served],
    *,
    device: str,
    engine: str,
    limits: Limits,
    measures: Measures,
    notify: Callable[[str], None] | None = None,
) -> Models:
    """The models of some run folders, each answering by this engine as far as it can."""
    from saccade import engines

    names = [each.name for each in served]
    if double := next((name for name in names if names.count(name) > 1), None):
        raise ServeError(f"two runs are named {double}; give one another name: other={double}")
    models = [
        Model(
            each.name,
            engines.load(each.folder, device=device, engine=engine, notify=notify),
            limits=limits,
            measures=measures,
            languages=each.languages,
        )
        for each in served
    ]
    return Models(models, measures)


def _checked_name(name: str, given: str) -> str:
    if not NAME.fullmatch(name):
        raise ServeError(
            f"{name!r} cannot be the name of a model: letters, digits and . _ - are allowed; "
            f"give one, as in: mymodel={given}"
        )
    return name
