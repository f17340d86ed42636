"""Lines, sentences and halves of a text, as (start, end) characters without outer white space.

Each function covers a text completely: every character belongs to exactly one span, or is white
space between two spans. A sentence ends after . ! ? … and their relatives in other scripts, with
closing quotation marks and brackets. After a Chinese or Japanese mark no space is needed. An
uncertain end does not count: one after an abbreviation, an initial or a number such as `3.`, and
one before a small letter, unless the text has no capital letters at all.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator

Span = tuple[int, int]

_LINE = re.compile("[^\r\n\v\f\x85\u2028\u2029]+")
# no part is optional before a required one, so the time is linear in the length of the text
_END = re.compile(
    "([.!?…؟۔।॥։።။។。｡！？]+)"
    "([\"'”’»›)\\]}」』）】》〉]*)"
    r"(\s*)"
)
_WIDE = frozenset("。｡！？")
_CLAUSE = re.compile(r"[.!?,;:،؛](?=\s)|[、，；：—–]")
_SPACE = re.compile(r"\s+")
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef"
    "\U00020000-\U0003ffff]"
)
_ATTACHED = ("Mn", "Me", "Mc", "Cf")  # categories of characters that belong to the one before
_LONGEST_WORD = 20  # characters before a full stop that can be an abbreviation
_MARKS = 32  # marks on one letter that are kept together with it
ABBREVIATIONS = """
    abs abt adj adm al approx apr art assoc aufl aug av ave bd betr bzw ca cap capt cf ch chr
    co col corp dept dez dipl doc dr ed eds eig est eur ev evtl ex feb fig figs fr gen geb
    gegr ggf gov hon hr hrsg ibid inc ing inkl insp int jan jr jul jun kap lt ltd mag maj max
    min mio mlle mm mme mr mrs ms mt mrd nos nov nr oct okt op orig par pp prof pt pvt rd ref
    rep rev sen sep sept sgt sog sr sra st str tab tel tom univ usw vgl vol vols vs zzgl
"""
"""Words that are abbreviated with a full stop inside a sentence."""
_ABBREVIATIONS = frozenset(ABBREVIATIONS.split())


def line_spans(text: str) -> list[Span]:
    """Return the lines of a text that are not blank.

    Example:
        >>> line_spans("One.\\n\\n  Two. ")
        [(0, 4), (8, 12)]
    """
    return list(_stripped(text, (match.span() for match in _LINE.finditer(text))))


def sentence_spans(text: str) -> list[Span]:
    """Return the sentences of a text.

    Example:
        >>> text = "Dr. Lee paid 3.50 dollars. “Why?” he asked."
        >>> [text[start:end] for start, end in sentence_spans(text)]
        ['Dr. Lee paid 3.50 dollars.', '“Why?” he asked.']
    """
    small = text == text.lower()
    ends = [end for end in _END.finditer(text) if _ends_sentence(text, end, small=small)]
    starts = [0, *(end.end() for end in ends)]
    stops = [*(end.end(2) for end in ends), len(text)]
    return list(_stripped(text, zip(starts, stops, strict=True)))


def half_spans(text: str) -> list[Span]:
    """Return a text in two parts, cut near its middle: after a clause, or else between words.

    A text without spaces is cut between two characters, one of a single character not at all.
    """
    middle, length = len(text) / 2, len(text)
    clauses = [match.end() for match in _CLAUSE.finditer(text)]
    inner = [at for at in clauses if length / 4 <= at <= 3 * length / 4]
    spaces = [match.start() for match in _SPACE.finditer(text.rstrip()) if match.start()]
    places = inner or spaces
    cut = min(places, key=lambda at: abs(at - middle)) if places else _between_letters(text)
    return list(_stripped(text, [(0, cut), (cut, length)]))


def has_no_spaces(character: str) -> bool:
    """Return whether a character is of a script that is written without spaces."""
    return _UNSPACED.fullmatch(character) is not None


def _stripped(text: str, spans: Iterable[Span]) -> Iterator[Span]:
    """Yield spans without white space at their ends; blank ones are left out."""
    for start, end in spans:
        part = text[start:end]
        if bare := part.strip():
            first = start + len(part) - len(part.lstrip())
            yield first, first + len(bare)


def _ends_sentence(text: str, end: re.Match[str], *, small: bool) -> bool:
    marks = end[1]
    if not _WIDE.isdisjoint(marks):
        return True
    if not end[3] or (not small and text[end.end() : end.end() + 1].islower()):
        return False
    return marks != "." or not _abbreviated(text[max(0, end.start() - _LONGEST_WORD) : end.start()])


def _abbreviated(before: str) -> bool:
    """Return whether the last word before a full stop is an abbreviation or a small number."""
    word = before.rsplit(maxsplit=1)[-1].lstrip("\"'“‘«‹([{") if before.strip() else ""
    return (
        (len(word) == 1 and word.isalpha())
        or (len(word) <= 2 and word.isdigit())
        or ("." in word and word.replace(".", "").isalpha())
        or word.casefold() in _ABBREVIATIONS
    )


def _between_letters(text: str) -> int:
    """Return the middle of a text, before which no letter is parted from its marks."""
    cut = len(text) // 2
    for at in range(cut, max(0, cut - _MARKS), -1):
        if not (
            unicodedata.category(text[at]) in ("Mn", "Me", "Mc", "Cf") or text[at - 1] == "\u200d"
        ):
            return at
    return cut
