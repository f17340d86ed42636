"""The result of generation, and its limits."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from saccade.errors import DecodingError


@dataclass(frozen=True)
class Hypothesis:
    """One generated sequence.

    Attributes:
        tokens: Token ids without the start and the stop token.
        log_probability: Sum over the generated tokens, the stop token included, under the model's
            own distribution, in nats.
        score: log P / lengthᵅ, by which hypotheses are ranked.
        finished: True if it ended with the stop token; False if it was cut at the maximum length.
    """

    tokens: tuple[int, ...]
    log_probability: float
    score: float
    finished: bool

    @property
    def confidence(self) -> float:
        """The geometric mean of the probabilities of its tokens, the stop token included.

        Examples:
            >>> from saccade.decoding import Hypothesis
            >>> round(Hypothesis.of([5, 6, 7], -2.0, finished=True).confidence, 3)
            0.607
        """
        mean = self.log_probability / max(1, len(self.tokens) + self.finished)
        return math.exp(min(0.0, mean))  # rounding may put it above 0

    @classmethod
    def of(
        cls,
        tokens: Sequence[int],
        log_probability: float,
        *,
        finished: bool,
        length_penalty: float = 1.0,
    ) -> "Hypothesis":
        """Return a hypothesis with score = log P / lengthᵅ.

        The length includes the stop token; α is the length penalty.

        Examples:
            >>> from saccade.decoding import Hypothesis
            >>> Hypothesis.of([5, 6, 7], -2.0, finished=True).score
            -0.5
        """
        length = len(tokens) + finished
        score = log_probability / length**length_penalty
        return cls(tuple(tokens), log_probability, score, finished)


@dataclass(frozen=True, kw_only=True)
class GenerationLimits:
    """When generation ends, and which tokens it never generates.

    Args:
        stop: Id of the stop token (end of sequence).
        max_length: Largest number of generated tokens, the stop token included.
        min_length: Number of other tokens before the stop token is allowed. If it equals
            `max_length`, the stop token is never generated.
        forbidden: Ids that are never generated, such as that of padding.

    Raises:
        DecodingError: If the limits contradict each other or an id is negative.
    """

    stop: int
    max_length: int
    min_length: int = 0
    forbidden: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.max_length < 1:
            raise DecodingError(
                f"max_length must be at least 1, got {self.max_length}; it counts the stop token"
            )
        if not 0 <= self.min_length <= self.max_length:
            raise DecodingError(
                f"min_length must be between 0 and max_length = {self.max_length}, "
                f"got {self.min_length}; lower it or raise max_length"
            )
        if min(self.stop, *self.forbidden, 0) < 0:
            raise DecodingError(
                f"token ids count from 0, got stop = {self.stop} and forbidden = {self.forbidden}; "
                "use ids of the vocabulary"
            )
        if self.stop in self.forbidden:
            raise DecodingError(
                f"the stop token {self.stop} is among the forbidden tokens {self.forbidden}; "
                "remove it there. To generate without a stop token, set min_length to "
                f"max_length = {self.max_length}"
            )

    def banned(self, length: int) -> list[int]:
        """Return the tokens that are not allowed after `length` generated ones."""
        return [*self.forbidden, self.stop] if length < self.min_length else [*self.forbidden]
