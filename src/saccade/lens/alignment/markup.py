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
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from saccade.lens.alignment.extraction import Link, word_spans

_NAME = re.compile(r"<(/?)([A-Za-z_][\w:.-]*)")
_SPECIAL = re.compile("[<>\"']")
_WORD_CHARACTER = re.compile(r"\w")
Range = tuple[int, int]
"""Words, from the first up to but not including the last."""


@dataclass(frozen=True)
class Tag:
    """A tag or a comment, at `start` to `end` of a text; a comment has no name."""

    start: int
    end: int
    written: str
    name: str = ""
    closing: bool = False

    @property
    def opening(self) -> bool:
        """Whether a closing tag may follow."""
        return bool(self.name) and not self.closing and not self.written.endswith("/>")


def find_tags(text: str) -> Iterator[Tag]:
    """The tags and comments of a text, in order, in time proportional to its length.

    No place is searched twice: a comment without an end is looked for once, and where the
    attributes of a tag end depends on the place of a quotation mark alone, so it is remembered.
    """
    at, endless = 0, False
    ends: dict[int, int] = {}
    while (at := text.find("<", at)) >= 0:
        end, name = -1, _NAME.match(text, at)
        if name is not None:
            end = _end_of_tag(text, name.end(), ends)
        elif not endless and text.startswith("<!--", at):
            end = text.find("-->", at + 4) + 3
            endless = end < 3
        if end < 3:
            at += 1
        elif name is None:
            yield Tag(at, end, text[at:end])
            at = end
        else:
            yield Tag(at, end, text[at:end], name[2], bool(name[1]))
            at = end


def _end_of_tag(text: str, at: int, ends: dict[int, int]) -> int:
    """Where the tag ends whose name ends at `at`; -1 if it does not."""
    if not text[at : at + 1].isspace():
        bare = at + text.startswith("/", at)
        return bare + 1 if text.startswith(">", bare) else -1
    quotes, end = [], -1
    while (special := _SPECIAL.search(text, at)) is not None:
        at = special.start()
        if special[0] in "<>":
            end = at + 1 if special[0] == ">" else -1
            break
        if at in ends:
            end = ends[at]
            break
        quotes.append(at)
        at = text.find(special[0], at + 1) + 1
        if at == 0:
            break
    ends.update(dict.fromkeys(quotes, end))
    return end


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
        written: list[str] = []
        waiting: list[str | Element] = [self.end, self]
        while waiting:
            part = waiting.pop()
            if isinstance(part, str):
                written.append(part)
                continue
            written.append(part.start)
            for inner in reversed(part.inside):
                waiting += [inner.end, inner]
        return "".join(written)


@dataclass(frozen=True)
class Marked:
    """A text without its tags, and the elements that they make."""

    text: str
    elements: tuple[Element, ...]

    def put_back(self, answer: str, links: Collection[Link]) -> str:
        """The tags in a translation, by the alignment of the text's words with its own."""
        answer = _without_tags(answer)
        translation = _Translation(answer, links)
        if not translation.spans:
            return answer + "".join(element.bare() for element in self.elements)
        whole = Element("", "", (0, len(word_spans(self.text))), self.elements)
        translation.fill(whole, (0, len(translation.spans)))
        return translation.write()


def read_markup(text: str) -> Marked:
    """The text without its tags, and where they stood."""
    reader, at = _Reader(), 0
    tags = list(find_tags(text))
    closed_by = _partners(tags)
    opened_by = {closer: opener for opener, closer in closed_by.items()}
    before_word = _before_word(text, tags)
    for number, tag in enumerate(tags):
        reader.text(text[at : tag.start])
        at = tag.end
        if number in closed_by:
            reader.open(number, tag.written, tags[closed_by[number]].written)
        elif number in opened_by:
            reader.close(opened_by[number])
        else:
            reader.place(tag, before_word=before_word[number])
    reader.text(text[at:])
    return reader.marked()


def _without_tags(text: str) -> str:
    """The same with every tag made text."""
    parts, at = [], 0
    for tag in find_tags(text):
        parts += [text[at : tag.start], "&lt;"]
        at = tag.start + 1
    return "".join([*parts, text[at:]])


