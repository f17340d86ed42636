"""The gold alignments of an evaluation: of a file of their own, or of a column of the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from saccade.data.corpus import Item, Row, Split
from saccade.data.sources.columns import Column
from saccade.data.sources.text_files import read_lines
from saccade.errors import DataError, MetricError
from saccade.lens.alignment.extraction import word_spans
from saccade.lens.alignment.gold import Gold, read_gold

ALIGNMENT = Column("alignment", ("alignments", "links"), required=False)


@dataclass(frozen=True, kw_only=True)
class GoldFile:
    """A file of gold alignments, in the order of the rows of the data.

    first     what the numbers in it count from
    swapped   whether it names the word of the target first
    """

    path: Path
    first: Literal[0, 1] = 0
    swapped: bool = False


def golds_of(split: Split, items: Sequence[Item], file: GoldFile | None) -> list[Gold] | None:
    """The gold of each item, that of the first row which asks it: from the file, or if there is
    none from the column `alignment` of the split; None where there is neither.
    """
    rows = list(split)
    if file is not None:
        found = _of_file(file, rows)
    elif ALIGNMENT.name in split.columns:
        found = [_of_row(row) for row in rows]
    else:
        return None
    first: dict[str, int] = {}
    for number, row in enumerate(rows):
        first.setdefault(row.values[0], number)
    return [found[first[item.inputs[0]]] for item in items]


def _of_file(file: GoldFile, rows: Sequence[Row]) -> list[Gold]:
    if not file.path.is_file():
        raise DataError(f"there is no file {file.path} of gold alignments")
    lines = read_lines(file.path)
    try:
        found = read_gold(lines, count=len(rows), first=file.first, swapped=file.swapped)
    except MetricError as error:
        raise DataError(f"{file.path}: {error}") from None
    for gold, row in zip(found, rows, strict=True):
        _require_words(gold, row, f"{file.path} for {row.where}")
    return found


def _of_row(row: Row) -> Gold:
    try:
        [gold] = read_gold([row.values[-1]], count=1)
    except MetricError as error:
        raise DataError(f"{row.where}: {error}") from None
    _require_words(gold, row, row.where)
    return gold


def _require_words(gold: Gold, row: Row, where: str) -> None:
    """Links are between words that are there."""
    counts = [len(word_spans(text)) for text in row.values[:2]]
    for source, target in sorted(gold.sure | gold.possible):
        if source >= counts[0] or target >= counts[1]:
            raise DataError(
                f"{where}: gold links word {source} of the source with word {target} of the "
                f"target, counted from 0, but there are {counts[0]} and {counts[1]} words; is it "
                "of other data, counted from 1 (--gold-from-1) or swapped (--gold-swapped)?"
            )
