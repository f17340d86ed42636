"""Masking: choose the tokens that a masked language model predicts, and replace them.

15 % of the tokens of a text are chosen; 80 % of these become the mask token, 10 % a random token,
and 10 % stay (Devlin et al. 2019, "BERT"). The units of choice are tokens, words, or spans of words
(Joshi et al. 2020, "SpanBERT"), whose lengths are distributed as

    P(l) = p (1 - p)^(l - 1) / (1 - (1 - p)^m)        l = 1 … m words, p = 0.2, m = 10

A text is divided into units (tokens, words, or adjacent spans), which are chosen in random order
until the fraction is reached. The last one is chosen with the probability that makes the expected
number of chosen tokens exact.
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
    """A batch with masked tokens.

    tokens    the tokens (b, s) to read
    places    indices of the chosen tokens in the flattened batch
    targets   the original tokens at these places
    """

    tokens: Int[Tensor, "b s"]
    places: Int[Tensor, " n"]
    targets: Int[Tensor, " n"]


@dataclass(frozen=True, kw_only=True)
class MaskingConfig:
    """The choice of the tokens to predict, and their replacement.

    share          expected fraction of a text's tokens that is chosen, at least one unit; 0.15 is
                   usual, large models also learn from 0.4
    whole          unit of the choice: "tokens", "words", or "spans" of words. Words and spans are
                   harder to guess
    replaced       fraction of the chosen tokens that the model reads as the mask token
    random         fraction that it reads as a random token; the rest is read unchanged. Decided per
                   token, and per span if whole = "spans"
    span_end       probability that a span ends after each of its words; smaller gives longer spans
    longest_span   maximum words in a span; a span also has at most the fraction `share` of the
                   text's words
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
                "replaced and random are fractions of the same tokens, together at most 1; got "
                f"{self.replaced} and {self.random}"
            )

    def conflicts(self) -> Iterator[Conflict]:
        """Yield the options of spans if no spans are masked."""
        if self.whole != "spans":
            reason = 'unless masking.whole is "spans"'
            yield from without_effect(self, ["span_end", "longest_span"], reason)

    def build(self, tokenizer: Tokenizer) -> "Masking":
        """Return the masking for texts of this vocabulary."""
        return Masking(
            config=self,
            mask=tokenizer.mask,
            ordinary=torch.from_numpy(tokenizer.ordinary),
            begins_word=torch.from_numpy(tokenizer.begins_word),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Masking:
    """Mask batches of tokens.

    config        the options
    mask          id of the mask token
    ordinary      ids of all tokens that are not control tokens
    begins_word   whether each token of the vocabulary begins a word
    """

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
        """Mask some of the maskable tokens; control tokens are never masked.

        Args:
            tokens: The token ids (b, s).
            maskable: True where a token may be masked.
            generator: The source of randomness; torch's global generator by default.
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
        sampled = torch.randint(len(self.ordinary), places.shape, generator=generator)
        shown = torch.where(fate < 1 - self.config.replaced, targets, self.mask)
        shown = torch.where(fate < self.config.random, self.ordinary[sampled], shown)
        return Masked(
            tokens.flatten().index_copy(0, places, shown).view_as(tokens), places, targets
        )

    @cached_property
    def _is_ordinary(self) -> Bool[Tensor, " v"]:
        return torch.zeros_like(self.begins_word).index_fill_(0, self.ordinary, value=True)

    def _units(
        self, tokens: Tensor, maskable: Tensor, generator: torch.Generator | None
    ) -> Int[Tensor, "b s"]:
        """Return the number of the unit that each place belongs to, from 0 in each row."""
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
        """Sample lengths in words by inverting their distribution function."""
        rest = (1 - self.config.span_end) ** torch.arange(1, self.config.longest_span + 1)
        reached = (1 - rest) / (1 - rest[-1])
        return torch.searchsorted(reached[:-1], torch.rand(shape, generator=generator)) + 1


def _chosen(
    units: Int[Tensor, "b s"],
    maskable: Bool[Tensor, "b s"],
    fraction: float,
    generator: torch.Generator | None,
) -> Bool[Tensor, "b s"]:
    """Choose units in random order until the fraction of the maskable places is reached."""
    sizes: Float[Tensor, "b s"] = torch.zeros(units.shape).scatter_add_(1, units, maskable.float())
    keys = torch.rand(units.shape, generator=generator).masked_fill(sizes == 0, 2.0)
    order = keys.argsort(1)
    ordered = sizes.gather(1, order)
    before = ordered.cumsum(1) - ordered
    target = fraction * maskable.sum(1, keepdim=True)
    last = torch.rand(len(units), 1, generator=generator)
    chosen = before + last * ordered < target
    chosen[:, :1] = True
    return torch.zeros_like(maskable).scatter_(1, order, chosen).gather(1, units) & maskable
