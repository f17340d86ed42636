"""What generation gives back, and the limits it keeps to."""

from collections.abc import Sequence
from dataclasses import dataclass

from saccade.errors import DecodingError


@dataclass(frozen=True)
class Hypothesis:
    """One generated sequence: its tokens without the start and the stop, and how likely it is.

    `log_probability` is the sum over the generated tokens, the stop included, under the model's
    own distribution. `score` is what hypotheses are ranked by. `finished` tells whether it ended
    with the stop token; if not, it was cut at the maximum length.
    """

    tokens: tuple[int, ...]
    log_probability: float
    score: float
    finished: bool

    @classmethod
    def of(
        cls,
        tokens: Sequence[int],
        log_probability: float,
        *,
        finished: bool,
        length_penalty: float = 1.0,
    ) -> "Hypothesis":
        """With score = log P / lengthᵅ, where the length counts the stop and α is the penalty.

        >>> Hypothesis.of([5, 6, 7], -2.0, finished=True).score
        -0.5
        """
        length = len(tokens) + finished
        score = log_probability / length**length_penalty
        return cls(tuple(tokens), log_probability, score, finished)


@dataclass(frozen=True, kw_only=True)
class GenerationLimits:
    """When generation stops, and what it never writes.

    `max_length`: the most tokens that are generated, the stop included, so generation always ends.
    `min_length`: the stop is not allowed before that many other tokens (with `min_length` =
    `max_length` there is no stop). `forbidden`: tokens that are never generated, such as padding.
    """

    stop: int
    max_length: int
    min_length: int = 0
    forbidden: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.max_length < 1:
            raise DecodingError(f"max_length must be at least 1, got {self.max_length}")
        if not 0 <= self.min_length <= self.max_length:
            raise DecodingError(
                f"min_length must be between 0 and max_length = {self.max_length}, "
                f"got {self.min_length}"
            )
        if min(self.stop, *self.forbidden, 0) < 0:
            raise DecodingError(
                f"token ids count from 0, got stop = {self.stop} and forbidden = {self.forbidden}"
            )
        if self.stop in self.forbidden:
            raise DecodingError(
                f"the stop token {self.stop} is among the forbidden tokens {self.forbidden}; "
                f"for text without a stop, set min_length to max_length = {self.max_length}"
            )

    def banned(self, length: int) -> list[int]:
        """The tokens that may not follow `length` generated ones."""
        return [*self.forbidden, self.stop] if length < self.min_length else [*self.forbidden]
