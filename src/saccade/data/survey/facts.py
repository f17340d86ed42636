"""Records of a survey; `dataclasses.asdict` returns them as values that JSON can hold."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

BINS = 8
"""Bars of a histogram at most."""
FEW = 1000
"""Different words that are counted; more are reported as None."""


@dataclass(frozen=True)
class Fault:
    """Rows with a fault.

    Attributes:
        count: The number of rows, or of images.
        first: The first of them, for people.
    """

    count: int = 0
    first: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """The lengths of the texts in a column.

    Attributes:
        unit: "words", or "characters" where most texts are one word; "steps" of vectors.
        median: The median.
        p95: The length that 95 % of the texts do not exceed.
        p99: The length that 99 % of the texts do not exceed.
        longest: The longest.
        mean: The mean.
        histogram: Bars from the shortest to the longest: first length, last length, texts.
        characters: All characters of the column.
        one_word: The fraction of texts that are one word.
        different_words: The number of different words, separated by spaces; None above 1000.
        longest_word: The number of characters of the longest word.
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
        """The bars of the histogram with a name, such as "4–6"."""
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
        """Return the lengths from how often each number of words and characters occurs."""
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
    """Return the smallest value that at least this fraction of the values does not exceed.

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
        unit: What has a label: a "row", or a "word" if labels are tags. Below, rows are words then.
        counts: The rows of each label, the most frequent first; empty for numbers, and for more
            than 10 000 different labels.
        imbalance: The rows of the largest class divided by those of the smallest.
        largest: The fraction of the rows in the largest class.
        single: The labels of only one row.
        variants: Labels that differ only in case or spaces, the most frequent spelling of each
            group first, with their rows.
        range: The smallest label, their mean and the largest, if they are numbers.
    """

    kind: str
    unit: str = "row"
    counts: Mapping[str, int] = field(default_factory=dict)
    imbalance: float = 1.0
    largest: float = 0.0
    single: tuple[str, ...] = ()
    variants: tuple[tuple[tuple[str, int], ...], ...] = ()
    range: tuple[float, float, float] | None = None

    @property
    def extra_spellings(self) -> int:
        """The number of labels that are another spelling of a more frequent one."""
        return sum(len(group) - 1 for group in self.variants)


@dataclass(frozen=True, kw_only=True)
class Images:
    """The images of a split.

    Attributes:
        count: The number of different images.
        sizes: The most frequent sizes, as "width × height", with their images.
        smallest: Width and height of the smallest.
        median: The medians of width and height.
        largest: Width and height of the largest.
        modes: The images of each Pillow mode, such as "RGB" or "L" (grey).
        grey: Whether all images are grey, also those in a mode for colour.
        broken: The images that cannot be decoded, with the reasons.
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
        widths: The sequences of each width, the number of numbers per vector.
        broken: The sequences that cannot be read, with the reasons.
    """

    count: int
    widths: Mapping[int, int]
    broken: Fault = Fault()


@dataclass(frozen=True, kw_only=True)
class SplitSurvey:
    """A split as a survey read it.

    Attributes:
        rows: The number of rows that were read.
        running: Whether rows are parts of a running text, not examples by themselves.
        unread: The names of columns that were not read.
        complete: Whether all rows were read.
        empty: Rows with an empty column, which training leaves out.
        broken: Rows that cannot be read; training stops at the first. If not all rows were read
            because of one, it is the last.
        duplicates: Rows that repeat an earlier row of the split in all columns.
        contradictions: Rows whose input also occurs with another label.
        lengths: The lengths of each column of text.
        scripts: The fraction of letters in each script, for each column of text.
        labels: The labels, if the data has some.
        images: The images, if the data has some and they were opened.
        vectors: The sequences of vectors, if the data has some and they were opened; their numbers
            of steps are in `lengths`.
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
        """The images or vector files that cannot be read, and their kind."""
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
        first: The first of them, with the places of both rows.
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
        leaks: Inputs that are in two splits, for each pair of splits that shares some.
    """

    splits: Mapping[str, SplitSurvey]
    leaks: tuple[Leak, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether all rows were read."""
        return all(split.complete for split in self.splits.values())
