"""Inline markup: the tags of a text, carried over to its translation by a word alignment.

An element is put around the words that are aligned with the words inside it. Tags are kept as they
were written, with their attributes; each comes back exactly once, balanced and properly nested. A
tag that is never closed (`<br>`), one that closes nothing, and a comment mark a place between
words. Entities such as `&amp;` are ordinary text. Anything in the translation itself that looks
like a tag is escaped.
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
"""Indices of words, from the first up to but not including the last."""


@dataclass(frozen=True)
class Tag:
    """A tag or a comment.

    Args:
        start: index of its first character in the text.
        end: index after its last character.
        written: the tag as it was written.
        name: the name of the element; empty for a comment.
        closing: whether it is a closing tag.
    """

    start: int
    end: int
    written: str
    name: str = ""
    closing: bool = False

    @property
    def opening(self) -> bool:
        """Whether a closing tag can follow."""
        return bool(self.name) and not self.closing and not self.written.endswith("/>")


def find_tags(text: str) -> Iterator[Tag]:
    """Yield the tags and comments of a text, in order, in time linear in its length.

    No position is searched twice: the end of an unclosed comment is searched for once, and the end
    of a tag's attributes depends only on the position of a quotation mark, so it is remembered.
    """
    at, unclosed = 0, False
    ends: dict[int, int] = {}
    while (at := text.find("<", at)) >= 0:
        end, name = -1, _NAME.match(text, at)
        if name is not None:
            end = _end_of_tag(text, name.end(), ends)
        elif not unclosed and text.startswith("<!--", at):
            end = text.find("-->", at + 4) + 3
            unclosed = end < 3
        if end < 3:
            at += 1
        elif name is None:
            yield Tag(at, end, text[at:end])
            at = end
        else:
            yield Tag(at, end, text[at:end], name[2], bool(name[1]))
            at = end


def _end_of_tag(text: str, at: int, ends: dict[int, int]) -> int:
    """Return where the tag whose name ends at `at` ends; -1 if it does not."""
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
    """An element of marked-up text.

    Args:
        start: its opening tag, or the only tag of an element between words.
        end: its closing tag; empty if there is none.
        words: the words inside it. Between words this range is empty: the element goes before the
            word at its start.
        inside: the elements inside it.
        glued: of an element between words, whether it goes after the preceding word instead.
    """

    start: str
    end: str
    words: Range
    inside: tuple["Element", ...] = ()
    glued: bool = False

    def bare(self) -> str:
        """Return its tags and those inside it, without the text between them."""
        tags: list[str] = []
        waiting: list[tuple[str, tuple[Element, ...]]] = [(self.end, ()), (self.start, self.inside)]
        while waiting:
            tag, inside = waiting.pop()
            tags.append(tag)
            for element in reversed(inside):
                waiting += [(element.end, ()), (element.start, element.inside)]
        return "".join(tags)


@dataclass(frozen=True)
class Marked:
    """A text without its tags, and the elements that the tags made.

    Args:
        text: the text without tags, for example to translate.
        elements: the outermost elements, in order.
    """

    text: str
    elements: tuple[Element, ...]

    def put_back(self, answer: str, links: Collection[Link]) -> str:
        """Return a translation with the tags of this text.

        Args:
            answer: the translation of `text`.
            links: the alignment of the words of `text` with those of `answer`.
        """
        answer = _escaped(answer)
        translation = _Translation(answer, links)
        if not translation.spans:
            return answer + "".join(element.bare() for element in self.elements)
        root = Element("", "", (0, len(word_spans(self.text))), self.elements)
        translation.fill(root, (0, len(translation.spans)))
        return translation.write()


def read_markup(text: str) -> Marked:
    """Separate a text from its inline tags.

    Example:
        >>> marked = read_markup("the <b>red</b> house")
        >>> marked.text
        'the red house'
        >>> marked.put_back("la maison rouge", {(0, 0), (1, 2), (2, 1)})
        'la maison <b>rouge</b>'
    """
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


def _escaped(text: str) -> str:
    """Return the text with the first character of every tag escaped."""
    parts, at = [], 0
    for tag in find_tags(text):
        parts += [text[at : tag.start], "&lt;"]
        at = tag.start + 1
    return "".join([*parts, text[at:]])


def _partners(tags: Sequence[Tag]) -> dict[int, int]:
    """Map the index of each opening tag to that of the tag that closes it."""
    partners: dict[int, int] = {}
    waiting: dict[str, list[int]] = defaultdict(list)
    for number, tag in enumerate(tags):
        if tag.opening:
            waiting[tag.name].append(number)
        elif tag.closing and waiting[tag.name]:
            partners[waiting[tag.name].pop()] = number
    return partners


def _before_word(text: str, tags: Sequence[Tag]) -> list[bool]:
    """Return for each tag whether a word follows it directly or after other tags."""
    follows: list[bool] = []
    start, word = len(text), False  # of the next tag
    for tag in reversed(tags):
        if tag.end != start:
            word = _WORD_CHARACTER.match(text, tag.end) is not None
        follows.append(word)
        start = tag.start
    return follows[::-1]


@dataclass
class _Draft:
    """An element while it is read, with its begin and stop in characters of the text."""

    number: int
    start: str
    end: str
    begin: int
    stop: int = 0
    inside: list["_Draft"] = field(default_factory=list)
    glued: bool = False


class _Reader:
    """A reader of text and tags, from left to right."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0
        self._open = [_Draft(-1, "", "", 0)]
        self._numbers = {-1}

    def text(self, piece: str) -> None:
        """Append text; white space on both sides of a tag is kept once."""
        if not self._inside_word():
            piece = piece.lstrip()
        if piece:
            self._pieces.append(piece)
            self._length += len(piece)

    def open(self, number: int, start: str, end: str) -> None:
        """Start an element."""
        draft = _Draft(number, start, end, self._length)
        self._open[-1].inside.append(draft)
        self._open.append(draft)
        self._numbers.add(number)

    def close(self, number: int) -> None:
        """End the element of this number, if it is still open, and all inside it."""
        if number not in self._numbers:
            return
        while True:
            draft = self._open.pop()
            self._numbers.remove(draft.number)
            draft.stop = self._length
            if draft.number == number:
                return

    def place(self, tag: Tag, *, before_word: bool) -> None:
        """Add a tag that stands alone; the words on both sides of it stay two words."""
        glued = self._inside_word()
        if glued and tag.name and before_word:
            self.text(" ")
            glued = False
        here = self._length
        self._open[-1].inside.append(_Draft(-1, tag.written, "", here, here, glued=glued))

    def marked(self) -> Marked:
        """Return the text and the elements read so far."""
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
        """Return whether the text so far ends inside a word."""
        return bool(self._pieces) and not self._pieces[-1][-1].isspace()


