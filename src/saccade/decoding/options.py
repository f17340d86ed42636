"""How to generate, as plain options, and the one call that does it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

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
    """How answers are written.

    beam             how many beginnings are written on side by side; 1 is greedy search
    length_penalty   hypotheses are ranked by log P / length**length_penalty
    num_best         how many answers are given for each input, at most `beam`
    sample           draw each token instead, with the options below
    temperature      below 1 sharpens the distribution, 0 is greedy search
    top_k, top_p     draw among the k most likely tokens, or those with this share together
    seed             of the first input's draws; the next input has the next seed
    max_length       the most tokens an answer may have
    max_ratio        and the most in relation to its input: max_ratio * length + 10
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

    def __post_init__(self) -> None:
        if self.sample and self.beam > 1:
            raise DecodingError(f"sampling has no beams: take sample or beam={self.beam}, not both")
        if self.num_best > self.beam:
            raise DecodingError(
                f"num_best={self.num_best} answers need a beam of at least that many, "
                f"got beam={self.beam}"
            )

    def ratio_conflict(self, reason: str) -> Iterator[Conflict]:
        """Yield the conflict of a task that knows no length to compare an answer's with."""
        for conflict in without_effect(self, ["max_ratio"], reason):
            yield conflict._replace(key=f"generation.{conflict.key}")

    def changed(self, options: Mapping[str, Any]) -> "GenerationConfig":
        """With other options; to ask for a beam is to ask not to draw, and the other way round.

        To ask for several answers is to ask for a beam of at least 5.
        """
        known = self.__dataclass_fields__
        if unknown := [name for name in options if name not in known]:
            raise DecodingError(f"there is no option {unknown[0]!r}; there are: {', '.join(known)}")
        if options.get("sample"):
            options = {"beam": 1, "num_best": 1, **options}
        elif options.get("num_best", 1) > 1:
            wide = max(self.beam, options["num_best"], 5)
            options = {"sample": False, "beam": wide, **options}
        elif "beam" in options:
            options = {"sample": False, **options}
        return replace(self, **options)

    def longest(self, input_length: int) -> int:
        """The most tokens of an answer, the stop included.

        Counted from the longest input of its step, so that inputs of about one length share it: a
        batch has one limit, and what is said to an input must not depend on its neighbours.
        """
        return min(
            self.max_length, int(self.max_ratio * (8 * length_bucket(input_length) + 6)) + 10
        )


def length_bucket(length: int) -> int:
    """Lengths in steps of eight, the stop counted: 7 to 14 tokens are in one."""
    return (length + 1) // 8


@dataclass(frozen=True, kw_only=True)
class GenerationRequest:
    """What is asked of an engine for a batch; `rows` are its inputs' numbers, for their seeds."""

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
    """The hypotheses of each row, best first; `rows` are its inputs' numbers, for their seeds.

    `start` is the token that is written first, one for all rows or one for each.
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
