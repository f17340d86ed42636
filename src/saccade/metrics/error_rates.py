"""Exact match and error rates, as fractions.

    exact_match            items whose prediction equals a reference, apart from outer white space
    character_error_rate   edits of characters / characters of the reference
    phoneme_error_rate     edits of phonemes / phonemes of the reference
    word_error_rate        items (dictionary words) whose phonemes equal no reference
    word_edit_rate         edits of words / words of the reference

"Word error rate" has two meanings. For pronunciation it is the fraction of wrong words:
`word_error_rate` here. In speech recognition it is the number of word edits per word:
`word_edit_rate` here.

Edits are insertions, deletions and replacements (Levenshtein 1966). Where an item has several
references, the closest counts, and of equally close ones the longest, so their order does not
matter. The edits of all items are divided by the lengths of all references; a rate may exceed 1 if
predictions are too long. Without any reference symbol the rate is 0 if nothing was predicted, and 1
otherwise. Phonemes and words are separated by white space; characters are code points, without
Unicode normalisation.
"""

import re
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from rapidfuzz.distance import Levenshtein

from saccade.metrics.score import Tally, require_items, scored, signature_of

_STRESSED = re.compile(r"^([A-Za-z]+)[012]$")  # ARPAbet: AH0
_STRESS_MARKS = str.maketrans("", "", "ˈˌ")  # IPA


class _Unit(NamedTuple):
    """The symbols that are compared: how a text is split into them, and the signature of that."""

    split: Callable[[str], Sequence[Hashable]]
    options: str


def exact_match_tally(
    predictions: Sequence[str], references: Sequence[Sequence[str]], *, lowercase: bool = False
) -> Tally:
    """The fraction of items whose prediction equals one of its references.

    Args:
        predictions: One text per item.
        references: One list of texts per item.
        lowercase: Whether to ignore case.
    """
    return _equality("exact_match", predictions, references, _characters(lowercase=lowercase))


def word_error_rate_tally(
    predictions: Sequence[str], references: Sequence[Sequence[str]], *, stress: bool = True
) -> Tally:
    """The fraction of words whose phonemes equal no reference: the WER of pronunciation.

    Args:
        predictions: One sequence of phonemes per word, separated by spaces.
        references: One list of such sequences per word.
        stress: Whether stress counts; if not, AH0 equals AH.
    """
    return _equality("word_error_rate", predictions, references, _phonemes(stress=stress))


def character_error_rate_tally(
    predictions: Sequence[str], references: Sequence[Sequence[str]], *, lowercase: bool = False
) -> Tally:
    """Character edits per character of the references.

    Args:
        predictions: One text per item.
        references: One list of texts per item.
        lowercase: Whether to ignore case.
    """
    return _edits("character_error_rate", predictions, references, _characters(lowercase=lowercase))


def word_edit_rate_tally(
    predictions: Sequence[str], references: Sequence[Sequence[str]], *, lowercase: bool = False
) -> Tally:
    """Word edits per word of the references: the WER of speech recognition.

    Args:
        predictions: One text per item.
        references: One list of texts per item.
        lowercase: Whether to ignore case.
    """
    return _edits("word_edit_rate", predictions, references, _words(lowercase=lowercase))


def phoneme_error_rate_tally(
    predictions: Sequence[str], references: Sequence[Sequence[str]], *, stress: bool = True
) -> Tally:
    """Phoneme edits per phoneme of the references.

    Args:
        predictions: One sequence of phonemes per word, separated by spaces.
        references: One list of such sequences per word.
        stress: Whether stress counts; if not, AH0 equals AH.
    """
    return _edits("phoneme_error_rate", predictions, references, _phonemes(stress=stress))


exact_match = scored(exact_match_tally)
word_error_rate = scored(word_error_rate_tally)
character_error_rate = scored(character_error_rate_tally)
word_edit_rate = scored(word_edit_rate_tally)
phoneme_error_rate = scored(phoneme_error_rate_tally)


def without_stress(phonemes: str) -> str:
    """Remove the stress digits of ARPAbet and the stress marks of IPA.

    >>> without_stress("AH0 B AW1 T")
    'AH B AW T'
    """
    return " ".join(_STRESSED.sub(r"\1", p) for p in phonemes.translate(_STRESS_MARKS).split())


def _equality(
    name: str, predictions: Sequence[str], references: Sequence[Sequence[str]], unit: _Unit
) -> Tally:
    """Count right items for exact match, wrong items for an error rate."""
    require_items(predictions, references)
    match = name == "exact_match"
    counts = []
    for prediction, of_item in zip(predictions, references, strict=True):
        symbols = unit.split(prediction)
        equal = any(symbols == unit.split(reference) for reference in of_item)
        counts.append((float(equal == match), 1.0))
    signature = signature_of(unit.options, references)
    return Tally(name=name, counts=np.array(counts), signature=signature, higher_is_better=match)


def _edits(
    name: str, predictions: Sequence[str], references: Sequence[Sequence[str]], unit: _Unit
) -> Tally:
    """Count the edits to the closest reference, and its length."""
    require_items(predictions, references)
    counts = []
    for prediction, of_item in zip(predictions, references, strict=True):
        symbols = unit.split(prediction)
        targets = [unit.split(reference) for reference in of_item]
        edits, length = min((Levenshtein.distance(symbols, one), -len(one)) for one in targets)
        counts.append((float(edits), float(-length)))
    return Tally(
        name=name,
        counts=np.array(counts),
        value=_rate,
        signature=signature_of(unit.options, references),
        higher_is_better=False,
    )


def _rate(sums: Float[np.ndarray, " numbers"]) -> float:
    edits, length = sums.tolist()
    return edits / length if length else float(edits > 0)


def _characters(*, lowercase: bool) -> _Unit:
    return _Unit(lambda text: _cased(text, lowercase).strip(), _case(lowercase=lowercase))


def _words(*, lowercase: bool) -> _Unit:
    return _Unit(lambda text: _cased(text, lowercase).split(), _case(lowercase=lowercase))


def _phonemes(*, stress: bool) -> _Unit:
    options = f"stress:{'yes' if stress else 'no'}"
    return _Unit(lambda text: (text if stress else without_stress(text)).split(), options)


def _cased(text: str, lowercase: bool) -> str:  # noqa: FBT001
    return text.lower() if lowercase else text


def _case(*, lowercase: bool) -> str:
    return f"case:{'lc' if lowercase else 'mixed'}"
