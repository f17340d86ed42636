"""The CMU Pronouncing Dictionary: English words and their phonemes, without stress.

It comes with the BSD-licensed package pocketsphinx, of which only this one file is read.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from saccade.data.builtin._shared import package_file, split_by_hash

DESCRIPTION = "English words and their phonemes (hello → HH AH L OW), 134 000 pairs"
COLUMNS = ("source", "target")
INSIDE = Path("model") / "en-us" / "cmudict-en-us.dict"
ENTRY = re.compile(r"([a-z']+)(?:\(\d+\))? ([A-Z]+(?: [A-Z]+)*)")


def rows(split: str) -> Iterator[tuple[str, ...]]:
    """Yield words and phonemes, 5 % each for valid and test; one row per pronunciation.

    All pronunciations of a word fall into the same split.
    """
    path = package_file("pronounce", "pocketsphinx", "pocketsphinx", INSIDE)
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            entry = ENTRY.fullmatch(line.rstrip("\n"))
            if entry and split_by_hash(entry[1].encode(), test=5, valid=5) == split:
                yield entry[1], entry[2]