class _Translation:
    """The words of a translation, and the tags around, before and after them."""

    def __init__(self, text: str, links: Collection[Link]) -> None:
        self.spans = word_spans(text)
        self._text = text
        self._targets_of: dict[int, list[int]] = defaultdict(list)
        for source, target in sorted(links):
            self._targets_of[source].append(target)
        self._linked = sorted(self._targets_of)
        self._around: list[tuple[Range, Element]] = []
        self._ranges: dict[Range, None] = {}  # of `_around`, without repeats; they nest, so few
        self._beside: dict[tuple[int, bool], list[tuple[Element, str]]] = defaultdict(list)

    def fill(self, root: Element, room: Range) -> None:
        """Place everything inside an element, within this range of words."""
        waiting = [(inner, root, room) for inner in reversed(root.inside)]
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
        """Return the text with all tags."""
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
        """Yield the tags before a word; those of a parent opened earlier come first."""
        inside, outside = self._by_parent((word, False), opened)
        yield from outside
        for element in opened:
            yield element.start
            yield from inside[id(element)]

    def _closing(self, word: int, closed: list[Element]) -> Iterator[str]:
        """Yield the tags after a word; those of a parent that stays open come last."""
        inside, outside = self._by_parent((word, True), closed)
        for element in closed:
            yield from inside[id(element)]
            yield element.end
        yield from outside

    def _by_parent(
        self, place: tuple[int, bool], parents: list[Element]
    ) -> tuple[dict[int, list[str]], list[str]]:
        """Return the tags at a place by these parents, and those of other parents."""
        inside: dict[int, list[str]] = {id(parent): [] for parent in parents}
        outside: list[str] = []
        for parent, tags in self._beside.get(place, ()):
            inside.get(id(parent), outside).append(tags)
        return inside, outside

    def _linked_in(self, first: int, last: int) -> Sequence[int]:
        """Return the aligned words of the text from `first` up to `last`."""
        return self._linked[bisect_left(self._linked, first) : bisect_left(self._linked, last)]

    def _targets(self, words: Iterable[int], room: Range) -> list[int]:
        """Return the words in `room` that are aligned with these words of the text."""
        targets = {t for word in words for t in self._targets_of[word]}
        return sorted(t for t in targets if room[0] <= t < room[1])

    def _best(self, hits: list[int]) -> Range:
        """Return the range between two hits that holds most of them and crosses no other range.

        Ties go to the shortest range, then to the first.
        """
        best, held = (hits[0], hits[0] + 1), 1
        for first, start in enumerate(hits):
            if len(hits) - first < held:
                break
            last = len(hits) - 1
            while crossed := [r for r in self._ranges if _cross((start, hits[last] + 1), r)]:
                limit = min(end if begin < start else begin for begin, end in crossed)
                last = bisect_right(hits, limit - 1, hi=last) - 1
            count, span = last - first + 1, (start, hits[last] + 1)
            if (count, span[0] - span[1]) > (held, best[0] - best[1]):
                best, held = span, count
        return best

    def _place(self, element: Element, parent: Element, room: Range) -> tuple[int, bool]:
        """Return a word for an unaligned element to stand beside, and whether it goes after it.

        It is the word that is aligned with the element's nearest aligned neighbour in the text.
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
    """Return whether two ranges overlap and neither contains the other."""
    (a, b), (c, d) = one, other
    return a < c < b < d or c < a < d < b
