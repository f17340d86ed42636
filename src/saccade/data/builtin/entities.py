"""Synthetic English sentences about people, places and companies, with the span of each name.

All names are made of the same syllables, and the validation and test sets have names that the
training set lacks: no list of names helps. What a name stands for follows from the words around it,
often from those after it (Tavo rose from the table: a person; by two percent: a company; out of the
fog: a place), and some names stand for none of the three (a glass of Tavo).
"""

import re
from collections.abc import Collection, Iterator
from functools import lru_cache

from saccade.data.builtin._shared import Sampler, split_slice

DESCRIPTION = "synthetic: English sentences with tagged people, places and companies, 9 000 rows"
COLUMNS = ("words", "tags")
SIZES = {"train": 8000, "valid": 500, "test": 500}
TYPES = {"P": "person", "L": "place", "C": "company"}
ONSETS = [
    "b",
    "d",
    "f",
    "g",
    "k",
    "l",
    "m",
    "n",
    "p",
    "r",
    "s",
    "t",
    "v",
    "z",
    "br",
    "dr",
    "gr",
    "kr",
    "st",
    "tr",
]
VOWELS = ["a", "e", "i", "o", "u"]
CODAS = ("", "", "", "l", "m", "n", "r", "s", "x")

OPENINGS = ("yesterday ,", "in the end ,", "on Monday ,", "it is true that", "people say that")
JOINTS = (", and", ", but", "while", "because", "although")
CLAUSES = (
    # P, L, C: a name of each type; N: a name of another kind; 1 after a letter: a single word
    "P rose from the [table|chair|floor]",
    "C rose by [two|nine|forty] percent",
    "L rose out of the [fog|sea|sand]",
    "P fell [asleep|in love|off a ladder]",
    "C fell on the [market|stock exchange]",
    "L fell after a [long|short] siege",
    "P is [tall|thirty|married|very tired]",
    "C is [bankrupt|for sale|hiring again]",
    "L is [far away|full of tourists|north of L]",
    "N is [a soft cheese|a card game|a kind of apple]",
    "[we|they|friends] [trust|remember|know] P , who [sings in a choir|has two sons|wrote to us]",
    "[we|they|friends] [trust|remember|know] C , which [sells boats|pays well|makes shoes]",
    "[we|they|friends] [like|remember|know] L , where [it rains in May|we grew up|roads are bad]",
    "[we|they|friends] [like|remember|know] N , a [song|dish|dance] from [the south|L]",
    "P , the [poet|nurse|judge] , [came up|was mentioned] [again|twice]",
    "C , the [bank|airline|brewery] , [came up|was mentioned] [again|twice]",
    "L , the [town|island|port] , [came up|was mentioned] [again|twice]",
    "P left C for C because the [pay|boss|office] was bad",
    "P left L for L because the [winter|harbour|weather] was bad",
    "[somebody|she|P] drank a [glass|bottle] of N",
    "[in|near] L1 P1 [met|saw|called] P",
    "the [trip|train|road] from L to L [was long|took a day]",
    "the [mayor|people|walls] of L [welcomed|surprised] [us|P]",
    "the [owner|lawyers|shares] of C [worried|surprised] [us|P]",
    "the [sister|friends|voice] of P [worried|surprised] [us|C]",
    "C [hired|fired] P [again|last week]",
    "C [opened|closed] [a shop|an office] in L",
    "P [flew|moved|drove] to L [with P|for C|alone]",
    "P , P and P [met|danced|argued] in L",
    "P [works|worked] for C [in L|since May|and C]",
)
FORMS = {
    "P": ("N", "N", "N N", "N N", "N de N"),
    "L": ("N", "N", "N N", "N N", "Port N"),
    "C": ("N", "N", "N N", "N N", "N & N"),
    "N": ("N", "N", "N N"),
}
SLOT = re.compile(r"[PLCN]1?")


def rows(split: str) -> Iterator[tuple[str, ...]]:
    """Yield the words of a sentence and their BIO tags, each with spaces in between."""
    yield from _sentences()[split_slice(SIZES, split)]


@lru_cache(maxsize=1)
def _sentences() -> list[tuple[str, str]]:
    """Return distinct sentences, the same at every call."""
    sampler = Sampler()
    sentences: dict[str, str] = {}
    known: set[str] = set()
    while len(sentences) < sum(SIZES.values()):
        training = len(sentences) < SIZES["train"]
        words, tags = _Sentence(sampler, () if training else known).write()
        if training:
            known.update(words)
        sentences.setdefault(" ".join(words), " ".join(tags))
    return list(sentences.items())


class _Sentence:
    """A sentence of one or two clauses; `taken` are names that it does not use."""

    def __init__(self, sampler: Sampler, taken: Collection[str]) -> None:
        self._one_of, self._happens, self._taken = sampler.one_of, sampler.happens, taken
        self._words: list[str] = []
        self._tags: list[str] = []

    def write(self) -> tuple[list[str], list[str]]:
        if self._happens(0.3):
            self._add(self._one_of(OPENINGS))
        self._add(self._one_of(CLAUSES))
        if self._happens(0.5):
            self._add(self._one_of(JOINTS))
            self._add(self._one_of(CLAUSES))
        self._add(".")
        self._words[0] = self._words[0][0].upper() + self._words[0][1:]
        return self._words, self._tags

    def _add(self, pattern: str) -> None:
        """Add the words of a pattern, with a choice for each [one|another] and names in slots."""
        text = re.sub(r"\[([^][]*)\]", lambda match: self._one_of(match[1].split("|")), pattern)
        for word in text.split():
            if SLOT.fullmatch(word) is None:
                self._words.append(word)
                self._tags.append("O")
                continue
            form = "N" if word.endswith("1") else self._one_of(FORMS[word[0]])
            name = [self._name() if part == "N" else part for part in form.split()]
            self._words += name
            label = TYPES.get(word[0])
            marks = ["B", *"I" * (len(name) - 1)]
            self._tags += [f"{mark}-{label}" if label else "O" for mark in marks]

    def _name(self) -> str:
        """Return a name of two or three syllables; after the training set, one it lacks."""
        while True:
            syllables = (self._one_of(ONSETS) + self._one_of(VOWELS) for _ in range(3))
            first, second, third = syllables
            ending = third if self._happens(0.4) else ""
            name = f"{first}{second}{ending}{self._one_of(CODAS)}".capitalize()
            if name not in self._taken:
                return name
