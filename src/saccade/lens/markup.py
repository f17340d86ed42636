"""Markup: the inline tags of a text, carried over to its translation.

    marked = read_markup("the <b>red</b> house")
    marked.text                                                     # "the red house"
    marked.put_back("la maison rouge", {(0, 0), (1, 2), (2, 1)})    # "la maison <b>rouge</b>"

An element goes around the words that are aligned with those inside it. Tags are kept as they were
written, attributes and all; each comes back once, balanced and properly nested. A tag that is never
closed (`<br>`), one that closes nothing, and a comment stand for a place between words. Entities
such as `&amp;` are text like any other; what a translation says that looks like a tag is made text.
"""

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from saccade.lens.align import Link, word_spans

_ONE = r"""<!--.*?-->|<(/?)([A-Za-z_][\w:.-]*)(?:\s(?:[^<>"']|"[^"]*"|'[^']*')*)?/?>"""
_TAG = re.compile(_ONE, re.DOTALL)
_BEFORE_WORD = re.compile(f"(?:{_ONE})*\\w", re.DOTALL)
Range = tuple[int, int]
"""Words, from the first up to but not including the last."""


@dataclass(frozen=True)
class Element:
    """A tag and the one that closes it, around words of the text, with the elements inside.

    What stands at a place has no words: it goes before the word of the number `words` or, if it is
    `glued`, after the one before that.
    """

    start: str
    end: str
    words: Range
    inside: tuple["Element", ...] = ()
    glued: bool = False

    def bare(self) -> str:
        """Its tags, without the text between them."""
        return self.start + "".join(part.bare() for part in self.inside) + self.end


@dataclass(frozen=True)
class Marked:
    """A text without its tags, and the elements that they make."""

    text: str
    elements: tuple[Element, ...]

    def put_back(self, answer: str, links: Collection[Link]) -> str:
        """The tags in a translation, by the alignment of the text's words with its own."""
        answer = _TAG.sub(lambda tag: f"&lt;{tag[0][1:]}", answer)
        translation = _Translation(answer, links)
        if not translation.spans:
            return answer + "".join(element.bare() for element in self.elements)
        whole = Element("", "", (0, len(word_spans(self.text))), self.elements)
        translation.fill(whole, (0, len(translation.spans)))
        return translation.write()


def read_markup(text: str) -> Marked:
    """The text without its tags, and where they stood."""
    reader, at = _Reader(), 0
    tags = list(_TAG.finditer(text))
    closed_by = _partners(tags)
    closers = set(closed_by.values())
    for number, tag in enumerate(tags):
        reader.text(text[at : tag.start()])
        at = tag.end()
        if number in closed_by:
            reader.open(number, tag[0], tags[closed_by[number]][0])
        elif number in closers:
            reader.close(next(opener for opener, end in closed_by.items() if end == number))
        else:
            reader.place(tag[0], text, at)
    reader.text(text[at:])
    return reader.marked()


def _partners(tags: Sequence[re.Match[str]]) -> dict[int, int]:
    """The number of each tag that opens something, and of the tag that closes it, by name."""
    partners, waiting = {}, []
    for number, tag in enumerate(tags):
        closes, name = tag[1], tag[2]
        if closes == "" and not tag[0].endswith("/>"):
            waiting.append((name, number))
        elif closes and any(name == other for other, _ in waiting):
            last = max(i for i, (other, _) in enumerate(waiting) if other == name)
            partners[waiting.pop(last)[1]] = number
    return partners


@dataclass
class _Draft:
    """An element while it is read: places are in characters of the text without tags."""

    number: int
    start: str
    end: str
    begin: int
    stop: int = 0
    inside: list["_Draft"] = field(default_factory=list)
    glued: bool = False


