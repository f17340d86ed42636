"""Made: English sentences about things of every day, and the mood of their writer.

Single words do not tell it. Negation turns a mood into its opposite (not at all sad: happy; hardly
angry: calm); of two clauses the one after `but`, or the one without `although`, decides; of two
feelings the stronger one; and of two people the writer.
"""

import random
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TypeVar

from saccade.data.builtin import _mood_words as words
from saccade.data.builtin._mood_words import Person

DESCRIPTION = "made: English sentences and their mood (happy, sad, angry or calm), 25 500 rows"
COLUMNS = ("text", "label")
SIZES = {"train": 24000, "valid": 750, "test": 750}
Choice = TypeVar("Choice")


def rows(split: str) -> Iterator[tuple[str, ...]]:
    """24 000 sentences to train on, 750 and 750 others; as many of each mood."""
    starts = {"train": 0, "valid": SIZES["train"], "test": SIZES["train"] + SIZES["valid"]}
    yield from _sentences()[starts[split] : starts[split] + SIZES[split]]


@lru_cache(maxsize=1)
def _sentences() -> list[tuple[str, str]]:
    """Distinct sentences, the same at every call: only `random()`, which Python keeps the same."""
    chance = random.Random(0)
    moods = tuple(words.MOODS)
    made: dict[str, str] = {}
    while len(made) < sum(SIZES.values()):
        mood = moods[len(made) % len(moods)]
        made.setdefault(_Sentence(chance).make(mood), mood)
    return list(made.items())


class _Sentence:
    """One sentence: what it says is given, how it says it is left to chance."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._topic = self._one_of(words.TOPICS)

    def make(self, mood: str) -> str:
        forms = (self._plain, self._contrast, self._weighed, self._shared)
        body = self._one_of((forms[0], *forms[:2], *forms))(mood)
        said = f"{self._one_of(words.OPENINGS)} {body}" if self._happens(0.4) else body
        return f"{said[0].upper()}{said[1:]}."

    def _plain(self, mood: str) -> str:
        """The soup was not at all dreary."""
        return self._clause(mood, self._one_of(self._topic), turned=0.4)

    def _contrast(self, mood: str) -> str:
        """The flight was maddening, but the beach made me smile."""
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
        """I was a bit sad and really angry about the bill."""
        thing, other = self._one_of(self._topic), self._another(mood)
        if self._happens(0.5):
            main, beside = (self._one_of(words.MOODS[each].feelings) for each in (mood, other))
            form = f"I was {{}} {self._one_of(words.REASONS)} the {thing}"
        else:
            main, beside = (self._one_of(words.MOODS[each].qualities) for each in (mood, other))
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
        """My sister was furious about the match, while it made me laugh."""
        thing = self._one_of(self._topic)
        people = [(words.WRITER, mood), (self._one_of(words.OTHERS), self._another(mood))]
        (one, first), (two, second) = people if self._happens(0.5) else people[::-1]
        tell = self._one_of((self._feeling, self._effect))
        before, after = tell(first, f"the {thing}", one, 0.2), tell(second, "it", two, 0.2)
        return f"{before}, {self._one_of(('while', 'whereas'))} {after}"

    def _clause(self, mood: str, thing: str, *, turned: float) -> str:
        """One way to say a mood, with the share `turned` of negations of its opposite."""
        tell = self._one_of((self._quality, self._feeling, self._effect))
        return tell(mood, f"the {thing}", words.WRITER, turned)

    def _quality(self, mood: str, thing: str, who: Person, turned: float) -> str:
        """The soup was really lovely; whose mood it is stays unsaid."""
        said, before = self._degree(mood, turned)
        return f"{thing} was {before}{self._one_of(words.MOODS[said].qualities)}"

    def _feeling(self, mood: str, thing: str, who: Person, turned: float) -> str:
        """I was really glad about the soup."""
        said, before = self._degree(mood, turned)
        feeling, reason = self._one_of(words.MOODS[said].feelings), self._one_of(words.REASONS)
        verb = self._one_of(("was", "felt"))
        return f"{who.subject} {verb} {before}{feeling} {reason} {thing}"

    def _effect(self, mood: str, thing: str, who: Person, turned: float) -> str:
        """The soup did not make me smile."""
        negated = self._happens(turned)
        did, do = self._one_of(words.MOODS[words.OPPOSITE[mood] if negated else mood].effects)
        if negated and self._happens(0.4):
            did = f"{self._one_of(words.NEVER_DID)} {did}"
        elif negated:
            did = f"{self._one_of(words.NOT_DO)} {do}"
        return f"{thing} {did}".format(me=who.object, my=who.owner)

    def _degree(self, mood: str, turned: float) -> tuple[str, str]:
        """The mood that is named, and the words before it: a degree, none, or a negation."""
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

    def _one_of(self, several: Sequence[Choice]) -> Choice:
        return several[int(self._chance.random() * len(several))]

    def _happens(self, share: float) -> bool:
        return self._chance.random() < share
