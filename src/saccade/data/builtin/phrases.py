"""Synthetic English sentences with their French translation and gold word alignment.

A small grammar with the difficulties of French: gender and number agreement across several words,
adjectives after or before the noun, negation on both sides of the verb, pronouns that move before
the verb, elision (l' d' j' n' m'), and contractions (du, aux) that stand for two words.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from saccade.data.builtin import _phrases_words as words
from saccade.data.builtin._phrases_words import Adjective, Noun, Verb, begins_with_vowel
from saccade.data.builtin._shared import Sampler, split_slice

DESCRIPTION = "synthetic: short English sentences in French, with gold word alignments, 8 000 pairs"
COLUMNS = ("source", "target", "alignment")
SIZES = {"train": 7000, "valid": 500, "test": 500}
ELIDED = ("le", "la", "je", "ne", "me", "de")
CONTRACTED = {("de", "le"): "du", ("de", "les"): "des", ("à", "le"): "au", ("à", "les"): "aux"}


class Word(NamedTuple):
    """A French word and the indices of the English words it translates."""

    text: str
    of: frozenset[int]


class Phrase(NamedTuple):
    """A noun with its determiner, adjectives and number."""

    determiner: str
    adjectives: tuple[Adjective, ...]
    noun: Noun
    plural: bool


def rows(split: str) -> Iterator[tuple[str, ...]]:
    """Yield English, French and the alignment as `i-j` pairs from 0."""
    yield from _sentences()[split_slice(SIZES, split)]


@lru_cache(maxsize=1)
def _sentences() -> list[tuple[str, ...]]:
    """Return distinct sentences, the same at every call."""
    sampler = Sampler()
    sentences: dict[str, tuple[str, ...]] = {}
    while len(sentences) < sum(SIZES.values()):
        row = _Sentence(sampler).write()
        sentences[row[0]] = row
    return list(sentences.values())


class _Sentence:
    """A sentence, whose English is written from left to right and whose French is ordered after."""

    def __init__(self, sampler: Sampler) -> None:
        self._one_of, self._happens = sampler.one_of, sampler.happens
        self._english: list[str] = []

    def write(self) -> tuple[str, ...]:
        french = _elided(self._one_of((self._being, self._giving, self._acting, self._acting))())
        pairs = sorted((i, j) for j, word in enumerate(french) for i in word.of)
        return (
            " ".join(self._english),
            " ".join(word.text for word in french),
            " ".join(f"{i}-{j}" for i, j in pairs),
        )

    def _being(self) -> list[Word]:
        """Write: The red house is not very old. The adjective agrees with a distant subject."""
        if self._happens(0.3):
            pronoun = self._one_of([p for p in words.SUBJECTS if p.person in {1, 4}])
            subject = [self._word(pronoun.french, pronoun.english)]
            feminine, plural = pronoun.feminine, pronoun.person == 4
            adjectives = (*words.MOODS, words.YOUNG)
        else:
            phrase = self._phrase(self._one_of((words.ADULTS, words.THINGS, words.ANIMALS)))
            subject = self._noun_phrase(phrase)
            feminine, plural = phrase.noun.feminine, phrase.plural
            adjectives = _predicates(phrase)
        be = self._add("are" if plural else "is")
        negation = self._one_of((None, None, "not", "never", "no longer"))
        negated = self._add(negation) if negation else frozenset()
        after = []
        if negation in {None, "not"} and self._happens(0.4):
            after = [self._word("très", "very")]
        elif negation is None and self._happens(0.4):
            after = [self._adverb()]
        adjective = self._one_of(adjectives)
        after.append(self._word(adjective.forms[2 * plural + feminine], adjective.english))
        verb = Word("sont" if plural else "est", be)
        return [*subject, *_negated([verb], negation, negated), *after]

    def _acting(self) -> list[Word]:
        """Write: She often sees the black cat near the church. Or: She does not see him."""
        verb = self._one_of(words.VERBS)
        subject, person, not_to = self._subject()
        verbal, adverbs, negation, negated = self._verbal(verb, person)
        if verb.people and self._happens(0.35):
            objects = self._pronoun(words.OBJECTS, not_to)
            core = [*_negated([*objects, verbal], negation, negated), *adverbs]
        else:
            phrase = self._phrase(self._one_of((words.THINGS, words.ANIMALS)), free=verb.indefinite)
            objects = self._noun_phrase(phrase, negated=negation is not None)
            core = [*_negated([verbal], negation, negated), *adverbs, *objects]
        place = self._place() if self._happens(0.35) else []
        return [*subject, *core, *place]

    def _giving(self) -> list[Word]:
        """Write: He gives the book to the girl. Or: He gives her the book."""
        verb = self._one_of(words.GIVING)
        subject, person, not_to = self._subject()
        verbal, adverbs, negation, negated = self._verbal(verb, person)
        to_pronoun = self._happens(0.5)
        clitic = self._pronoun(words.RECEIVERS, not_to) if to_pronoun else []
        given = self._noun_phrase(
            self._phrase(words.THINGS, free=True), negated=negation is not None
        )
        receiver = []
        if not to_pronoun:
            preposition = self._word("à", "to")
            phrase = self._phrase(self._one_of((words.ADULTS, words.CHILDREN)))
            receiver = _contracted([preposition, *self._noun_phrase(phrase)])
        return [
            *subject,
            *_negated([*clitic, verbal], negation, negated),
            *adverbs,
            *given,
            *receiver,
        ]

    def _subject(self) -> tuple[list[Word], int, tuple[str, ...]]:
        """Return its words, the person of the verb, and the pronouns that cannot be its object."""
        if self._happens(0.5):
            pronoun = self._one_of(words.SUBJECTS)
            return [self._word(pronoun.french, pronoun.english)], pronoun.person, pronoun.not_to
        phrase = self._phrase(self._one_of((words.ADULTS, words.CHILDREN)), free=True)
        return self._noun_phrase(phrase), 4 if phrase.plural else 1, ()

    def _verbal(
        self, verb: Verb, person: int
    ) -> tuple[Word, list[Word], str | None, frozenset[int]]:
        """Return the verb, its adverbs, the negation, and the English words of the negation."""
        third = person == 1
        negation = self._one_of((None, None, None, "not", "not", "never", "no longer"))
        helper: frozenset[int] = frozenset()
        negated: frozenset[int] = frozenset()
        if negation == "not":
            helper, third = self._add("does" if third else "do"), False
        if negation:
            negated = self._add(negation)
        adverbs = []
        if negation is None and self._happens(0.3):
            adverbs = [self._adverb()]
        elif negation == "not" and self._happens(0.2):
            adverbs = [self._adverb(("often", "always"))]
        indices = self._add(verb.english[third])
        return Word(verb.french[person], helper | indices), adverbs, negation, negated

    def _adverb(self, among: Sequence[str] = tuple(words.ADVERBS)) -> Word:
        english = self._one_of(among)
        return self._word(words.ADVERBS[english], english)

    def _pronoun(self, table: dict[str, str], not_to: Sequence[str]) -> list[Word]:
        english = self._one_of([word for word in table if word not in not_to])
        return [self._word(table[english], english)]

    def _place(self) -> list[Word]:
        """Write a place such as: near the old church. The article contracts with `de`."""
        english = self._one_of(tuple(words.SITUATIONS))
        indices = self._add(english)
        before = [Word(text, indices) for text in words.SITUATIONS[english]]
        adjectives = (self._one_of((words.OLD, words.BIG, words.SMALL)),)
        noun = self._one_of(words.PLACES)
        phrase = Phrase("the", adjectives if self._happens(0.3) else (), noun, plural=False)
        return _contracted([*before, *self._noun_phrase(phrase)])

    def _phrase(self, nouns: Sequence[Noun], *, free: bool = False) -> Phrase:
        """Return a noun with adjectives and a determiner, which may be indefinite if `free`."""
        noun, plural = self._one_of(nouns), self._happens(0.35)
        determiner = self._one_of(
            ("the", "the", "this", "my", "a", "a") if free else ("the", "my", "this")
        )
        first, last = _attributes(noun)
        adjectives = []
        if self._happens(0.35):
            adjectives.append(self._one_of(first))
        if self._happens(0.35):
            adjectives.append(self._one_of(last))
        return Phrase(determiner, tuple(adjectives), noun, plural)

    def _noun_phrase(self, phrase: Phrase, *, negated: bool = False) -> list[Word]:
        """Write the phrase in English; return its French words in French order."""
        described = [adjective.english for adjective in phrase.adjectives]
        following = [*described, phrase.noun.english[phrase.plural]]
        determined = self._add(_english_determiner(phrase, following[0], negated=negated))
        places = [self._add(word) for word in following]
        first: list[Word] = []
        last: list[Word] = []
        for adjective, place in zip(phrase.adjectives, places, strict=False):
            (first if adjective.first else last).append(Word(_agreeing(adjective, phrase), place))
        french = [*first, Word(phrase.noun.french[phrase.plural], places[-1]), *last]
        determiner = _french_determiner(
            phrase, french[0].text, described=bool(first), negated=negated
        )
        return [Word(determiner, determined), *french]

    def _word(self, french: str, english: str) -> Word:
        return Word(french, self._add(english))

    def _add(self, english: str) -> frozenset[int]:
        """Append words to the English sentence; return their indices."""
        start = len(self._english)
        self._english += english.split()
        return frozenset(range(start, len(self._english)))


def _attributes(noun: Noun) -> tuple[tuple[Adjective, ...], tuple[Adjective, ...]]:
    """Return the adjectives that suit a noun: those before it in French, and those after it.

    Pairs with another meaning in French (`vieux garçon` is a bachelor) are left out.
    """
    if noun in words.CHILDREN:
        return (words.SMALL, words.YOUNG), words.MOODS
    if noun in words.ADULTS:
        return (words.OLD, words.YOUNG), words.MOODS
    first = (words.SMALL, words.BIG, words.PRETTY, words.OLD, words.BEAUTIFUL, words.NEW)
    if noun in words.ANIMALS:
        return first, words.COLOURS
    return first, (*words.COLOURS, *words.QUALITIES)


def _predicates(phrase: Phrase) -> tuple[Adjective, ...]:
    """Return the adjectives that may be its predicate, without those already used."""
    first, last = _attributes(phrase.noun)
    every = (*first, *last)
    used = (words.NEW, *phrase.adjectives)  # French does not say "est nouveau"
    if phrase.noun in words.THINGS + words.ANIMALS and set(phrase.adjectives) & set(words.COLOURS):
        used = (*used, *words.COLOURS)
    return tuple(adjective for adjective in every if adjective not in used)


def _agreeing(adjective: Adjective, phrase: Phrase) -> str:
    noun = phrase.noun
    if (
        adjective.before_vowel is not None
        and not (phrase.plural or noun.feminine)
        and begins_with_vowel(noun.french[0])
    ):
        return adjective.before_vowel
    return adjective.forms[2 * phrase.plural + noun.feminine]


def _english_determiner(phrase: Phrase, following: str, *, negated: bool) -> str:
    if phrase.determiner == "a":
        if phrase.plural:
            return "any" if negated else "some"
        return "an" if following[0] in "aeiou" and not following.startswith("use") else "a"
    return "these" if phrase.determiner == "this" and phrase.plural else phrase.determiner


def _french_determiner(phrase: Phrase, following: str, *, described: bool, negated: bool) -> str:
    """Return the determiner; a negated object has `de` in place of an indefinite article.

    `described` tells whether an adjective follows.
    """
    masculine, feminine, plural = words.DETERMINERS[phrase.determiner]
    if phrase.determiner == "a" and (negated or (phrase.plural and described)):
        return "de"
    if phrase.plural:
        return plural
    if begins_with_vowel(following):
        if phrase.determiner == "my":
            return masculine
        if phrase.determiner == "this" and not phrase.noun.feminine:
            return "cet"
    return feminine if phrase.noun.feminine else masculine


def _negated(verb: list[Word], negation: str | None, of: frozenset[int]) -> list[Word]:
    if negation is None:
        return verb
    return [Word("ne", of), *verb, Word(words.NEGATIONS[negation], of)]


def _contracted(french: list[Word]) -> list[Word]:
    """Contract de + le to du, and so on, unless `le` is elided before a vowel."""
    for i, (one, two, three) in enumerate(zip(french, french[1:], french[2:], strict=False)):
        contracted = CONTRACTED.get((one.text, two.text))
        if contracted and not (two.text == "le" and begins_with_vowel(three.text)):
            return [*french[:i], Word(contracted, one.of | two.of), *french[i + 2 :]]
    return french


def _elided(french: list[Word]) -> list[Word]:
    """Elide le + arbre to l'arbre, one word that translates both."""
    done: list[Word] = []
    for word in reversed(french):
        if done and word.text in ELIDED and begins_with_vowel(done[0].text):
            done[0] = Word(f"{word.text[:-1]}'{done[0].text}", word.of | done[0].of)
        else:
            done.insert(0, word)
    return done
