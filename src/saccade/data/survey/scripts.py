"""Scripts of a text, from the Unicode names of its letters."""

import unicodedata
from collections import Counter
from collections.abc import Mapping

NAMES = {"CJK": "Han", "IDEOGRAPHIC": "Han", "KANGXI": "Han"}
"""Scripts by the first word of their letters' names, where the two differ."""
WIDTHS = ("FULLWIDTH", "HALFWIDTH")
OTHER = ("MATHEMATICAL", "MODIFIER", "SUPERSCRIPT", "SUBSCRIPT", "FEMININE", "MASCULINE", "MICRO")


def scripts_of(characters: Mapping[str, int]) -> dict[str, float]:
    """Return the fraction of letters in each script, most frequent first.

    Args:
        characters: The number of times each character occurs; only letters count.

    Example:
        >>> scripts_of(Counter("Москва 1"))
        {'Cyrillic': 1.0}
    """
    counts: Counter[str] = Counter()
    for character, count in characters.items():
        if character.isalpha():
            counts[_script(character)] += count
    total = counts.total()
    return {script: count / total for script, count in counts.most_common()}


def _script(letter: str) -> str:
    words = unicodedata.name(letter, "OTHER").split()
    if words[0] in WIDTHS and len(words) > 1:
        words = words[1:]
    if words[0] in OTHER:
        return "Other"
    return NAMES.get(words[0].partition("-")[0], words[0].partition("-")[0].title())
