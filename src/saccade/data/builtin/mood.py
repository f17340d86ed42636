"""Synthetic English sentences about everyday things, labelled with the mood of their writer.

Single words do not give the label away. Negation turns a mood into its opposite (not at all sad:
happy; hardly angry: calm). The clause after `but`, or the one without `although`, decides between
two clauses; the stronger feeling decides between two feelings, the writer between two people.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache

from saccade.data.builtin import _mood_words as words
from saccade.data.builtin._mood_words import Person
from saccade.data.builtin._shared import Choice, Sampler, split_slice

DESCRIPTION = "synthetic: English sentences and their mood (happy, sad, angry or calm), 25 500 rows"
COLUMNS = ("text", "label")
SIZES = {"train": 24000, "valid": 750, "test": 750}


def rows(split: str) -> Iterator[tuple[str, ...]]:
    """Yield sentence and mood; all moods are equally frequent."""
    yield from _sentences()[split_slice(SIZES, split)]


@lru_cache(maxsize=1)
def _sentences() -> list[tuple[str, str]]:
    """Return distinct sentences, the same at every call."""
    sampler = Sampler()
    moods = tuple(words.MOODS)
    sentences: dict[str, str] = {}
    while len(sentences) < sum(SIZES.values()):
        mood = moods[len(sentences) % len(moods)]
        sentences.setdefault(_Sentence(sampler).write(mood), mood)
    return list(sentences.items())


class _Sentence:
    """A sentence about one topic, whose wording is random."""

    def __init__(self, sampler: Sampler) -> None:
        self._one_of, self._happens = sampler.one_of, sampler.happens
        self._topic = self._one_of(words.TOPICS)

    def write(self, mood: str) -> str:
        forms = (self._plain, self._contrast, self._weighed, self._shared)
        body = self._one_of((forms[0], *forms[:2], *forms))(mood)
        text = f"{self._one_of(words.OPENINGS)} {body}" if self._happens(0.4) else body
        return f"{text[0].upper()}{text[1:]}."

    def _plain(self, mood: str) -> str:
        """Write a sentence like: The soup was not at all dreary."""
        return self._clause(mood, self._one_of(self._topic), turned=0.4)

    def _contrast(self, mood: str) -> str:
        """Write a sentence like: The flight was maddening, but the beach made me smile."""
        thing, other = self._two_of(self._topic)
        main = self._clause(mood, thing, turned=0.2)
        beside = self._clause(self._another(mood), other, turned=0.2)
        form = self._one_of(
            (
                "{beside}, but {main}",
                "{beside}, yet {main}",
                "although {beside}, {main}",
                "{main}, although {beside}",
                "{main}, even though {beside}",
            )
        )
        return form.format(main=main, beside=beside)

    def _weighed(self, mood: str) -> str:
        """Write a sentence like: I was a bit sad and really angry about the bill."""
        thing, other = self._one_of(self._topic), self._another(mood)
        if self._happens(0.5):
            main, beside = (self._one_of(words.MOODS[name].feelings) for name in (mood, other))
            form = f"I was {{}} {self._one_of(words.REASONS)} the {thing}"
        else:
            main, beside = (self._one_of(words.MOODS[name].qualities) for name in (mood, other))
            form = f"the {thing} was {{}}"
        strong, weak = self._one_of(words.STRONG), self._one_of(words.WEAK)
        return form.format(
            self._one_of(
                (
                    f"{strong} {main} and {weak} {beside}",
                    f"{weak} {beside} and {strong} {main}",
                    f"more {main} than {beside}",
                    f"less {beside} than {main}",
                )
            )
        )

    def _shared(self, mood: str) -> str:
        """Write a sentence like: My sister was furious about it, while it made me laugh."""
        thing = self._one_of(self._topic)
        people = [(words.WRITER, mood), (self._one_of(words.OTHERS), self._another(mood))]
        (one, first), (two, second) = people if self._happens(0.5) else people[::-1]
        express = self._one_of((self._feeling, self._effect))
        before, after = express(first, f"the {thing}", one, 0.2), express(second, "it", two, 0.2)
        return f"{before}, {self._one_of(('while', 'whereas'))} {after}"

    def _clause(self, mood: str, thing: str, *, turned: float) -> str:
        """Express a mood; with probability `turned`, by negating its opposite."""
        express = self._one_of((self._quality, self._feeling, self._effect))
        return express(mood, f"the {thing}", words.WRITER, turned)

    def _quality(self, mood: str, thing: str, who: Person, turned: float) -> str:
        """Write a clause like: The soup was really lovely."""
        named, before = self._degree(mood, turned)
        return f"{thing} was {before}{self._one_of(words.MOODS[named].qualities)}"

    def _feeling(self, mood: str, thing: str, who: Person, turned: float) -> str:
        """Write a clause like: I was really glad about the soup."""
        named, before = self._degree(mood, turned)
        feeling, reason = self._one_of(words.MOODS[named].feelings), self._one_of(words.REASONS)
        verb = self._one_of(("was", "felt"))
        return f"{who.subject} {verb} {before}{feeling} {reason} {thing}"

    def _effect(self, mood: str, thing: str, who: Person, turned: float) -> str:
        """Write a clause like: The soup did not make me smile."""
        negated = self._happens(turned)
        did, do = self._one_of(words.MOODS[words.OPPOSITE[mood] if negated else mood].effects)
        if negated and self._happens(0.4):
            did = f"{self._one_of(words.NEVER_DID)} {did}"
        elif negated:
            did = f"{self._one_of(words.NOT_DO)} {do}"
        return f"{thing} {did}".format(me=who.object, my=who.owner)

    def _degree(self, mood: str, turned: float) -> tuple[str, str]:
        """Return the mood to name and the words before it: a degree, nothing, or a negation."""
        if self._happens(turned):
            return words.OPPOSITE[mood], f"{self._one_of(words.NOT_SO)} "
        if self._happens(0.4):
            return mood, f"{self._one_of((*words.STRONG, *words.WEAK))} "
        return mood, ""

    def _another(self, mood: str) -> str:
        return self._one_of([other for other in words.MOODS if other != mood])

    def _two_of(self, several: Sequence[Choice]) -> tuple[Choice, Choice]:
        one = self._one_of(several)
        return one, self._one_of([other for other in several if other != one])
