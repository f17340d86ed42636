"""Letters in pictures: which fonts have them, how much room they take, and what none can show."""

import math
import textwrap
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache

import matplotlib as mpl
from matplotlib import ft2font
from matplotlib.font_manager import FontProperties, fontManager, get_font
from matplotlib.textpath import text_to_path

LONGEST_LABEL = 28  # letters; what is longer is shown without its middle
UNKNOWN = "\ufffd"  # stands for a letter that cannot be drawn

# fonts that are tried first where matplotlib's own lacks a letter; then all others by their names
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
_ON_PIXELS = 1.1  # letters may be so much wider where they are set to whole pixels
_RIGHT_TO_LEFT = {"R", "AL"}  # classes of letters: Hebrew and its like, Arabic and its like


def families(texts: Iterable[str]) -> list[str]:
    """Fonts for these texts: matplotlib's own, then the installed ones that have what it lacks."""
    further, _ = _cover(_letters(texts))
    return [*mpl.rcParams["font.family"], *further]


def undrawable(texts: Iterable[str]) -> frozenset[str]:
    """The letters that no installed font has."""
    _, missing = _cover(_letters(texts))
    return missing


def shaped_wrongly(texts: Iterable[str]) -> bool:
    """Whether letters run from right to left, or join, and matplotlib (before 3.11) cannot."""
    if hasattr(ft2font, "__libraqm_version__"):
        return False
    return any(
        unicodedata.bidirectional(letter) in _RIGHT_TO_LEFT or unicodedata.category(letter) == "Mc"
        for letter in _letters(texts)
    )


def inches(text: str, size: float) -> float:
    """The room for a line of letters of this size (in points)."""
    shown = text.translate(dict.fromkeys(map(ord, undrawable([text])), UNKNOWN))
    font = FontProperties(family=families([shown]), size=size)
    points = text_to_path.get_text_width_height_descent(shown, font, ismath=False)[0]
    return _ON_PIXELS * points / 72


def short(label: str, longest: int = LONGEST_LABEL) -> str:
    """A label on one line, without its middle if it is very long."""
    if width(label) > longest:
        label = _head(label, longest // 2) + "…" + _tail(label, longest - longest // 2 - 1)
    return plain(label.replace("\n", "↵"))


def wrapped(text: str, room: float, size: float) -> str:
    """A text in lines of at most this many inches."""
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
    """A text that matplotlib shows as it stands: `$` would start a formula."""
    return "".join(map(_visible, text)).replace("$", r"\$")


def width(label: str) -> int:
    """In letters; those of East Asian scripts are twice as wide, marks on letters add nothing."""
    return sum(map(_letter_width, label))


def _visible(letter: str) -> str:
    """Control characters, halves of surrogate pairs and empty code points fit in no picture."""
    strange = unicodedata.category(letter) in {"Cc", "Cs", "Cn"} and letter != "\n"
    return UNKNOWN if strange else letter


def _letter_width(letter: str) -> int:
    if unicodedata.category(letter) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def _head(label: str, longest: int) -> str:
    """Its beginning, up to this width, with all marks on the last letter."""
    return "".join(_up_to(label, longest))


def _tail(label: str, longest: int) -> str:
    """Its end, up to this width, which begins with no mark."""
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
    """Those that leave a trace: no spaces, no signs that only steer others."""
    return frozenset(
        letter
        for letter in set().union(*texts)
        if unicodedata.category(letter) not in {"Zs", "Zl", "Zp", "Cf", "Cc", "Cs"}
        and not unicodedata.name(letter, "").startswith("VARIATION SELECTOR")
    )


@lru_cache(maxsize=1024)
def _cover(letters: frozenset[str]) -> tuple[tuple[str, ...], frozenset[str]]:
    """Fonts that together have the letters which matplotlib's own lacks, and what none has."""
    missing = letters - _had(letters, fontManager.findfont(FontProperties()))
    found = []
    for name, path in _installed() if missing else ():
        had = _had(missing, path)
        if had:
            found.append(name)
            missing -= had
        if not missing:
            break
    return tuple(found), missing


def _had(letters: frozenset[str], path: str) -> frozenset[str]:
    font = get_font(path)
    return frozenset(letter for letter in letters if font.get_char_index(ord(letter)))


@lru_cache(maxsize=1)
def _installed() -> tuple[tuple[str, str], ...]:
    """The names and files of upright fonts, in the order in which they are tried."""
    fonts = {font.name: font.fname for font in fontManager.ttflist if font.style == "normal"}
    fonts.pop(_LAST_RESORT, None)
    first = [name for name in _FURTHER_FONTS if name in fonts]
    return tuple((name, fonts[name]) for name in dict.fromkeys([*first, *sorted(fonts)]))
