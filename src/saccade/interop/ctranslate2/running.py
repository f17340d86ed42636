"""Folders of CTranslate2 as engines: token ids in, hypotheses out.

Each of its workers has one thread, as batches do here; several threads may call it at once.
docs/explanation/engines.md lists what differs from our own decoding.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from saccade.cancellation import is_cancellable, raise_if_cancelled
from saccade.cpu_threads import set_thread_count, thread_count
from saccade.decoding import GenerationConfig, GenerationRequest, Hypothesis, length_bucket
from saccade.errors import InteropError
from saccade.interop.ctranslate2.pace import LONGEST, Pace
from saccade.interop.ctranslate2.package import compiled
from saccade.interop.ctranslate2.sides import Sides
from saccade.interop.ctranslate2.vocabulary import TokenNames

LONG = 63
"""Inputs of at least this many tokens are batched only with inputs of the same length."""

PROBED, PROBED_BEAM = 32, 4
"""The number of tokens, and the beam, of the call that measures the speed."""


def open_folder(sides: Sides, folder: Path, quantization: str) -> "FolderEngine":
    """Return the engine of a folder that was written from a task with these sides.

    Raises:
        InteropError: CTranslate2 cannot read the folder.
    """
    threads = thread_count()
    try:
        program = getattr(compiled(), sides.program)(
            str(folder),
            device="cpu",
            compute_type=quantization,
            inter_threads=threads,
            intra_threads=1,
        )
    except (RuntimeError, ValueError) as error:
        raise InteropError(
            f"CTranslate2 cannot read {folder}: {error}; remove the folder, and it is written again"
        ) from None
    finally:
        if sys.modules.get("torch"):  # loading a model sets torch's to one thread, too
            set_thread_count(threads)
    engine = Continuations if sides.writes.start is None else Translations
    return engine(f"ctranslate2-{quantization}", program, sides)


class FolderEngine(ABC):
    """The engine of a folder.

    Args:
        name: The name that people read.
        program: A Translator or a Generator of CTranslate2.
        sides: The input and the output of the task that the folder was written from.
    """

    def __init__(self, name: str, program: Any, sides: Sides) -> None:
        self.name, self.program = name, program
        self.names = self.source = TokenNames(sides.writes.tokenizer)
        if sides.reads.tokenizer is not sides.writes.tokenizer:
            self.source = TokenNames(sides.reads.tokenizer)
        self.places = sides.places
        self.pace = Pace()

    def generate(
        self, inputs: Sequence[list[int]], request: GenerationRequest
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses for each input, best first; cancellable work in several calls."""
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
        """Return the hypotheses for each input, best first, as CTranslate2 generates them."""

    @abstractmethod
    def most(self, inputs: Sequence[list[int]]) -> int:
        """Return the maximum number of tokens that one call can generate for an input."""

    def longest(self, inputs: Sequence[list[int]], request: GenerationRequest) -> int:
        """Return the maximum number of tokens that one call may generate for an input."""
        return min(request.limits.max_length, self.most(inputs))

    def length_group(self, length: int) -> int:
        """Return the step of a short length, or a long length itself.

        From certain lengths of the padded batch on (16, and about 100, where this was measured) its
        products are computed in another order, which in int8 sometimes changes an answer.
        """
        return length_bucket(length) if length < LONG else length

    def lacks(self, inputs: Sequence[list[int]], request: GenerationRequest) -> str | None:
        """Return what it cannot do of a request; None if it can do all of it."""
        options, tokens = request.options, len(self.names.all)
        if options.sample and options.temperature > 0:
            return "sampled answers, since it has no seed for each input"
        if 2 * options.beam > tokens:
            return f"a beam of {options.beam} over a vocabulary of {tokens} tokens"
        if is_cancellable() and not self._ends_soon(inputs, request):
            return f"beams of this width and length in {LONGEST:g} s, as calls cannot be cancelled"
        return None

    def _ends_soon(self, inputs: Sequence[list[int]], request: GenerationRequest) -> bool:
        """Return whether a call for one input is short enough, as it cannot be cancelled."""
        tokens, beam = min(PROBED, self.most(inputs)), min(PROBED_BEAM, len(self.names.all) // 2)
        probe = GenerationRequest(
            limits=replace(request.limits, max_length=tokens, min_length=tokens),
            options=GenerationConfig(beam=beam),
            rows=request.rows[:1],
        )
        self.pace.probe(lambda: self.write(inputs[:1], probe), beam)
        return self.pace.fits(request.options.beam, self.longest(inputs, request))

    def _options(self, request: GenerationRequest, length_penalty: float) -> dict[str, Any]:
        """Return options; results keep the stop token, which the length of a score includes."""
        return {
            "beam_size": request.options.beam,
            "num_hypotheses": request.options.num_best,
            "length_penalty": length_penalty,
            "suppress_sequences": [[name] for name in self.names.of(request.limits.forbidden)],
            "return_end_token": True,
            "return_scores": True,
        }


class Translations(FolderEngine):
    """The engine of a translator."""

    def lacks(self, inputs: Sequence[list[int]], request: GenerationRequest) -> str | None:
        """Return also that a text is longer than its tables of positions."""
        longest = max(request.limits.max_length, *(len(ids) + 1 for ids in inputs))
        if longest > self.places:
            return f"texts of more than {self.places} tokens"
        return super().lacks(inputs, request)

    def most(self, inputs: Sequence[list[int]]) -> int:
        """Return the number of its positions."""
        return self.places

    def write(
        self, inputs: Sequence[list[int]], request: GenerationRequest
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses for each source, best first."""
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


class Continuations(FolderEngine):
    """The engine of a language model; when its block is full, the last half is read again."""

    def lacks(self, inputs: Sequence[list[int]], request: GenerationRequest) -> str | None:
        """Return also that a beam does not fit into the block."""
        if request.options.beam > 1 and request.limits.max_length > self._room(inputs[0]):
            return f"beams that outgrow the block of {self.places} tokens"
        return super().lacks(inputs, request)

    def most(self, inputs: Sequence[list[int]]) -> int:
        """Return the number of tokens until the block is full."""
        return self._room(inputs[0])

    def write(
        self, inputs: Sequence[list[int]], request: GenerationRequest
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses for each context, best first; contexts have one length."""
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
        while unfinished := [text for text in texts if not text.is_finished(request)]:
            raise_if_cancelled()
            contexts, done = [text.context(self.places) for text in unfinished], unfinished[0].done
            most = min(self._room(contexts[0]), request.limits.max_length - done)
            results = self._write(contexts, request, most, 0.0, done)
            for text, result in zip(unfinished, results, strict=True):
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
        """Generate at most `most` more tokens after the `done` ones."""
        return self.program.generate_batch(
            [self.names.of(ids[-self.places :]) for ids in contexts],
            include_prompt_in_result=False,
            max_length=most,
            min_length=min(most, max(0, request.limits.min_length - done)),
            **self._options(request, penalty),
        )

    def _room(self, context: list[int]) -> int:
        """Return how many tokens fit into the block; the last one is not read."""
        return self.places - min(len(context), self.places) + 1


@dataclass
class _Text:
    """A text that is being generated."""

    prompt: list[int]
    written: list[int] = field(default_factory=list)
    log_probability: float = 0.0

    @property
    def done(self) -> int:
        return len(self.written)

    def is_finished(self, request: GenerationRequest) -> bool:
        stopped = self.written[-1:] == [request.limits.stop]
        return stopped or self.done >= request.limits.max_length

    def context(self, size: int) -> list[int]:
        """Return what it continues: the prompt, or half a full block and the last token."""
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
    """Return the hypothesis of tokens with their stop, and log P / length**penalty."""
    finished = tokens[-1] == request.limits.stop
    log_probability = score * len(tokens) ** penalty
    return Hypothesis(tuple(tokens[: len(tokens) - finished]), log_probability, score, finished)
