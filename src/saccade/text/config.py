"""Options of a vocabulary."""

from dataclasses import dataclass
from typing import Literal, get_args

from saccade.errors import TextError
from saccade.text.controls import OURS

Kind = Literal["bpe", "unigram", "word", "character", "token"]


@dataclass(frozen=True, kw_only=True)
class VocabularyConfig:
    """Options of a vocabulary: the kind of tokens, and how many.

    kind        "bpe" and "unigram": parts of words down to single bytes, so that no text is
                unknown; "word": words and punctuation; "character": code points; "token": whatever
                stands between white space, such as phonemes
    size        largest number of entries, the seven control tokens included; raise it for much
                text, lower it for little
    min_count   number of times a word, character or token must occur; rarer ones are unknown. With
                "bpe" and "unigram" it limits the merged pieces and is at least 2
    lowercase   whether text is converted to lower case first; good for labels, not for translation
    """

    kind: Kind = "bpe"
    size: int = 8000
    min_count: int = 1
    lowercase: bool = False

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise TextError(
                f"{self.kind!r} is not a valid kind of vocabulary; use one of: "
                f"{', '.join(get_args(Kind))}"
            )
        if self.size < self.smallest:
            letters = "256 bytes" if self.has_bytes else "one entry"
            raise TextError(
                f"a {self.kind} vocabulary of size {self.size} is too small: {len(OURS)} control "
                f"tokens and {letters} need a size of at least {self.smallest}; raise size"
            )
        if self.min_count < 1:
            raise TextError(
                f"min_count must be at least 1, got {self.min_count}; 1 keeps every entry"
            )

    @property
    def has_bytes(self) -> bool:
        """True if every byte is an entry, so that no text is unknown."""
        return self.kind in ("bpe", "unigram")

    @property
    def smallest(self) -> int:
        """The smallest possible size."""
        return len(OURS) + (256 if self.has_bytes else 1)
