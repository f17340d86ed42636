"""Which vocabulary is asked for, as plain options."""

from dataclasses import dataclass
from typing import Literal, get_args

from saccade.errors import TextError
from saccade.text.controls import OURS

Kind = Literal["bpe", "unigram", "word", "character", "token"]


@dataclass(frozen=True, kw_only=True)
class VocabularyConfig:
    """The kind of pieces, and how many.

    kind       "bpe" and "unigram": parts of words, down to single bytes, so that every text has
               ids and comes back from them; "word": words and punctuation, the space before a
               word being part of it; "character": code points; "token": whatever stands between
               white space (phonemes), joined again with single spaces
    size       the most entries, the seven control tokens included
    min_count  rarer words, characters or tokens are unknown. In "bpe" a pair that is rarer is not
               merged, in "unigram" a string that is rarer is no candidate; both need two at least,
               because a pair seen once says nothing
    lowercase  text is put in lower case before all else
    """

    kind: Kind = "bpe"
    size: int = 8000
    min_count: int = 1
    lowercase: bool = False

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise TextError(
                f"no vocabulary of kind {self.kind!r}; there are {', '.join(get_args(Kind))}"
            )
        if self.size < self.smallest:
            letters = "256 bytes" if self.has_bytes else "one entry"
            raise TextError(
                f"a {self.kind} vocabulary of size {self.size} is too small: {len(OURS)} control "
                f"tokens and {letters} need a size of at least {self.smallest}"
            )
        if self.min_count < 1:
            raise TextError(f"min_count must be at least 1, got {self.min_count}")

    @property
    def has_bytes(self) -> bool:
        """Whether every byte is an entry, so that nothing is unknown."""
        return self.kind in ("bpe", "unigram")

    @property
    def smallest(self) -> int:
        """The least size that is possible."""
        return len(OURS) + (256 if self.has_bytes else 1)