def _partners(tags: Sequence[Tag]) -> dict[int, int]:
    """The number of each tag that opens something, and of the tag that closes it, by name."""
    partners: dict[int, int] = {}
    waiting: dict[str, list[int]] = defaultdict(list)
    for number, tag in enumerate(tags):
        if tag.opening:
            waiting[tag.name].append(number)
        elif tag.closing and waiting[tag.name]:
            partners[waiting[tag.name].pop()] = number
    return partners


def _before_word(text: str, tags: Sequence[Tag]) -> list[bool]:
    """For each tag, whether a word follows it at once, or after other tags."""
    follows: list[bool] = []
    start, word = len(text), False  # of the tag after it
    for tag in reversed(tags):
        if tag.end != start:
            word = _WORD_CHARACTER.match(text, tag.end) is not None
        follows.append(word)
        start = tag.start
    return follows[::-1]


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
        self._pieces: list[str] = []
        self._length = 0
        self._open = [_Draft(-1, "", "", 0)]
        self._numbers = {-1}

    def text(self, piece: str) -> None:
        """Go on with text; white space on both sides of a tag is there once."""
        if not self._inside_word():
            piece = piece.lstrip()
        if piece:
            self._pieces.append(piece)
            self._length += len(piece)

    def open(self, number: int, start: str, end: str) -> None:
        """Begin an element."""
        draft = _Draft(number, start, end, self._length)
        self._open[-1].inside.append(draft)
        self._open.append(draft)
        self._numbers.add(number)

    def close(self, number: int) -> None:
        """End the element of this number and all inside it, unless it was ended so itself."""
        if number not in self._numbers:
            return
        while True:
            draft = self._open.pop()
            self._numbers.remove(draft.number)
            draft.stop = self._length
            if draft.number == number:
                return

    def place(self, tag: Tag, *, before_word: bool) -> None:
        """A tag by itself; the words on both sides of it stay two words."""
        glued = self._inside_word()
        if glued and tag.name and before_word:
            self.text(" ")
            glued = False
        here = self._length
        self._open[-1].inside.append(_Draft(-1, tag.written, "", here, here, glued=glued))

    def marked(self) -> Marked:
        """What was read."""
        text = "".join(self._pieces).rstrip()
        spans = word_spans(text)
        starts, ends = [start for start, _ in spans], [end for _, end in spans]
        finished: dict[int, Element] = {}
        waiting = list(self._open[0].inside)
        while waiting:
            draft = waiting[-1]
            missing = [inner for inner in draft.inside if id(inner) not in finished]
            if missing:
                waiting += missing
                continue
            waiting.pop()
            first, last = bisect_right(ends, draft.begin), bisect_right(starts, draft.stop - 1)
            finished[id(draft)] = Element(
                draft.start,
                draft.end,
                (first, max(first, last)),
                tuple(finished[id(inner)] for inner in draft.inside),
                draft.glued,
            )
        return Marked(text, tuple(finished[id(draft)] for draft in self._open[0].inside))

    def _inside_word(self) -> bool:
        """Whether the text so far ends with something other than white space."""
        return bool(self._pieces) and not self._pieces[-1][-1].isspace()


