"""Options of generation, and one call for greedy search, sampling and beam search."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch

from saccade.config import Conflict, Count, NotNegative, Positive, Whole, without_effect
from saccade.decoding.beam import beam_search
from saccade.decoding.greedy import greedy
from saccade.decoding.hypothesis import GenerationLimits, Hypothesis
from saccade.decoding.sampling import sample
from saccade.errors import DecodingError
from saccade.interfaces import State, Stepper
from saccade.shapes import Int, Tensor


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


def generate(
    stepper: Stepper[State],
    state: State,
    *,
    start: int | Int[Tensor, " b"],
    limits: GenerationLimits,
    options: GenerationConfig,
    rows: Sequence[int],
    device: torch.device | str = "cpu",
) -> list[list[Hypothesis]]:
    """Generate by greedy search, sampling or beam search, as `options` say.

    Args:
        stepper: The model.
        state: The state that `stepper.start` returned; it cannot be used again.
        start: The first token, one for all rows or one for each.
        limits: When generation ends, and which tokens are never generated.
        options: Options of generation.
        rows: Index of each input; its seed is `options.seed` plus the index.
        device: Device of the model.

    Returns:
        The hypotheses of each row, best first.

    Raises:
        DecodingError: If an option is invalid, no token is allowed, or logits are not finite.

    Examples:
        >>> from saccade.decoders.transformer import TransformerDecoderConfig
        >>> from saccade.decoding import GenerationConfig, GenerationLimits, generate
        >>> from saccade.models import LanguageModelConfig
        >>> decoder = TransformerDecoderConfig(num_layers=1, num_heads=2, hidden_dim=32)
        >>> model = LanguageModelConfig(dim=16, decoder=decoder).build(20).eval()
        >>> limits = GenerationLimits(stop=2, max_length=6)
        >>> options = GenerationConfig(sample=True, top_p=0.9, seed=7)
        >>> rows = generate(
        ...     model, model.start(), start=1, limits=limits, options=options, rows=range(3)
        ... )
        >>> len(rows), len(rows[0][0].tokens) <= 6
        (3, True)
    """
    first = torch.as_tensor(start, device=device).expand(len(rows))
    if options.sample:
        return sample(
            stepper,
            state,
            first,
            limits,
            seeds=[options.seed + row for row in rows],
            temperature=options.temperature,
            top_k=options.top_k,
            top_p=options.top_p,
            length_penalty=options.length_penalty,
        )
    if options.beam == 1:
        return greedy(stepper, state, first, limits, length_penalty=options.length_penalty)
    return beam_search(
        stepper,
        state,
        first,
        limits,
        beam=options.beam,
        length_penalty=options.length_penalty,
        num_best=options.num_best,
    )
