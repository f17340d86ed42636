"""The CMU Pronouncing Dictionary: how English words are spoken, in phonemes without stress.

It comes with the BSD-licensed package pocketsphinx, of which only this file is read.
"""

import hashlib
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

from saccade.data.sources.text_files import read_lines
from saccade.errors import DataError

DESCRIPTION = "English words and how they are spoken (hello → HH AH L OW), 134 000 pairs"
COLUMNS = ("source", "target")
INSIDE = Path("model") / "en-us" / "cmudict-en-us.dict"
ENTRY = re.compile(r"([a-z']+)(?:\(\d+\))? ([A-Z]+(?: [A-Z]+)*)")


def rows(split: str) -> Iterator[tuple[str, ...]]:
    """Words of letters and apostrophes; a further pronunciation is a further row of its word."""
    for line in read_lines(_dictionary()):
        entry = ENTRY.fullmatch(line)
        if entry and _split_of(entry[1]) == split:
            yield entry[1], entry[2]


def _split_of(word: str) -> str:
    """By a hash of the word: 5 in 100 for test, 5 for validation."""
    place = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big") % 100
    return "test" if place < 5 else "valid" if place < 10 else "train"


def _dictionary() -> Path:
    """Found without importing the package, whose program is not needed."""
    package = importlib.util.find_spec("pocketsphinx")
    if package is None or not package.submodule_search_locations:
        raise DataError(
            "builtin:pronounce reads the dictionary that comes with the package pocketsphinx: "
            'pip install "saccade[demo]"'
        )
    path = Path(package.submodule_search_locations[0]) / INSIDE
    if not path.is_file():
        raise DataError(f"builtin:pronounce: this version of pocketsphinx has no {path}")
    return path
