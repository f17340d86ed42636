"""Divide plain text into words the way a data set does."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

SEEN = 2
"""Minimum count of a word that ends in punctuation, for it to stay one word."""
MOST = 5000
"""The maximum number of such words."""
INSIDE = "-–—/"
"""The marks that may divide a word."""
ENDING = re.compile(r"n['’]t|['’]\w{1,3}", re.IGNORECASE)
"""Endings that some data sets write as words of their own."""

JOINER = "\u200d"
"""The mark that joins several emoji to one."""
SKINS = "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
"""The marks that give an emoji the colour of a skin."""

Span = tuple[int, int]
"""The (start, end) characters of a word."""


@dataclass(frozen=True)
class WordSplitter:
    """Divides text at white space, and words from their punctuation, as the training data does.

    Attributes:
        before: Marks that stay with the word after them, such as @ in @user.
        after: Marks that stay with the word before them, such as % in 50%.
        inside: Marks at which a word is divided, such as - if well-known is three words.
        endings: Endings that are words of their own, in lower case, such as n't.
        known: Words that are never divided, such as Mr. or :-).
    """

    before: str = ""
    after: str = ""
    inside: str = ""
    endings: tuple[str, ...] = ()
    known: frozenset[str] = frozenset()

    @classmethod
    def learn(cls, words: Iterable[str]) -> "WordSplitter":
        """Return the splitter that divides text as these words are divided.

        Example:
            >>> splitter = WordSplitter.learn(["@ann", "did", "n't", "call", ",", "did", "he", "?"])
            >>> text = "@bob hadn't, really?"
            >>> [text[start:end] for start, end in splitter.split(text)]
            ['@bob', 'had', "n't", ',', 'really', '?']
        """
        counts = Counter(words)
        alone, first, last, middle = (Counter[str]() for _ in range(4))
        for word, count in counts.items():
            if len(word) == 1:
                alone[word] += count
            elif any(map(str.isalnum, word)):
                first[word[0]] += count
                last[word[-1]] += count
                for mark in INSIDE:
                    middle[mark] += count * (mark in word[1:-1])

        def attached(places: Counter[str]) -> str:
            marks = (mark for mark in places if not mark.isalnum() and places[mark] > alone[mark])
            return "".join(sorted(marks))

        kept = Counter(
            {
                word: count
                for word, count in counts.items()
                if len(word) > 1 and count >= SEEN and not (word[0] + word[-1]).isalnum()
            }
        )
        return cls(
            before=attached(first),
            after=attached(last),
            inside="".join(mark for mark in INSIDE if alone[mark] > middle[mark]),
            endings=tuple(sorted({word.lower() for word in counts if ENDING.fullmatch(word)})),
            known=frozenset(word for word, _ in kept.most_common(MOST)),
        )

    def split(self, text: str) -> list[Span]:
        """Return the place of each word in a text."""
        return [
            span for chunk in re.finditer(r"\S+", text) for span in self._parts(text, chunk.span())
        ]

    def _parts(self, text: str, chunk: Span) -> list[Span]:
        """Divide what stands between white space: marks at its ends first, then its inside."""
        (start, end), tail = chunk, list[Span]()
        head: list[Span] = []
        while end - start > 1 and text[start:end] not in self.known:
            first, last = start + 1, end - 1
            while first < end and _joined(text, first):
                first += 1
            while last > start and _joined(text, last):
                last -= 1
            if not text[last].isalnum() and text[last] not in self.after and last > start:
                tail.append((last, end))
                end = last
            elif not text[start].isalnum() and text[start] not in self.before and first < end:
                head.append((start, first))
                start = first
            else:
                break
        return [*head, *self._inner(text, start, end), *reversed(tail)]

    def _inner(self, text: str, start: int, end: int) -> list[Span]:
        word = text[start:end]
        if word in self.known:
            return [(start, end)]
        for ending in self.endings:
            if word.lower().endswith(ending) and len(word) > len(ending):
                cut = end - len(ending)
                return [*self._inner(text, start, cut), (cut, end)]
        if not self.inside or not any(map(str.isalnum, word)):
            return [(start, end)]
        parts = re.finditer(f"[{re.escape(self.inside)}]|[^{re.escape(self.inside)}]+", word)
        return [(start + part.start(), start + part.end()) for part in parts]

    def facts(self) -> dict[str, object]:
        """Return plain values, from which `from_facts` makes the splitter again."""
        return {
            "before": self.before,
            "after": self.after,
            "inside": self.inside,
            "endings": list(self.endings),
            "known": sorted(self.known),
        }

    @classmethod
    def from_facts(cls, facts: Mapping[str, object]) -> "WordSplitter":
        """Return the splitter of plain values.

        Raises:
            ValueError: A value is not a text, or not a list of texts.
        """
        return cls(
            before=_text(facts, "before"),
            after=_text(facts, "after"),
            inside=_text(facts, "inside"),
            endings=tuple(_texts(facts, "endings")),
            known=frozenset(_texts(facts, "known")),
        )


def _joined(text: str, place: int) -> bool:
    """Return whether a character belongs to the one before it.

    Accents and vowel signs do, and what one emoji is composed of.
    """
    mark = text[place]
    return (
        unicodedata.category(mark)[0] == "M"
        or mark == JOINER
        or mark in SKINS
        or text[place - 1] == JOINER
    )


def _text(facts: Mapping[str, object], key: str) -> str:
    value = facts.get(key, "")
    if not isinstance(value, str):
        raise ValueError(f"{key} must be a text")
    return value


def _texts(facts: Mapping[str, object], key: str) -> list[str]:
    values = facts.get(key, [])
    if not isinstance(values, list) or not all(isinstance(x, str) and x for x in values):
        raise ValueError(f"{key} must be a list of texts")
    return values
