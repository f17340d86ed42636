"""Read a corpus once and survey it.

Only two 64-bit hashes are kept of each row, one of its input and one of all its columns, so a file
of a million lines takes 16 MB. Rows are compared without regard to spaces at the ends of a text or
repeated spaces between words. Images are compared by their content.
"""

import hashlib
import math
import os
from array import array
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from saccade.data import builtin
from saccade.data.corpus import Corpus, Row, Split
from saccade.data.sources.archives import is_idx, locate, read_bytes
from saccade.data.sources.columns import Column, split_elements
from saccade.data.sources.images import decode_image, image_header, read_image
from saccade.data.sources.vectors import is_inline, read_vectors, wrong_width
from saccade.data.survey.facts import (
    FEW,
    Fault,
    Images,
    LabelFacts,
    Leak,
    Lengths,
    SplitSurvey,
    Survey,
    VectorFacts,
    quantile,
)
from saccade.data.survey.scripts import scripts_of
from saccade.data.threads import in_threads
from saccade.errors import BrokenImagesError, BrokenRowsError, DataError

Progress = Callable[[int], None]
Hashes = npt.NDArray[np.int64]

LEARNED = ("train", "valid")
"""The splits whose labels a model knows."""
SHOWN = 3
"""Maximum number of places kept per fault."""
SCRIPT_ROWS = 20_000
"""Maximum number of rows of a split whose letters are counted."""
MOST_LABELS = 10_000
"""Maximum number of different labels that are counted."""
_MISSING = """
NaN nan NAN NULL null None N/A n/a #N/A <NA> NaT
"""
MISSING = frozenset(_MISSING.split())
"""Texts that programs write for a missing value; words such as "none" may be labels."""
GREY = 4
"""Maximum difference between the channels of a grey pixel, since JPEG rounds."""
REPORTED = 500
"""Number of rows between two calls of `progress`."""


def survey(
    corpus: Corpus,
    columns: Sequence[Column],
    *,
    separator: str | None = None,
    most: int | None = None,
    open_images: bool = True,
    progress: Progress | None = None,
) -> Survey:
    """Read the rows of a corpus and return the facts about them.

    Broken rows are reported. A damaged file ends the reading of its split; a training set of which
    not even one row can be read raises its error.

    Args:
        corpus: The corpus.
        columns: The columns it was opened with: one with `numbers` holds labels, one with `image`
            or `vectors` names files, the others hold text.
        separator: The text between several labels of one row; None if a row has one.
        most: Maximum number of rows to read of each split. Default: all.
        open_images: Whether to decode the images, or to read the vectors, in threads.
        progress: Called regularly with the number of rows read so far.

    Example:
        >>> from saccade.data.sources import open_corpus
        >>> columns = [Column("source"), Column("target")]
        >>> facts = survey(open_corpus("builtin:copy", columns), columns, most=100)
        >>> facts.splits["train"].lengths["source"].longest_word
        1
    """
    readers = {
        name: _Reader(split, columns, separator, most, open_images=open_images)
        for name, split in corpus.splits.items()
    }
    done = 0
    for reader in readers.values():
        reader.read(progress and partial(_continued, progress, done))
        done += reader.rows
    return Survey(
        splits=_with_unknown_labels({name: reader.facts() for name, reader in readers.items()}),
        leaks=tuple(_leaks(readers)),
    )


def _with_unknown_labels(splits: dict[str, SplitSurvey]) -> dict[str, SplitSurvey]:
    """Return the facts with the labels of other splits that training and validation lack."""
    labels = {name: facts.labels for name, facts in splits.items() if facts.labels is not None}
    known = {label for name in LEARNED if name in labels for label in labels[name].counts}
    if not known:
        return splits
    table = dict(splits)
    for name in labels.keys() - set(LEARNED):
        unknown = tuple(label for label in labels[name].counts if label not in known)
        table[name] = replace(table[name], labels=replace(labels[name], unknown=unknown))
    return table


def _continued(progress: Progress, done: int, count: int) -> None:
    progress(done + count)


def is_blank(row: Row) -> bool:
    """Return whether a column of a row is empty."""
    return any(not value or value.isspace() for value in row.values)


