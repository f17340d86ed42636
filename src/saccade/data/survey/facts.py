"""Records of a survey; `dataclasses.asdict` turns them into JSON values."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

BINS = 8
"""Maximum number of bars of a histogram."""
FEW = 1000
"""Maximum number of different words that are counted; above it, the count is None."""


@dataclass(frozen=True)
class Fault:
    """Rows with a fault.

    Attributes:
        count: The number of rows, or of images.
        first: Descriptions of the first ones.
    """

    count: int = 0
    first: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """The lengths of the texts in a column.

    Attributes:
        unit: "words", or "characters" where most texts are one word; "steps" of vectors.
        median: The median length.
        p95: The 95th percentile.
        p99: The 99th percentile.
        longest: The maximum length.
        mean: The mean length.
        histogram: Bars (first length, last length, number of texts), shortest first.
        characters: The number of characters in the column.
        one_word: The fraction of texts that consist of one word.
        different_words: The number of different words, separated by spaces; None above 1000.
        longest_word: The number of characters in the longest word.
    """

    unit: str
    median: int
    p95: int
    p99: int
    longest: int
    mean: float
    histogram: tuple[tuple[int, int, int], ...]
    characters: int
    one_word: float
    different_words: int | None
    longest_word: int

    @property
    def bars(self) -> list[tuple[str, int]]:
        """The number of texts per bar, by its range of lengths, such as "4–6"."""
        return [
            (f"{low}–{high}" if low < high else str(low), count)
            for low, high, count in self.histogram
        ]

    @classmethod
    def of(
        cls,
        words: Mapping[int, int],
        characters: Mapping[int, int],
        vocabulary: frozenset[str] | None,
        longest_word: int,
        unit: str = "words",
    ) -> "Lengths":
        """Return the lengths, given the number of texts per count of words and characters."""
        texts = sum(words.values())
        one_word = words.get(1, 0) / texts
        counts = characters if one_word > 0.5 else words
        low, high = min(counts), quantile(counts, 0.99)
        width = max(1, math.ceil((high - low + 1) / BINS))
        bars = [0] * min(BINS, math.ceil((max(counts) - low + 1) / width))
        for length, count in counts.items():
            bars[min((length - low) // width, len(bars) - 1)] += count
        ends = [low + width * (i + 1) - 1 for i in range(len(bars) - 1)] + [max(counts)]
        starts = [low + width * i for i in range(len(bars))]
        return cls(
            unit="characters" if one_word > 0.5 else unit,
            median=quantile(counts, 0.5),
            p95=quantile(counts, 0.95),
            p99=high,
            longest=max(counts),
            mean=sum(length * count for length, count in counts.items()) / texts,
            histogram=tuple(zip(starts, ends, bars, strict=True)),
            characters=sum(length * count for length, count in characters.items()),
            one_word=one_word,
            different_words=None if vocabulary is None else len(vocabulary),
            longest_word=longest_word,
        )


def quantile(counts: Mapping[int, int], fraction: float) -> int:
    """Return the smallest value v such that at least `fraction` of the values are at most v.

    Args:
        counts: How often each value occurs.
        fraction: The fraction, from 0 to 1.
    """
    below, total = 0, sum(counts.values())
    for value in sorted(counts):
        below += counts[value]
        if below >= fraction * total:
            return value
    return max(counts)


@dataclass(frozen=True, kw_only=True)
class LabelFacts:
    """The labels of a split.

    Attributes:
        kind: "classes", or "numbers" if all labels are numbers and one is not an integer.
        unit: The labelled unit: "row", or "word" for tags; then "rows" below means words.
        counts: The number of rows per label, most frequent first; empty for numbers, and for more
            than 10 000 different labels.
        imbalance: The size of the largest class divided by that of the smallest.
        largest: The fraction of the rows in the largest class.
        single: Labels with only one row.
        variants: Groups of labels that differ only in case or spaces, with their numbers of rows,
            the most frequent spelling first.
        missing: Rows whose label is text for a missing value, such as "nan"; numbers are counted
            without them.
        unknown: In a split other than the training and the validation set, labels that neither of
            these has.
        range: Minimum, mean and maximum of the labels if they are numbers.
    """

    kind: str
    unit: str = "row"
    counts: Mapping[str, int] = field(default_factory=dict)
    imbalance: float = 1.0
    largest: float = 0.0
    single: tuple[str, ...] = ()
    variants: tuple[tuple[tuple[str, int], ...], ...] = ()
    missing: Fault = Fault()
    unknown: tuple[str, ...] = ()
    range: tuple[float, float, float] | None = None

    @property
    def extra_spellings(self) -> int:
        """The number of labels that differ from a more frequent one only in spelling."""
        return sum(len(group) - 1 for group in self.variants)


@dataclass(frozen=True, kw_only=True)
class Images:
    """The images of a split.

    Attributes:
        count: The number of different images.
        sizes: The number of images of each of the most frequent sizes, as "width × height".
        smallest: Width and height of the smallest image.
        median: Median width and median height.
        largest: Width and height of the largest image.
        modes: The number of images per Pillow mode, such as "RGB" or "L" (grey).
        grey: Whether all images are grey, including those stored as colour.
        broken: Images that cannot be decoded, with the reasons.
    """

    count: int
    sizes: Mapping[str, int]
    smallest: tuple[int, int]
    median: tuple[int, int]
    largest: tuple[int, int]
    modes: Mapping[str, int]
    grey: bool
    broken: Fault = Fault()


@dataclass(frozen=True, kw_only=True)
class VectorFacts:
    """The sequences of vectors of a split.

    Attributes:
        count: The number of different sequences.
        widths: The number of sequences by the width of their vectors.
        broken: Sequences that cannot be read, with the reasons.
    """

    count: int
    widths: Mapping[int, int]
    broken: Fault = Fault()


@dataclass(frozen=True, kw_only=True)
class SplitSurvey:
    """The facts about a split.

    Attributes:
        rows: The number of rows read.
        running: Whether rows are parts of running text rather than separate examples.
        unread: The names of columns that are not read.
        complete: Whether all rows were read.
        empty: Rows with an empty column, which training leaves out.
        broken: Rows that cannot be read; training stops because of them. If one of them ended the
            reading of the split, it is the last.
        duplicates: Rows that repeat an earlier row of the split in all columns.
        contradictions: Rows whose input also occurs with another label.
        lengths: The lengths of each column of text.
        scripts: The fraction of letters in each script, for each column of text.
        labels: The labels, if any.
        images: The images, if any were opened.
        vectors: The sequences of vectors, if any were opened; `lengths` has their numbers of
            steps.
    """

    rows: int
    running: bool = False
    unread: tuple[str, ...] = ()
    complete: bool = True
    empty: Fault = Fault()
    broken: Fault = Fault()
    duplicates: Fault = Fault()
    contradictions: Fault = Fault()
    lengths: Mapping[str, Lengths] = field(default_factory=dict)
    scripts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    labels: LabelFacts | None = None
    images: Images | None = None
    vectors: VectorFacts | None = None

    @property
    def broken_files(self) -> tuple[Fault, str]:
        """Images or vector files that cannot be read, and the word for them."""
        if self.vectors is not None:
            return self.vectors.broken, "vector file"
        return (Fault() if self.images is None else self.images.broken), "image"


@dataclass(frozen=True, kw_only=True)
class Leak:
    """Rows of one split whose input is also in another.

    Attributes:
        split: The split for validation or testing.
        other: The split that holds the same inputs.
        count: The number of rows of `split`.
        first: The places of both rows, for the first ones.
    """

    split: str
    other: str
    count: int
    first: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Survey:
    """The facts about a corpus.

    Attributes:
        splits: The facts about each split, in the order train, valid, test.
        leaks: Inputs that are in two splits, one record per pair of splits.
    """

    splits: Mapping[str, SplitSurvey]
    leaks: tuple[Leak, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether all rows were read."""
        return all(split.complete for split in self.splits.values())
