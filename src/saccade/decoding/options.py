"""Options of generation, and requests to engines; they need no torch."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from saccade.config import Conflict, Count, NotNegative, Positive, Whole, without_effect
from saccade.decoding.hypothesis import GenerationLimits, Hypothesis
from saccade.engine_protocol import Engine
from saccade.errors import DecodingError


@dataclass(frozen=True, kw_only=True)
class GenerationConfig:
    """Options of generation.

    beam             number of beams; 1 is greedy search, the fastest. 4 or 5 often gives slightly
                     better translations
    length_penalty   exponent α of the score log P / length**α that ranks hypotheses; raise it if
                     answers are too short
    num_best         number of answers per input, at most `beam`
    sample           whether to sample each token instead of searching; for varied text
    temperature      divisor of the logits in sampling; below 1 is less random, 0 is greedy search
    top_k            sample from the k most likely tokens only; default: from all
    top_p            nucleus sampling: sample from the smallest set of tokens whose probabilities
                     sum to this fraction; default: from all
    seed             random seed of the first input; each further input has the next
    max_length       largest number of tokens of an answer
    max_ratio        largest number of tokens of an answer per token of its input:
                     max_ratio * length + 10; raise it if answers are much longer than inputs
    split            "sentences": the lines of a text are answered one by one, and so are the
                     sentences of a line that is longer than `text.max_length`; "none": a text is
                     answered at once, and cut if it is longer
    """

    beam: Count = 1
    length_penalty: float = 1.0
    num_best: Count = 1
    sample: bool = False
    temperature: NotNegative = 1.0
    top_k: Count | None = None
    top_p: Positive | None = None
    seed: Whole = 0
    max_length: Count = 256
    max_ratio: Positive = 2.0
    split: Literal["sentences", "none"] = "sentences"

    def __post_init__(self) -> None:
        if self.split not in ("sentences", "none"):
            raise DecodingError(
                f"split must be 'sentences' or 'none', got {self.split!r}; choose one of them"
            )
        if self.sample and self.beam > 1:
            raise DecodingError(
                f"sampling has no beams: use either sample or beam={self.beam}, not both"
            )
        if self.num_best > self.beam:
            raise DecodingError(
                f"num_best={self.num_best} answers need a beam of at least that many, "
                f"got beam={self.beam}; raise beam or lower num_best"
            )

    def ratio_conflict(self, reason: str) -> Iterator[Conflict]:
        """Yield a conflict if `max_ratio` or `split` is set where inputs are not translated."""
        for conflict in without_effect(self, ["max_ratio", "split"], reason):
            yield conflict._replace(key=f"generation.{conflict.key}")

    def changed(self, options: Mapping[str, Any]) -> "GenerationConfig":
        """Return the options with some changed.

        A beam turns off sampling, and sampling the beam. Several answers (`num_best`) imply a beam
        of at least 5.

        Raises:
            DecodingError: If an option is unknown or invalid.
        """
        known = self.__dataclass_fields__
        if unknown := [name for name in options if name not in known]:
            raise DecodingError(
                f"{unknown[0]!r} is not an option of generation; use one of: {', '.join(known)}"
            )
        if options.get("sample"):
            options = {"beam": 1, "num_best": 1, **options}
        elif options.get("num_best", 1) > 1:
            wide = max(self.beam, options["num_best"], 5)
            options = {"sample": False, "beam": wide, **options}
        elif "beam" in options:
            options = {"sample": False, **options}
        return replace(self, **options)

    def longest(self, input_length: int) -> int:
        """Return the largest number of tokens of an answer, the stop token included.

        It is computed from the longest length in the bucket of the input, so that all inputs of a
        bucket have the same limit: a batch has one limit, and no answer may depend on the other
        inputs of its batch.
        """
        return min(
            self.max_length, int(self.max_ratio * (8 * length_bucket(input_length) + 6)) + 10
        )


def length_bucket(length: int) -> int:
    """Return the bucket of a length: eight lengths share one, such as 7 to 14 tokens."""
    return (length + 1) // 8


@dataclass(frozen=True, kw_only=True)
class GenerationRequest:
    """A request to an engine, for one batch.

    Attributes:
        limits: When generation ends, and which tokens are never generated.
        options: Options of generation.
        rows: Index of each input in the complete list of inputs, for its seed.
    """

    limits: GenerationLimits
    options: GenerationConfig
    rows: Sequence[int]


TextEngine = Engine[Sequence[list[int]], GenerationRequest, Hypothesis]
"""An engine that generates hypotheses for rows of token ids."""