class ImageFacts(NamedTuple):
    """Size (width, height), Pillow mode, colour and content hash of an image."""

    size: tuple[int, int]
    mode: str
    grey: bool
    digest: str


def image_facts(where: str) -> ImageFacts | DataError:
    """Decode an image; return the facts about it, or why it cannot be decoded."""
    try:
        inner = locate(where)
        if where.startswith(builtin.PREFIX) or (inner[1] and is_idx(inner[0])):
            image = read_image(where)
            mode = "L" if is_idx(inner[0]) else image.mode
            return ImageFacts(image.size, mode, _is_grey(image), _digest(image.tobytes()))
        data = read_bytes(where)
        size, mode = image_header(data, where)
        return ImageFacts(size, mode, _is_grey(decode_image(data, where)), _digest(data))
    except DataError as error:
        return error
    except OSError as error:
        return DataError(
            f"{where} cannot be read: {error.strerror or error}; check its permissions"
        )


class SequenceFacts(NamedTuple):
    """Length, width and content hash of a sequence of vectors."""

    steps: int
    width: int
    digest: str


def sequence_facts(where: str) -> SequenceFacts | DataError:
    """Read vectors; return the facts about them, or why they cannot be read."""
    try:
        vectors = read_vectors(where)
    except DataError as error:
        return error
    steps, width = vectors.shape
    return SequenceFacts(steps, width, _digest(vectors.tobytes()))


def _is_grey(image: Image.Image) -> bool:
    """Return whether a sample of the pixels of an RGB image has no colour."""
    pixels = np.asarray(image.resize((32, 32), Image.Resampling.NEAREST), np.int16)
    return int(np.ptp(pixels, axis=-1).max()) <= GREY


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


OpenedFile = ImageFacts | SequenceFacts | DataError | None
"""Facts about a file, the reason why it cannot be read, or None if it was not opened."""


class _TextColumn:
    """Counts of the texts in a column."""

    def __init__(self) -> None:
        self.words: Counter[int] = Counter()
        self.characters: Counter[int] = Counter()
        self.letters: Counter[str] = Counter()
        self.vocabulary: set[str] = set()
        self.longest_word = 0

    def add(self, text: str, words: list[str], *, letters: bool) -> None:
        self.words[len(words)] += 1
        self.characters[len(text)] += 1
        if letters:
            self.letters.update(text)
        if len(self.vocabulary) <= FEW:
            self.vocabulary.update(words)
            self.longest_word = max(self.longest_word, *map(len, words))

    def lengths(self) -> Lengths:
        few = len(self.vocabulary) <= FEW
        vocabulary = frozenset(self.vocabulary) if few else None
        return Lengths.of(self.words, self.characters, vocabulary, self.longest_word)


class _LabelColumn:
    """Counts of labels as written; numbers are also summed.

    Args:
        separator: The text between several labels of one row; None if a row has one.
        tags: Whether a row has one label per word.
    """

    def __init__(self, separator: str | None, *, tags: bool = False) -> None:
        self.separator, self.tags = separator, tags
        self.counts: Counter[str] = Counter()
        self.too_many = False
        self.numbers, self.fractions, self.rows = True, False, 0
        self.low, self.sum, self.high = np.inf, 0.0, -np.inf
        self.finite, self.missing = 0, list[str]()

    def add(self, text: str, where: str) -> None:
        if self.tags:
            elements = split_elements(text)
            self.rows += len(elements)
            self.counts.update(elements)
            self.numbers, self.too_many = False, len(self.counts) > MOST_LABELS
            return
        self.rows += 1
        if text.strip() in MISSING:
            self.missing.append(f"{where}: {text.strip()}")
        if self.separator:
            self.counts.update(part for part in text.split(self.separator) if part.strip())
            self.numbers = False
            return
        if len(self.counts) <= MOST_LABELS:
            self.counts[text] += 1
        else:
            self.too_many |= text not in self.counts
        if self.numbers:
            self._add_number(text)

    def _add_number(self, text: str) -> None:
        try:
            value = float(text)
        except ValueError:
            self.numbers = False
            return
        if not math.isfinite(value):
            return
        self.finite += 1
        self.fractions |= not value.is_integer()
        self.low, self.high = min(self.low, value), max(self.high, value)
        self.sum += value

    def facts(self) -> LabelFacts | None:
        if not self.rows:
            return None
        missing = Fault(len(self.missing), tuple(self.missing))
        if self.numbers and self.fractions:
            numbers = (self.low, self.sum / self.finite, self.high)
            return LabelFacts(kind="numbers", range=numbers, missing=missing)
        if self.too_many:
            return LabelFacts(kind="classes", missing=missing)
        classes: Counter[str] = Counter()
        spellings: dict[str, Counter[str]] = {}
        for label, count in self.counts.items():
            classes[label.strip()] += count
            key = " ".join(label.split()).casefold()
            spellings.setdefault(key, Counter())[label] += count
        ordered = dict(classes.most_common())
        rows = list(ordered.values())
        groups = [group for group in spellings.values() if len(group) > 1]
        return LabelFacts(
            kind="classes",
            missing=missing,
            unit="word" if self.tags else "row",
            counts=ordered,
            imbalance=rows[0] / rows[-1],
            largest=rows[0] / self.rows,
            single=tuple(label for label, count in ordered.items() if count == 1),
            variants=tuple(tuple(group.most_common()) for group in groups),
        )