class _Reader:
    """Takes text and tags from left to right."""

    def __init__(self) -> None:
        self._text = ""
        self._open = [_Draft(-1, "", "", 0)]

    def text(self, piece: str) -> None:
        """Go on with text; white space on both sides of a tag is there once."""
        self._text += piece.lstrip() if self._text[-1:].strip() == "" else piece

    def open(self, number: int, start: str, end: str) -> None:
        """Begin an element."""
        draft = _Draft(number, start, end, len(self._text))
        self._open[-1].inside.append(draft)
        self._open.append(draft)

    def close(self, number: int) -> None:
        """End the element of this number and all inside it, unless it was ended so itself."""
        if any(draft.number == number for draft in self._open):
            while True:
                draft = self._open.pop()
                draft.stop = len(self._text)
                if draft.number == number:
                    return

    def place(self, tag: str, text: str, after: int) -> None:
        """A tag by itself; the words on both sides of it stay two words."""
        glued = bool(self._text[-1:].strip())
        if glued and tag.startswith("<!--") is False and _BEFORE_WORD.match(text, after):
            self._text += " "
            glued = False
        here = len(self._text)
        self._open[-1].inside.append(_Draft(-1, tag, "", here, here, glued=glued))

    def marked(self) -> Marked:
        """What was read."""
        text = self._text.rstrip()
        spans = word_spans(text)
        starts, ends = [start for start, _ in spans], [end for _, end in spans]

        def finished(draft: _Draft) -> Element:
            first, last = bisect_right(ends, draft.begin), bisect_right(starts, draft.stop - 1)
            return Element(
                draft.start,
                draft.end,
                (first, max(first, last)),
                tuple(map(finished, draft.inside)),
                draft.glued,
            )

        return Marked(text, tuple(map(finished, self._open[0].inside)))


class _Translation:
    """The words of a translation, and what stands around, before and after them."""

    def __init__(self, text: str, links: Collection[Link]) -> None:
        self.spans = word_spans(text)
        self._text, self._links = text, links
        self._around: list[tuple[Range, Element]] = []
        self._beside: list[tuple[int, bool, Element, str]] = []  # word, after it?, parent, tags

    def fill(self, parent: Element, room: Range) -> None:
        """Place all that is inside an element, which has this room."""
        for element in parent.inside:
            hits = self._targets(range(*element.words), room)
            if hits:
                around = self._best(hits)
                self._around.append((around, element))
                self.fill(element, around)
            else:
                self._beside.append((*self._place(element, parent, room), parent, element.bare()))

    def write(self) -> str:
        """The text with all tags."""
        ordered = sorted(self._around, key=lambda placed: (placed[0][0], -placed[0][1]))
        written, at = "", 0
        for word, (start, end) in enumerate(self.spans):
            opened = [element for around, element in ordered if around[0] == word]
            closed = [element for around, element in reversed(ordered) if around[1] == word + 1]
            written += self._text[at:start] + self._opening(word, opened)
            written += self._text[start:end] + self._closing(word, closed)
            at = end
        return written + self._text[at:]

    def _opening(self, word: int, opened: list[Element]) -> str:
        """What stands before a word: that of a parent that was open before comes first."""
        tags = [each for each in self._beside if each[:2] == (word, False)]
        written = "".join(text for *_, parent, text in tags if not _among(parent, opened))
        for element in opened:
            written += element.start
            written += "".join(text for *_, parent, text in tags if parent is element)
        return written

    def _closing(self, word: int, closed: list[Element]) -> str:
        """What stands after a word: that of a parent that stays open comes last."""
        tags = [each for each in self._beside if each[:2] == (word, True)]
        written = ""
        for element in closed:
            written += "".join(text for *_, parent, text in tags if parent is element)
            written += element.end
        return written + "".join(text for *_, parent, text in tags if not _among(parent, closed))

    def _targets(self, words: Iterable[int], room: Range) -> list[int]:
        """The words in `room` that are aligned with these words of the text."""
        wanted = set(words)
        return sorted({t for s, t in self._links if s in wanted and room[0] <= t < room[1]})

    def _best(self, hits: list[int]) -> Range:
        """The range from hit to hit that holds the most of them and crosses no other's."""
        ranges = [(i, j + 1) for i in hits for j in hits if i <= j]
        allowed = [r for r in ranges if not any(_cross(r, other) for other, _ in self._around)]
        return max(allowed, key=lambda r: (sum(r[0] <= hit < r[1] for hit in hits), r[0] - r[1]))

    def _place(self, element: Element, parent: Element, room: Range) -> tuple[int, bool]:
        """Where to put what no word is aligned with: a word, and whether it goes after it.

        It is the partner of the nearest neighbour in the text that has one.
        """
        following = [(word, False) for word in range(element.words[1], parent.words[1])]
        preceding = [(word, True) for word in range(parent.words[0], element.words[0])][::-1]
        for word, after in preceding + following if element.glued else following + preceding:
            if found := self._targets([word], room):
                return found[-1] if after else found[0], after
        return room[1] - 1 if element.glued else room[0], element.glued


def _among(element: Element, elements: list[Element]) -> bool:
    return any(element is other for other in elements)


def _cross(one: Range, other: Range) -> bool:
    """Whether they share words and neither holds the other."""
    (a, b), (c, d) = one, other
    return a < c < b < d or c < a < d < b
