"""The result of a comparison of the answers of a folder with those of its model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Check:
    """A comparison of greedy answers of an engine with those of the model itself.

    Attributes:
        compared: The number of answers.
        same: The number of answers with the same tokens, or with a difference only where two
            tokens were equally likely.
        tokens: The fraction of tokens that are the same, by edit distance.
        quality: The metrics of the model itself and of the engine, if references are known.
    """

    compared: int
    same: int
    tokens: float
    quality: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @classmethod
    def from_plain(cls, table: Mapping[str, Any]) -> Check:
        """Return the check that `dataclasses.asdict` and JSON turned into plain values."""
        quality = {name: (pair[0], pair[1]) for name, pair in table["quality"].items()}
        return cls(**{**table, "quality": quality})

    @property
    def exact(self) -> bool:
        """Whether all answers are the same."""
        return self.same == self.compared

    def __str__(self) -> str:
        """Return a sentence for people."""
        answers = f"{self.same} of {self.compared} greedy answers are those of the model itself"
        metrics = [f"{name} {ours:.4g} -> {its:.4g}" for name, (ours, its) in self.quality.items()]
        return "; ".join((answers, f"{self.tokens:.1%} of the tokens", *metrics))