class _ImageColumn:
    """Counts of the images; an image that several rows name counts once."""

    def __init__(self) -> None:
        self.names: set[int] = set()
        self.sizes: Counter[tuple[int, int]] = Counter()
        self.modes: Counter[str] = Counter()
        self.grey = True
        self.broken: list[str] = []

    def add(self, name: str, image: ImageFacts | DataError, row: Row) -> None:
        if hash(name) in self.names:
            return
        self.names.add(hash(name))
        if isinstance(image, DataError):
            self.broken.append(row.located(str(image)))
        else:
            self.sizes[image.size] += 1
            self.modes[image.mode] += 1
            self.grey &= image.grey

    def facts(self) -> Images:
        broken = Fault(len(self.broken), tuple(self.broken))
        sizes = self.sizes or Counter({(0, 0): 1})
        ordered = sorted(sizes, key=lambda size: size[0] * size[1])
        width = quantile(_side(sizes, 0), 0.5)
        height = quantile(_side(sizes, 1), 0.5)
        return Images(
            count=len(self.names),
            sizes={f"{w} × {h}": count for (w, h), count in self.sizes.most_common(5)},
            smallest=ordered[0],
            median=(width, height),
            largest=ordered[-1],
            modes=dict(self.modes.most_common()),
            grey=self.grey,
            broken=broken,
        )


class _VectorColumn:
    """Counts of the sequences of vectors; one that several rows name counts once."""

    def __init__(self) -> None:
        self.names: set[int] = set()
        self.steps: Counter[int] = Counter()
        self.widths: Counter[int] = Counter()
        self.rows: dict[int, list[tuple[str, Row]]] = {}
        """The first names and rows with vectors of each width."""
        self.broken: list[str] = []

    def add(self, name: str, vectors: SequenceFacts | DataError, row: Row) -> None:
        if hash(name) in self.names:
            return
        self.names.add(hash(name))
        if isinstance(vectors, DataError):
            self.broken.append(row.located(str(vectors)))
            return
        self.steps[vectors.steps] += 1
        self.widths[vectors.width] += 1
        rows = self.rows.setdefault(vectors.width, [])
        if len(rows) < SHOWN:
            rows.append((name, row))

    def facts(self) -> VectorFacts:
        widths = dict(self.widths.most_common())
        others = list(widths)[1:]
        faults = [
            row.located(wrong_width(name, width, next(iter(widths))))
            for width in others
            for name, row in self.rows[width]
        ]
        count = len(self.broken) + sum(widths[width] for width in others)
        broken = Fault(count, (*self.broken, *faults))
        return VectorFacts(count=len(self.names), widths=widths, broken=broken)


def _side(sizes: Counter[tuple[int, int]], side: int) -> Counter[int]:
    counts: Counter[int] = Counter()
    for size, count in sizes.items():
        counts[size[side]] += count
    return counts


