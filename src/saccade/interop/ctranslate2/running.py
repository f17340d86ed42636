"""Folders of CTranslate2 as engines: token numbers in, hypotheses out.

Its workers have a thread each, as batches do here; several threads may ask at once. What differs
from our own decoding is told in docs/engines.md.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from saccade.cancellation import is_cancellable, raise_if_cancelled
from saccade.decoding import GenerationConfig, GenerationRequest, Hypothesis, length_bucket
from saccade.errors import InteropError
from saccade.interop.ctranslate2.pace import LONGEST, Pace
from saccade.interop.ctranslate2.package import package
from saccade.interop.ctranslate2.vocabulary import Names
from saccade.tasks.language_modeling import LanguageModeling
from saccade.tasks.text_to_text import TextToText

FEWEST_PLACES = 1024
"""Of tables for positions that have no end."""

LONG = 63
"""Inputs of so many tokens and more are asked together with those of just their length."""

PROBED, PROBED_BEAM = 32, 4
"""Tokens that are written to measure the speed, and the beam they are written with."""

Task = TextToText | LanguageModeling


def opened(task: Task, folder: Path, quantization: str) -> "Translations | Continuations":
    """The engine of a folder that was written from this task."""
    threads = torch.get_num_threads()
    try:
        program = getattr(package(), program_of(task))(
            str(folder),
            device="cpu",
            compute_type=quantization,
            inter_threads=threads,
            intra_threads=1,
        )
    except (RuntimeError, ValueError) as error:
        raise InteropError(f"CTranslate2 cannot read {folder}: {error}") from None
    finally:
        torch.set_num_threads(threads)  # loading a model sets torch's, too, to the worker's one
    name = f"ctranslate2-{quantization}"
    if isinstance(task, TextToText):
        return Translations(name, program, task)
    return Continuations(name, program, task)


def program_of(task: Task) -> str:
    """The class of CTranslate2 that runs it."""
    return "Translator" if isinstance(task, TextToText) else "Generator"


def places_of(task: Task) -> int:
    """How many places texts can have there."""
    if isinstance(task, LanguageModeling):
        return task.config.text.block
    config, model = task.config, task.config.model
    sides = [side.position for side in (model.encoder, model.decoder) if side.kind == "transformer"]
    ends = [position.places for position in sides if position.places is not None]
    longest = max(config.text.max_length + 1, config.generation.max_length, FEWEST_PLACES)
    return min([longest, *ends])


class Writer(ABC):
    """What translators and language models share: options, and how results are read."""

    def __init__(self, name: str, program: Any, names: Names) -> None:
        self.name, self.program, self.names = name, program, names
        self.pace = Pace()

    def generate(
        self, inputs: Sequence[list[int]], request: GenerationRequest
    ) -> list[list[Hypothesis]]:
        """The hypotheses for each input, best first; cancellable work in several calls."""
        if not is_cancellable():
            return self.write(inputs, request)
        return self.pace.write(
            lambda part: self.write(part, request),
            inputs,
            request.options.beam,
            self.longest(inputs, request),
        )

    @abstractmethod
    def write(
        self, inputs: Sequence[list[int]], request: GenerationRequest
    ) -> list[list[Hypothesis]]:
        """The hypotheses for each input, best first, as CTranslate2 writes them."""

    @abstractmethod
    def most(self, inputs: Sequence[list[int]]) -> int:
        """The most tokens that one call can write for an input."""

    def longest(self, inputs: Sequence[list[int]], request: GenerationRequest) -> int:
        """The most tokens that one call may write for an input."""
        return min(request.limits.max_length, self.most(inputs))

    def length_group(self, length: int) -> int:
        """Short inputs by steps, long ones by their length.

        From certain lengths of the padded batch on (16, and about 100, where this was measured) its
        products are computed in another order, which in int8 now and then changes an answer.
        """
        return length_bucket(length) if length < LONG else length

    def lacks(self, inputs: Sequence[list[int]], request: GenerationRequest) -> str | None:
        """What is asked for that it cannot do, if anything is."""
        options, tokens = request.options, len(self.names.all)
        if options.sample and options.temperature > 0:
            return "drawn answers (sample), since it has no seed for each input"
        if 2 * options.beam > tokens:
            return f"a beam of {options.beam} over a vocabulary of {tokens} tokens"
        if is_cancellable() and not self._ends_soon(inputs, request):
            return f"beams of this width and length in {LONGEST:g} s, as calls cannot be cancelled"
        return None

    def _ends_soon(self, inputs: Sequence[list[int]], request: GenerationRequest) -> bool:
        """Whether a call for one input is short enough, as such a call cannot be cancelled."""
        tokens, beam = min(PROBED, self.most(inputs)), min(PROBED_BEAM, len(self.names.all) // 2)
        probe = GenerationRequest(
            limits=replace(request.limits, max_length=tokens, min_length=tokens),
            options=GenerationConfig(beam=beam),
            rows=request.rows[:1],
        )
        self.pace.probe(lambda: self.write(inputs[:1], probe), beam)
        return self.pace.fits(request.options.beam, self.longest(inputs, request))

    def _options(self, request: GenerationRequest, length_penalty: float) -> dict[str, Any]:
        """The end is kept in results, because the length that scores are divided by counts it."""
        return {
            "beam_size": request.options.beam,
            "num_hypotheses": request.options.num_best,
            "length_penalty": length_penalty,
            "suppress_sequences": [[name] for name in self.names.of(request.limits.forbidden)],
            "return_end_token": True,
            "return_scores": True,
        }


class Translations(Writer):
    """A translator."""

    def __init__(self, name: str, program: Any, task: TextToText) -> None:
        super().__init__(name, program, Names(task.target))
        self.source = Names(task.source)
        self.places = places_of(task)

    def lacks(self, inputs: Sequence[list[int]], request: GenerationRequest) -> str | None:
        """Besides, what is longer than its tables of positions."""
        longest = max(request.limits.max_length, *(len(ids) + 1 for ids in inputs))
        if longest > self.places:
            return f"texts of more than {self.places} tokens"
        return super().lacks(inputs, request)

    def most(self, inputs: Sequence[list[int]]) -> int:
        """As many as there are places."""
        return self.places

    def write(
        self, inputs: Sequence[list[int]], request: GenerationRequest
    ) -> list[list[Hypothesis]]:
        """The hypotheses for each source, best first."""
        penalty = request.options.length_penalty
        results = self.program.translate_batch(
            [self.source.of(ids) for ids in inputs],
            max_input_length=0,
            max_decoding_length=request.limits.max_length,
            min_decoding_length=request.limits.min_length,
            **self._options(request, penalty),
        )
        ids = self.names.ids
        return [
            [
                _hypothesis([ids[name] for name in tokens], score, request, penalty)
                for tokens, score in zip(result.hypotheses, result.scores, strict=True)
            ]
            for result in results
        ]


class Continuations(Writer):
    """A language model; where text outgrows its block, the last half of it is read anew."""

    def __init__(self, name: str, program: Any, task: LanguageModeling) -> None:
        super().__init__(name, program, Names(task.tokenizer))
        self.size = task.config.text.block

    def lacks(self, inputs: Sequence[list[int]], request: GenerationRequest) -> str | None:
        """Besides, beams that outgrow the block."""
        if request.options.beam > 1 and request.limits.max_length > self._room(inputs[0]):
            return f"beams that outgrow the block of {self.size} tokens"
        return super().lacks(inputs, request)

    def most(self, inputs: Sequence[list[int]]) -> int:
        """Until the block is full."""
        return self._room(inputs[0])

    def write(
        self, inputs: Sequence[list[int]], request: GenerationRequest
    ) -> list[list[Hypothesis]]:
        """The hypotheses for each context, best first; contexts are of one length."""
        if request.options.beam > 1:
            penalty = request.options.length_penalty
            results = self._write(inputs, request, request.limits.max_length, penalty)
            return [
                [
                    _hypothesis(ids, score, request, penalty)
                    for ids, score in zip(result.sequences_ids, result.scores, strict=True)
                ]
                for result in results
            ]
        texts = [_Text(ids) for ids in inputs]
        while going := [text for text in texts if text.goes_on(request)]:
            raise_if_cancelled()
            contexts = [text.context(self.size) for text in going]
            most = min(self._room(contexts[0]), request.limits.max_length - len(going[0].written))
            results = self._write(contexts, request, most, 0.0, len(going[0].written))
            for text, result in zip(going, results, strict=True):
                text.written += result.sequences_ids[0]
                text.log_probability += result.scores[0]
        return [[text.hypothesis(request)] for text in texts]

    def _write(
        self,
        contexts: Sequence[list[int]],
        request: GenerationRequest,
        most: int,
        penalty: float,
        done: int = 0,
    ) -> list[Any]:
        """At most so many tokens more, where as many are `done`."""
        return self.program.generate_batch(
            [self.names.of(ids[-self.size :]) for ids in contexts],
            include_prompt_in_result=False,
            max_length=most,
            min_length=min(most, max(0, request.limits.min_length - done)),
            **self._options(request, penalty),
        )

    def _room(self, context: list[int]) -> int:
        """How many tokens can be written before the block is full: the last is not read."""
        return self.size - min(len(context), self.size) + 1


@dataclass
class _Text:
    """A text that is being written."""

    prompt: list[int]
    written: list[int] = field(default_factory=list)
    log_probability: float = 0.0

    def goes_on(self, request: GenerationRequest) -> bool:
        ended = self.written[-1:] == [request.limits.stop]
        return not ended and len(self.written) < request.limits.max_length

    def context(self, size: int) -> list[int]:
        """What it goes on from: all, or when the block is full half a block and the last token."""
        return [*self.prompt, *self.written][-(size // 2 + 1) :] if self.written else self.prompt

    def hypothesis(self, request: GenerationRequest) -> Hypothesis:
        finished = self.written[-1] == request.limits.stop
        tokens = self.written[:-1] if finished else self.written
        return Hypothesis.of(
            tokens,
            self.log_probability,
            finished=finished,
            length_penalty=request.options.length_penalty,
        )


def _hypothesis(
    tokens: list[int], score: float, request: GenerationRequest, penalty: float
) -> Hypothesis:
    """From tokens with their stop, and log P / length**penalty."""
    finished = tokens[-1] == request.limits.stop
    log_probability = score * len(tokens) ** penalty
    return Hypothesis(tuple(tokens[: len(tokens) - finished]), log_probability, score, finished)