class _Translation:
    """The words of a translation, and what stands around, before and after them."""

    def __init__(self, text: str, links: Collection[Link]) -> None:
        self.spans = word_spans(text)
        self._text = text
        self._targets_of: dict[int, list[int]] = defaultdict(list)
        for source, target in sorted(links):
            self._targets_of[source].append(target)
        self._linked = sorted(self._targets_of)
        self._around: list[tuple[Range, Element]] = []
        self._ranges: dict[Range, None] = {}  # each of `_around` once: they nest, so they are few
        self._beside: dict[tuple[int, bool], list[tuple[Element, str]]] = defaultdict(list)

    def fill(self, whole: Element, room: Range) -> None:
        """Place all that is inside an element, which has this room."""
        waiting = [(inner, whole, room) for inner in reversed(whole.inside)]
        while waiting:
            element, parent, room = waiting.pop()
            hits = self._targets(self._linked_in(*element.words), room)
            if hits:
                around = self._best(hits)
                self._around.append((around, element))
                self._ranges[around] = None
                waiting += [(inner, element, around) for inner in reversed(element.inside)]
            else:
                place = self._place(element, parent, room)
                self._beside[place].append((parent, element.bare()))

    def write(self) -> str:
        """The text with all tags."""
        ordered = sorted(self._around, key=lambda placed: (placed[0][0], -placed[0][1]))
        opened: dict[int, list[Element]] = defaultdict(list)
        closed: dict[int, list[Element]] = defaultdict(list)
        for (first, _), element in ordered:
            opened[first].append(element)
        for (_, last), element in reversed(ordered):
            closed[last - 1].append(element)
        written, at = [], 0
        for word, (start, end) in enumerate(self.spans):
            written += [self._text[at:start], *self._opening(word, opened[word])]
            written += [self._text[start:end], *self._closing(word, closed[word])]
            at = end
        return "".join([*written, self._text[at:]])

    def _opening(self, word: int, opened: list[Element]) -> Iterator[str]:
        """What stands before a word: that of a parent that was open before comes first."""
        inside, outside = self._by_parent((word, False), opened)
        yield from outside
        for element in opened:
            yield element.start
            yield from inside[id(element)]

    def _closing(self, word: int, closed: list[Element]) -> Iterator[str]:
        """What stands after a word: that of a parent that stays open comes last."""
        inside, outside = self._by_parent((word, True), closed)
        for element in closed:
            yield from inside[id(element)]
            yield element.end
        yield from outside

    def _by_parent(
        self, place: tuple[int, bool], parents: list[Element]
    ) -> tuple[dict[int, list[str]], list[str]]:
        """The tags at a place that belong to each of the parents, and those of others."""
        inside: dict[int, list[str]] = {id(parent): [] for parent in parents}
        outside: list[str] = []
        for parent, tags in self._beside.get(place, ()):
            inside.get(id(parent), outside).append(tags)
        return inside, outside

    def _linked_in(self, first: int, last: int) -> Sequence[int]:
        """The words of the text from `first` up to `last` that are aligned with anything."""
        return self._linked[bisect_left(self._linked, first) : bisect_left(self._linked, last)]

    def _targets(self, words: Iterable[int], room: Range) -> list[int]:
        """The words in `room` that are aligned with these words of the text."""
        targets = {t for word in words for t in self._targets_of[word]}
        return sorted(t for t in targets if room[0] <= t < room[1])

    def _best(self, hits: list[int]) -> Range:
        """The range from hit to hit that holds the most of them and crosses no other's.

        Of two that hold as many it is the shorter, and then the first.
        """
        best, held = (hits[0], hits[0] + 1), 1
        for first, start in enumerate(hits):
            if len(hits) - first < held:
                break
            last = len(hits) - 1
            while crossed := [r for r in self._ranges if _cross((start, hits[last] + 1), r)]:
                limit = min(end if begin < start else begin for begin, end in crossed)
                last = bisect_right(hits, limit - 1, hi=last) - 1
            count, found = last - first + 1, (start, hits[last] + 1)
            if (count, found[0] - found[1]) > (held, best[0] - best[1]):
                best, held = found, count
        return best

    def _place(self, element: Element, parent: Element, room: Range) -> tuple[int, bool]:
        """Where to put what no word is aligned with: a word, and whether it goes after it.

        It is the partner of the nearest neighbour in the text that has one.
        """
        following = ((word, False) for word in self._linked_in(element.words[1], parent.words[1]))
        before = self._linked_in(parent.words[0], element.words[0])
        preceding = ((word, True) for word in reversed(before))
        sides = (preceding, following) if element.glued else (following, preceding)
        for word, after in chain(*sides):
            if targets := self._targets([word], room):
                return targets[-1] if after else targets[0], after
        return room[1] - 1 if element.glued else room[0], element.glued


def _cross(one: Range, other: Range) -> bool:
    """Whether they share words and neither holds the other."""
    (a, b), (c, d) = one, other
    return a < c < b < d or c < a < d < b