@dataclass(frozen=True)
class _Repeats:
    """Positions of rows that repeat an earlier row of the split, with the position of that row."""

    count: int
    pairs: tuple[tuple[int, int], ...]


class _Reader:
    """Reader of one split."""

    def __init__(
        self,
        split: Split,
        columns: Sequence[Column],
        separator: str | None,
        most: int | None,
        *,
        open_images: bool,
    ) -> None:
        self.split, self.most = split, most
        by_name = {column.name: column for column in columns}
        kinds = [by_name[name] for name in split.columns]
        self.file = next((i for i, column in enumerate(kinds) if column.names_files), None)
        self.has_vectors = self.file is not None and kinds[self.file].vectors
        self.label = next((i for i, column in enumerate(kinds) if column.numbers), None)
        self.inputs = slice(0, max(1, len(kinds) - 1))
        self.opens = open_images and self.file is not None
        self.texts = {
            i: _TextColumn() for i in range(len(kinds)) if i not in (self.file, self.label)
        }
        tags = self.label is not None and kinds[self.label].sequence
        self.labels = _LabelColumn(separator, tags=tags)
        self.images, self.vectors = _ImageColumn(), _VectorColumn()
        self.may_be_empty = separator is not None
        self.rows, self.complete = 0, True
        self.empty: list[str] = []
        self.empty_rows = 0
        self.broken = Fault()
        self._input_hashes, self._row_hashes = array("q"), array("q")

    def read(self, progress: Progress | None) -> None:
        """Read the rows; an error that does not belong to a single row ends the reading."""
        try:
            with closing(self._opened()) as rows:
                for row, file in rows:
                    if self.rows == self.most:
                        self.complete = False
                        break
                    self.rows += 1
                    self.add(row, file)
                    if progress is not None and self.rows % REPORTED == 0:
                        progress(self.rows)
        except BrokenImagesError as error:  # raised after the last row
            (self.vectors if self.has_vectors else self.images).broken += error.problems
            problems = list(self.split.broken)
        except BrokenRowsError:  # raised after the last row as well
            problems = list(self.split.broken)
        except DataError as error:
            problems = list(self.split.broken)
            if not self.rows and not problems and self.split.name == "train":
                raise  # there is nothing to report
            if self.rows or not problems:  # else, there are no rows because all are broken
                problems.append(str(error))
                self.complete = False
        else:
            problems = list(self.split.broken)
        self.broken = Fault(len(problems), tuple(problems))
        self.input_hashes = np.frombuffer(self._input_hashes, np.int64)
        self.row_hashes = np.frombuffer(self._row_hashes, np.int64)

    def _opened(self) -> Generator[tuple[Row, OpenedFile], None, None]:
        if not self.opens:
            yield from ((row, None) for row in self.split)
            return
        place = self.file
        assert place is not None
        read = sequence_facts if self.has_vectors else image_facts
        opened = lru_cache(maxsize=64)(read)  # rows with the same file follow each other

        def work(row: Row) -> tuple[Row, OpenedFile]:
            return row, None if is_blank(row) else opened(row.values[place])

        with closing(in_threads(work, self.split, os.cpu_count() or 1)) as results:
            yield from results

    def add(self, row: Row, file: OpenedFile) -> None:
        if self.is_blank(row):
            self.empty_rows += 1
            if len(self.empty) < SHOWN:
                self.empty.append(row.where)
            return
        key = list(row.values)
        for i, column in self.texts.items():
            words = row.values[i].split()
            column.add(row.values[i], words, letters=self.rows <= SCRIPT_ROWS)
            key[i] = " ".join(words)
        if self.label is not None:
            self.labels.add(row.values[self.label], row.where)
            key[self.label] = row.values[self.label].strip()
        if file is not None and self.file is not None:
            if self.has_vectors:
                assert not isinstance(file, ImageFacts)
                self.vectors.add(row.values[self.file], file, row)
            else:
                assert not isinstance(file, SequenceFacts)
                self.images.add(row.values[self.file], file, row)
            if not isinstance(file, DataError):
                key[self.file] = file.digest
        self._input_hashes.append(hash(tuple(key[self.inputs])))
        self._row_hashes.append(hash(tuple(key)))

    def is_blank(self, row: Row) -> bool:
        """Return whether a required column is empty."""
        if self.may_be_empty and self.label is not None:
            values = [value for i, value in enumerate(row.values) if i != self.label]
            row = row._replace(values=tuple(values))
        return is_blank(row)

    def facts(self) -> SplitSurvey:
        """Return the facts about the split."""
        names = self.split.columns
        texts = {names[i]: column for i, column in self.texts.items() if column.words}
        lengths = {name: column.lengths() for name, column in texts.items()}
        if self.vectors.steps and self.file is not None:
            steps = Lengths.of(self.vectors.steps, self.vectors.steps, frozenset(), 0, "steps")
            lengths = {names[self.file]: steps, **lengths}
        return SplitSurvey(
            rows=self.rows,
            running=self.split.running,
            unread=self.split.unread,
            complete=self.complete,
            empty=Fault(self.empty_rows, tuple(self.empty)),
            broken=self.broken,
            duplicates=self.fault(_repeats(self.row_hashes), "repeats"),
            contradictions=self.contradictions(),
            lengths=lengths,
            scripts={name: scripts_of(column.letters) for name, column in texts.items()},
            labels=None if self.label is None else self.labels.facts(),
            images=self.images.facts() if self.opens and not self.has_vectors else None,
            vectors=self.vectors.facts() if self.opens and self.has_vectors else None,
        )

    def contradictions(self) -> Fault:
        """Return the rows whose input occurs with different labels."""
        if self.label is None or self.may_be_empty:
            return Fault()
        _, first = np.unique(self.row_hashes, return_index=True)
        values, counts = np.unique(self.input_hashes[first], return_counts=True)
        places = np.flatnonzero(np.isin(self.input_hashes, values[counts > 1]))
        shown = self.places(places[:SHOWN].tolist())
        return Fault(len(places), tuple(shown.values()))

    def fault(self, repeats: _Repeats, verb: str) -> Fault:
        """Return repeated rows with the places of the first."""
        places = self.places([place for pair in repeats.pairs for place in pair])
        first = (f"{places[later]} {verb} {places[earlier]}" for later, earlier in repeats.pairs)
        return Fault(repeats.count, tuple(first))

    def places(self, numbers: Iterable[int]) -> dict[int, str]:
        """Return the places of rows by number, reading the split again."""
        wanted = sorted(set(numbers))
        if not wanted:
            return {}
        rows = (row for row in self.split if not self.is_blank(row))
        first = enumerate(islice(rows, wanted[-1] + 1))
        return {number: self.place_of(row) for number, row in first if number in wanted}

    def place_of(self, row: Row) -> str:
        """Return the place of a row: its file and line, or the file it names."""
        if self.file is None or is_inline(row.values[self.file]):
            return row.where
        return row.values[self.file]


