"""Fonts that have the letters of a text, and the width of texts, for every script."""

import math
import textwrap
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache

import matplotlib as mpl
from matplotlib import ft2font
from matplotlib.font_manager import FontProperties, fontManager, get_font
from matplotlib.textpath import text_to_path

LONGEST_LABEL = 28  # letters; longer labels are shown without their middle
UNKNOWN = "\ufffd"  # stands for a letter that cannot be drawn

# tried first if matplotlib's own font lacks a letter; then all others in the order of their names
_FURTHER_FONTS = (
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "WenQuanYi Zen Hei",
    "Droid Sans Fallback",
    "Hiragino Sans GB",
    "Microsoft YaHei",
    "Noto Sans Devanagari",
    "Arial Unicode MS",
)
_LAST_RESORT = "Last Resort High-Efficiency"  # matplotlib's font of boxes, one for each script
_PIXEL_ROUNDING = 1.1  # letters may be wider by this factor when they are set to pixels
_RIGHT_TO_LEFT = {"R", "AL"}  # bidirectional classes of Unicode, such as Hebrew and Arabic


def families(texts: Iterable[str]) -> list[str]:
    """Return fonts for these texts: matplotlib's own, then others that have what it lacks."""
    further, _ = _cover(_letters(texts))
    return [*mpl.rcParams["font.family"], *further]


def undrawable(texts: Iterable[str]) -> frozenset[str]:
    """Return the letters that no installed font has."""
    _, missing = _cover(_letters(texts))
    return missing


def shaped_wrongly(texts: Iterable[str]) -> bool:
    """Return whether matplotlib (before 3.11) would fail to order or join these letters."""
    if hasattr(ft2font, "__libraqm_version__"):
        return False
    return any(
        unicodedata.bidirectional(letter) in _RIGHT_TO_LEFT or unicodedata.category(letter) == "Mc"
        for letter in _letters(texts)
    )


def inches(text: str, size: float) -> float:
    """Return the width in inches of a line of letters of this size in points."""
    shown = text.translate(dict.fromkeys(map(ord, undrawable([text])), UNKNOWN))
    font = FontProperties(family=families([shown]), size=size)
    points = text_to_path.get_text_width_height_descent(shown, font, ismath=False)[0]
    return _PIXEL_ROUNDING * points / 72


def short(label: str, longest: int = LONGEST_LABEL) -> str:
    """Return a label on one line, without its middle if it is too long."""
    if width(label) > longest:
        label = _head(label, longest // 2) + "…" + _tail(label, longest - longest // 2 - 1)
    return plain(label.replace("\n", "↵"))


def wrapped(text: str, room: float, size: float) -> str:
    """Return a text in lines of at most this many inches."""
    shown = plain(text)
    parts = max(1, math.ceil(inches(shown.replace("\n", " "), size) / max(room, 0.5)))
    letters = max(len(shown) // parts, 1)
    while parts > 1 and letters > 1:
        shown = textwrap.fill(plain(text), letters)
        if max(inches(line, size) for line in shown.splitlines()) <= room:
            break
        letters -= 1
    return shown


def plain(text: str) -> str:
    """Return a text that matplotlib shows unchanged: an unescaped `$` would start a formula."""
    return "".join(map(_visible, text)).replace("$", r"\$")


def width(label: str) -> int:
    """Return the width in letters: East Asian letters count twice, combining marks not at all."""
    return sum(map(_letter_width, label))


def _visible(letter: str) -> str:
    """Replace control characters, lone surrogates and unassigned code points."""
    invisible = unicodedata.category(letter) in {"Cc", "Cs", "Cn"} and letter != "\n"
    return UNKNOWN if invisible else letter


def _letter_width(letter: str) -> int:
    if unicodedata.category(letter) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def _head(label: str, longest: int) -> str:
    """Return the start of a label, up to this width, with all marks on its last letter."""
    return "".join(_up_to(label, longest))


def _tail(label: str, longest: int) -> str:
    """Return the end of a label, up to this width, which does not start with a mark."""
    end = "".join(_up_to(label[::-1], longest))[::-1]
    marks = next((i for i, letter in enumerate(end) if _letter_width(letter)), len(end))
    return end[marks:]


def _up_to(letters: Iterable[str], longest: int) -> Iterator[str]:
    used = 0
    for letter in letters:
        used += _letter_width(letter)
        if used > longest:
            return
        yield letter


def _letters(texts: Iterable[str]) -> frozenset[str]:
    """Return the letters that need a glyph: no spaces, no control characters."""
    return frozenset(
        letter
        for letter in set().union(*texts)
        if unicodedata.category(letter) not in {"Zs", "Zl", "Zp", "Cf", "Cc", "Cs"}
        and not unicodedata.name(letter, "").startswith("VARIATION SELECTOR")
    )


@lru_cache(maxsize=1024)
def _cover(letters: frozenset[str]) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return fonts that have the letters matplotlib's own font lacks, and what none has."""
    missing = letters - _had(letters, fontManager.findfont(FontProperties()))
    fonts = []
    for name, path in _installed() if missing else ():
        had = _had(missing, path)
        if had:
            fonts.append(name)
            missing -= had
        if not missing:
            break
    return tuple(fonts), missing


def _had(letters: frozenset[str], path: str) -> frozenset[str]:
    font = get_font(path)
    return frozenset(letter for letter in letters if font.get_char_index(ord(letter)))


@lru_cache(maxsize=1)
def _installed() -> tuple[tuple[str, str], ...]:
    """Return the names and files of upright fonts, in the order in which they are tried."""
    fonts = {font.name: font.fname for font in fontManager.ttflist if font.style == "normal"}
    fonts.pop(_LAST_RESORT, None)
    first = [name for name in _FURTHER_FONTS if name in fonts]
    return tuple((name, fonts[name]) for name in dict.fromkeys([*first, *sorted(fonts)]))
