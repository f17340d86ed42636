"""Masking: which tokens of a text a model has to guess, and what it reads in their place.

Of the tokens of a text a share is chosen, 15 %. Of these 80 % become the mask token, 10 % any other
token, and 10 % stay (Devlin et al. 2019). Chosen are single tokens, whole words, or spans of words
(Joshi et al. 2020), whose lengths have

    P(l) = p (1 - p)^(l - 1) / (1 - (1 - p)^m)        l = 1 … m words, p = 0.2, m = 10

All three are one draw: a text falls into units (tokens, words, spans that lie end to end), which
are taken in random order until the share is reached. The last one is taken with the probability
that makes the number of chosen tokens right on average.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal, NamedTuple

import torch
from annotated_types import Ge, Gt, Le, Lt

from saccade.config import Conflict, Count, without_effect
from saccade.errors import RecipeError
from saccade.shapes import Bool, Float, Int, Tensor
from saccade.text import Tokenizer

Part = Annotated[float, Ge(0), Le(1)]
"""From 0 to 1, both included."""
Inside = Annotated[float, Gt(0), Lt(1)]
"""Between 0 and 1, neither included."""


class Masked(NamedTuple):
    """Tokens with some of them masked, where in the flattened batch, and what stood there."""

    tokens: Int[Tensor, "b s"]
    places: Int[Tensor, " n"]
    targets: Int[Tensor, " n"]


@dataclass(frozen=True, kw_only=True)
class MaskingConfig:
    """Which tokens are to be guessed.

    share         of the tokens of a text, on average; at least one token, word or span
    whole         what is chosen as a whole: "tokens", "words", or "spans" of words
    replaced      the share of the chosen that the model reads as the mask token
    random        the share that it reads as a token drawn at random; the rest it reads as they are.
                  This is drawn for each token, but for a span as a whole
    span_end      the probability that a span ends after each of its words
    longest_span  the most words of a span, which is also no longer than the share of a text's words
    """

    share: Inside = 0.15
    whole: Literal["tokens", "words", "spans"] = "tokens"
    replaced: Part = 0.8
    random: Part = 0.1
    span_end: Inside = 0.2
    longest_span: Count = 10

    def __post_init__(self) -> None:
        if self.replaced + self.random > 1 + 1e-9:
            raise RecipeError(
                f"replaced and random are shares of the same tokens, together at most 1; got "
                f"{self.replaced} and {self.random}"
            )

    def conflicts(self) -> Iterator[Conflict]:
        """Options of spans."""
        if self.whole != "spans":
            reason = 'unless masking.whole is "spans"'
            yield from without_effect(self, ["span_end", "longest_span"], reason)

    def build(self, tokenizer: Tokenizer) -> "Masking":
        """The masking of texts in this vocabulary."""
        return Masking(
            config=self,
            mask=tokenizer.mask,
            ordinary=torch.from_numpy(tokenizer.ordinary),
            begins_word=torch.from_numpy(tokenizer.begins_word),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Masking:
    """Masks batches of a vocabulary: its mask token, its ordinary ones, and which begin a word."""

    config: MaskingConfig
    mask: int
    ordinary: Int[Tensor, " n"]
    begins_word: Bool[Tensor, " v"]

    def __call__(
        self,
        tokens: Int[Tensor, "b s"],
        maskable: Bool[Tensor, "b s"],
        generator: torch.Generator | None = None,
    ) -> Masked:
        """Mask some of the maskable tokens; whatever is said, only ordinary ones are.

        Draws from torch's own generator unless another is given.
        """
        maskable = maskable & self._is_ordinary[tokens]
        units = self._units(tokens, maskable, generator)
        chosen = _chosen(units, maskable, self.config.share, generator)
        places = chosen.flatten().nonzero().squeeze(1)
        targets = tokens.flatten()[places]
        fate = torch.rand(tokens.shape, generator=generator)
        if self.config.whole == "spans":
            fate = fate.gather(1, units)
        fate = fate.flatten()[places]
        drawn = torch.randint(len(self.ordinary), places.shape, generator=generator)
        shown = torch.where(fate < 1 - self.config.replaced, targets, self.mask)
        shown = torch.where(fate < self.config.random, self.ordinary[drawn], shown)
        return Masked(
            tokens.flatten().index_copy(0, places, shown).view_as(tokens), places, targets
        )

    @cached_property
    def _is_ordinary(self) -> Bool[Tensor, " v"]:
        return torch.zeros_like(self.begins_word).index_fill_(0, self.ordinary, value=True)

    def _units(
        self, tokens: Tensor, maskable: Tensor, generator: torch.Generator | None
    ) -> Int[Tensor, "b s"]:
        """The number of the token, word or span that each place is of, from 0 in each row."""
        width = tokens.shape[1]
        if self.config.whole == "tokens":
            return torch.arange(width).expand_as(tokens)
        begins = maskable & self.begins_word[tokens]
        begins[:, 1:] |= maskable[:, 1:] & ~maskable[:, :-1]
        begins[:, :1] |= maskable[:, :1]
        words = begins.cumsum(1).sub(1).clamp(min=0)
        if self.config.whole == "words":
            return words
        longest = (self.config.share * begins.sum(1, keepdim=True)).long().clamp(min=1)
        lengths = self._span_lengths(tokens.shape, generator).minimum(longest)
        starts = (lengths.cumsum(1) - lengths).clamp(max=width)
        begins = torch.zeros(len(tokens), width + 1, dtype=torch.bool)
        begins.scatter_(1, starts, value=True)
        return begins.cumsum(1).sub(1).gather(1, words)

    def _span_lengths(
        self, shape: torch.Size, generator: torch.Generator | None
    ) -> Int[Tensor, "b s"]:
        """Lengths in words, drawn by the inverse of their distribution."""
        rest = (1 - self.config.span_end) ** torch.arange(1, self.config.longest_span + 1)
        reached = (1 - rest) / (1 - rest[-1])
        return torch.searchsorted(reached[:-1], torch.rand(shape, generator=generator)) + 1


def _chosen(
    units: Int[Tensor, "b s"],
    maskable: Bool[Tensor, "b s"],
    share: float,
    generator: torch.Generator | None,
) -> Bool[Tensor, "b s"]:
    """Whole units in random order until the share of the maskable places is reached."""
    sizes: Float[Tensor, "b s"] = torch.zeros(units.shape).scatter_add_(1, units, maskable.float())
    drawn = torch.rand(units.shape, generator=generator).masked_fill(sizes == 0, 2.0)
    order = drawn.argsort(1)
    ordered = sizes.gather(1, order)
    before = ordered.cumsum(1) - ordered
    wanted = share * maskable.sum(1, keepdim=True)
    last = torch.rand(len(units), 1, generator=generator)
    taken = before + last * ordered < wanted
    taken[:, :1] = True
    return torch.zeros_like(maskable).scatter_(1, order, taken).gather(1, units) & maskable
