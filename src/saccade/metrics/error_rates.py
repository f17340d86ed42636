"""Exact match and error rates, as fractions.

    exact_match            items whose answer equals a reference, outer white space aside
    character_error_rate   edits of characters / characters of the reference
    phoneme_error_rate     edits of phonemes / phonemes of the reference
    word_error_rate        items (dictionary words) whose phonemes equal those of no reference
    word_edit_rate         edits of words / words of the reference

"Word error rate" has two meanings. For pronunciation it is the share of words that are wrong; that
is `word_error_rate` here. In speech recognition it is the number of word edits over the number of
words; that is `word_edit_rate` here.

Where an item has several references, the closest one counts; of equally close ones the longest, so
the order of references means nothing. The edits of all items are divided by the lengths of all, not
averaged item by item; a rate may exceed 1 where answers are too long. Without any reference symbol
the rate is 0 if nothing was answered and 1 if something was. Phonemes and words are what white
space separates; characters are code points, compared as they stand (no Unicode normalisation).
"""

import re
from collections.abc import Callable, Hashable, Sequence

import numpy as np
from jaxtyping import Float
from rapidfuzz.distance import Levenshtein

from saccade.metrics.score import Tally, require_items, scored, signature_of

_Symbols = Sequence[Hashable]
_STRESSED = re.compile(r"^([A-Za-z]+)[012]$")  # ARPAbet: AH0
_STRESS_MARKS = str.maketrans("", "", "ˈˌ")  # IPA


def exact_match_tally(
    answers: Sequence[str], references: Sequence[Sequence[str]], *, lowercase: bool = False
) -> Tally:
    """1 for each item whose answer equals one of its references."""
    prepare = _characters(lowercase=lowercase)
    return _equality("exact_match", answers, references, prepare, _case(lowercase=lowercase))


def word_error_rate_tally(
    answers: Sequence[str], references: Sequence[Sequence[str]], *, stress: bool = True
) -> Tally:
    """1 for each word whose phonemes equal those of no reference: pronunciation's WER.

    `stress=False` takes the stress off both sides first (AH0 becomes AH).
    """
    prepare = _phonemes(stress=stress)
    return _equality("word_error_rate", answers, references, prepare, _stress(stress=stress))


def character_error_rate_tally(
    answers: Sequence[str], references: Sequence[Sequence[str]], *, lowercase: bool = False
) -> Tally:
    """Edits and reference characters of each item."""
    prepare, options = _characters(lowercase=lowercase), _case(lowercase=lowercase)
    return _edits("character_error_rate", answers, references, prepare, options)


def word_edit_rate_tally(
    answers: Sequence[str], references: Sequence[Sequence[str]], *, lowercase: bool = False
) -> Tally:
    """Edits and reference words of each item: speech recognition's WER."""

    def prepare(text: str) -> _Symbols:
        return _lowered(text, lowercase=lowercase).split()

    return _edits("word_edit_rate", answers, references, prepare, _case(lowercase=lowercase))


def phoneme_error_rate_tally(
    answers: Sequence[str], references: Sequence[Sequence[str]], *, stress: bool = True
) -> Tally:
    """Edits and reference phonemes of each item; `stress` as above."""
    prepare, options = _phonemes(stress=stress), _stress(stress=stress)
    return _edits("phoneme_error_rate", answers, references, prepare, options)


exact_match = scored(exact_match_tally)
word_error_rate = scored(word_error_rate_tally)
character_error_rate = scored(character_error_rate_tally)
word_edit_rate = scored(word_edit_rate_tally)
phoneme_error_rate = scored(phoneme_error_rate_tally)


def without_stress(phonemes: str) -> str:
    """The phonemes without ARPAbet's stress digits and the stress marks of IPA.

    >>> without_stress("AH0 B AW1 T")
    'AH B AW T'
    """
    return " ".join(_STRESSED.sub(r"\1", p) for p in phonemes.translate(_STRESS_MARKS).split())


def _equality(
    name: str,
    answers: Sequence[str],
    references: Sequence[Sequence[str]],
    prepare: Callable[[str], _Symbols],
    options: str,
) -> Tally:
    """Of right items or of wrong ones, by the name; each item counts 1 in the denominator."""
    require_items(answers, references)
    wanted = name == "exact_match"
    counts = []
    for answer, of_item in zip(answers, references, strict=True):
        given = prepare(answer)
        equal = any(given == prepare(reference) for reference in of_item)
        counts.append((float(equal == wanted), 1.0))
    return _rate(name, counts, references, options, higher_is_better=wanted)


def _edits(
    name: str,
    answers: Sequence[str],
    references: Sequence[Sequence[str]],
    prepare: Callable[[str], _Symbols],
    options: str,
) -> Tally:
    """Of edits to the closest reference, and its length."""
    require_items(answers, references)
    counts = []
    for answer, of_item in zip(answers, references, strict=True):
        given = prepare(answer)
        wanted = [prepare(reference) for reference in of_item]
        edits, length = min((Levenshtein.distance(given, one), -len(one)) for one in wanted)
        counts.append((float(edits), float(-length)))
    return _rate(name, counts, references, options, higher_is_better=False)


def _rate(
    name: str,
    counts: list[tuple[float, float]],
    references: Sequence[Sequence[str]],
    options: str,
    *,
    higher_is_better: bool,
) -> Tally:
    numbers = {len(of_item) for of_item in references}
    return Tally(
        name=name,
        counts=np.array(counts, dtype=np.float64),
        value=_ratio,
        signature=signature_of(options, numbers.pop() if len(numbers) == 1 else "var"),
        higher_is_better=higher_is_better,
    )


def _ratio(sums: Float[np.ndarray, " numbers"]) -> float:
    part, whole = sums.tolist()
    return part / whole if whole else float(part > 0)


def _characters(*, lowercase: bool) -> Callable[[str], _Symbols]:
    return lambda text: _lowered(text, lowercase=lowercase).strip()


def _phonemes(*, stress: bool) -> Callable[[str], _Symbols]:
    return lambda text: (text if stress else without_stress(text)).split()


def _lowered(text: str, *, lowercase: bool) -> str:
    return text.lower() if lowercase else text


def _case(*, lowercase: bool) -> str:
    return f"case:{'lc' if lowercase else 'mixed'}"


def _stress(*, stress: bool) -> str:
    return f"stress:{'yes' if stress else 'no'}"