def _repeats(hashes: Hashes) -> _Repeats:
    """Return the number of hashes that occurred before, and the first ones."""
    values, first = np.unique(hashes, return_index=True)
    again = np.ones(len(hashes), dtype=bool)
    again[first] = False
    places = np.flatnonzero(again)[:SHOWN]
    earlier = first[np.searchsorted(values, hashes[places])]
    pairs = tuple(zip(places.tolist(), earlier.tolist(), strict=True))
    return _Repeats(int(again.sum()), pairs)


def _leaks(readers: dict[str, _Reader]) -> Iterator[Leak]:
    """Yield, for each pair of splits, the inputs that both contain."""
    names = list(readers)
    for i, name in enumerate(names):
        for other in names[:i]:
            later, earlier = readers[name], readers[other]
            places = np.flatnonzero(np.isin(later.input_hashes, earlier.input_hashes))
            if not len(places):
                continue
            shown = places[:SHOWN].tolist()
            values, first = np.unique(earlier.input_hashes, return_index=True)
            matches = first[np.searchsorted(values, later.input_hashes[shown])].tolist()
            here, there = later.places(shown), earlier.places(matches)
            pairs = zip(shown, matches, strict=True)
            texts = tuple(f"{here[place]} is also {there[match]}" for place, match in pairs)
            yield Leak(split=name, other=other, count=len(places), first=texts)
