"""Hold out rows of a table for validation, decided by their inputs and their labels.

A row is known by a hash of the seed and of its inputs. Rows with equal inputs therefore fall on the
same side, and their order does not matter. Only hashes and label numbers are held in memory.

stratified   the rule of new training runs: every label has its fraction of the held-out rows
hash         the rule of runs that record no split: the smallest hashes, whatever their labels
given        the data has a validation set of its own
"""

import hashlib
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np
import numpy.typing as npt

from saccade.errors import DataError

Values = tuple[str, ...]
Integers = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]

STRATIFIED, HASH, GIVEN = "stratified", "hash", "given"
RULES = (STRATIFIED, HASH)
USUAL, ENOUGH, LARGEST = (
    0.1,
    100,
    0.2,
)  # fraction, rows, and the fraction that ENOUGH may not exceed
MOST = 2000  # rows held out by default: more would only slow validation down
HASH_FRACTION = 0.05  # of the rule "hash"
MOST_LABELS = 100_000  # different values of a label column: with more, rows are not stratified
RECORDED = 100  # labels whose counts are recorded
SHOWN = 10  # labels that a remark names
PIECE = 2**16  # rows that are worked on at a time


@dataclass(frozen=True)
class RowKey:
    """The hash by which a row is known.

    seed      seed of the hash
    inputs    places of the values that count
    base      beginning of the first value that depends on the place of the files, not hashed
    strip     whether blanks around a value are not hashed
    """

    seed: int
    inputs: tuple[int, ...] = (0,)
    base: str = ""
    strip: bool = True

    def __call__(self, values: Values) -> int:
        """Return the hash of a row's inputs."""
        texts = [values[place].removeprefix(self.base) for place in self.inputs]
        text = "\0".join(text.strip() for text in texts) if self.strip else "\0".join(texts)
        salt = self.seed.to_bytes(16, "little")
        digest = hashlib.blake2b(text.encode(), digest_size=8, salt=salt)
        return int.from_bytes(digest.digest(), "little")


@dataclass(frozen=True)
class RowSelection:
    """The rows on one side of a split.

    row_key    hash of a row
    chosen     hashes of the rows that are held out
    held_out   whether the held-out rows are meant, or the others
    count      number of rows on this side
    name       all that the choice of rows depends on, as text
    """

    row_key: RowKey
    chosen: Container[int]
    held_out: bool
    count: int
    name: str

    def contains(self, values: Values) -> bool:
        """Return whether a row with these values is on this side."""
        return (self.row_key(values) in self.chosen) == self.held_out

    @property
    def key(self) -> str:
        """All that the side depends on, as text."""
        return f"{'kept' if self.held_out else 'rest'} {self.name}"


@dataclass(frozen=True)
class SplitRecord:
    """How the validation set of a training run came about, as run.json keeps it.

    Attributes:
        rule: "stratified", "hash", or "given" if the data has a validation set of its own.
        fraction: The fraction that was requested; None for the default.
        seed: The seed of the hash.
        rows: The number of rows on each side; None if they were not counted.
        empty: The number of rows with an empty column, which are never held out.
        shared: The number of validation rows whose inputs are also in training; only "given"
            may have some.
        labels: The number of rows on each side by label, if there are at most 100 labels.
        remarks: Sentences about the split for the user.
    """

    rule: str
    fraction: float | None = None
    seed: int = 0
    rows: Mapping[str, int] | None = None
    empty: int = 0
    shared: int = 0
    labels: Mapping[str, Mapping[str, int]] | None = None
    remarks: tuple[str, ...] = field(default=())

    def as_json(self) -> dict[str, object]:
        """Return plain values; a fraction of None is the default."""
        optional = ("rows", "labels")
        table = asdict(self)
        return {name: table[name] for name in table if name not in optional or table[name]}


@dataclass(frozen=True)
class LabelValues:
    """The column by whose values rows are stratified.

    place       its place in a row
    separator   text between several labels of a row; "" if a value is one label
    """

    place: int
    separator: str = ""

    def names(self, value: str) -> list[str]:
        """Return the labels in a value."""
        return split_labels(value, self.separator) if self.separator else [value]


@dataclass(frozen=True)
class Partition:
    """The rows for training, the rows for validation, and the record of the split."""

    train: RowSelection
    valid: RowSelection
    record: SplitRecord


def hold_out(
    rows: Iterable[Values],
    row_key: RowKey,
    where: str,
    *,
    fraction: float | None = None,
    label: LabelValues | None = None,
    least: int = ENOUGH,
) -> Partition:
    """Choose the rows for validation in one pass, stratified by label.

    By default 10 % of the rows are held out, at least 100, but never more than 20 % and about 2000.
    A row with several labels counts as one with its rarest label, and so do rows with equal inputs.
    A label keeps at least one row in training. Rows with an empty column are never held out.

    Args:
        rows: The values of every row.
        row_key: The hash of a row.
        where: The name of the data for error messages.
        fraction: The fraction to hold out instead, without a limit; at least one row is.
        label: The column of labels; None if the rows have none.
        least: The number of rows to hold out by default, if it is not more than 20 %.

    Raises:
        DataError: No row can be held out: all inputs are equal, or each label has one row.
    """
    table = _Table(rows, row_key, label)
    target = _target(len(table.hashes), fraction, least)
    if table.has_labels:
        groups = _Groups(table.hashes, table.strata())
        chosen = np.sort(groups.hashes[groups.chosen(groups.quotas(target))])
    else:
        table.hashes.sort()  # in place: without labels, nothing else depends on their order
        chosen = _smallest(table.hashes, target)
    if not len(chosen):
        raise DataError(_nothing_left(where, table))
    marked = _are_among(table.hashes, chosen)
    count = int(marked.sum())
    counts = _by_side(table.label_counts(~marked), table.label_counts(marked))
    record = SplitRecord(
        rule=STRATIFIED,
        fraction=fraction,
        seed=row_key.seed,
        rows={"train": table.total - count, "valid": count},
        empty=table.total - len(table.hashes),
        labels=counts if 0 < len(counts) <= RECORDED else None,
        remarks=tuple(_label_remarks(counts)),
    )
    members = _Members(chosen)
    content = hashlib.sha256(chosen.tobytes()).hexdigest()
    name = f"{STRATIFIED} {row_key.seed} {content}"
    return _partition(row_key, members, name, record)


def hold_out_by_hash(
    rows: Iterable[Values], row_key: RowKey, where: str, *, fraction: float | None = None
) -> Partition:
    """Choose the rows with the smallest hashes, as versions did that recorded no split.

    Args:
        rows: The values of every row.
        row_key: The hash of a row.
        where: The name of the data for error messages.
        fraction: The fraction to hold out; at least one row and at most about 2000 are.

    Raises:
        DataError: All rows have the same inputs.
    """
    ordered = np.sort(np.frombuffer(array("Q", map(row_key, rows)), np.uint64))
    total = len(ordered)
    target = min(max(round((fraction or HASH_FRACTION) * total), 1), MOST)
    until = ordered[target - 1]
    count = int(np.searchsorted(ordered, until, side="right"))
    below = int(np.searchsorted(ordered, until, side="left"))
    if ordered[0] == ordered[-1]:
        raise DataError(_too_few(where, total))
    if below and (count == total or count > 2 * target):  # one value fills many rows
        until, count = ordered[below - 1], below
    counts = {"train": total - count, "valid": count}
    record = SplitRecord(rule=HASH, fraction=fraction, seed=row_key.seed, rows=counts)
    return _partition(row_key, _UpTo(int(until)), f"{row_key.seed} {int(until)}", record)


def compare_given(
    train: Iterable[Values],
    valid: Iterable[Values],
    row_key: RowKey,
    label: LabelValues | None = None,
) -> SplitRecord:
    """Count the rows of a training and a validation set, and the inputs that both contain.

    Args:
        train: The rows of the training set.
        valid: The rows of the validation set.
        row_key: The hash of the input of a row.
        label: The column of the labels; None if there are none.
    """
    tables = [_Table(rows, row_key, label) for rows in (train, valid)]
    train_hashes, valid_hashes = (table.hashes for table in tables)
    both = np.unique(train_hashes[_are_among(train_hashes, np.sort(valid_hashes))])
    shared = int(_are_among(valid_hashes, both).sum())
    counts = _by_side(*(table.label_counts() for table in tables))
    remark = (
        f"{shared} of {tables[1].total} validation rows have inputs that are also in the training "
        "set, so validation scores are too optimistic; remove these rows from one of the two"
    )
    return SplitRecord(
        rule=GIVEN,
        rows={"train": tables[0].total, "valid": tables[1].total},
        empty=sum(table.total - len(table.hashes) for table in tables),
        shared=shared,
        labels=counts if 0 < len(counts) <= RECORDED else None,
        remarks=(*([remark] if shared else []), *_label_remarks(counts)),
    )


def split_labels(text: str, separator: str) -> list[str]:
    """Return the labels in a text, without the blanks around them."""
    return [name for part in text.split(separator) if (name := part.strip())]


def are_numbers(labels: Iterable[str]) -> bool:
    """Return whether all labels are numbers, and one is not an integer."""
    try:
        values = [float(label) for label in labels]
    except ValueError:
        return False
    return any(not value.is_integer() for value in values)


class _Table:
    """The hash and the number of the label of every row without an empty column."""

    def __init__(self, rows: Iterable[Values], row_key: RowKey, label: LabelValues | None) -> None:
        hashes, ids = array("Q"), array("q")
        numbers: dict[str, int] = {}
        self.total, self.label = 0, label
        may_be_blank = -1 if label is None or not label.separator else label.place
        for values in rows:
            self.total += 1
            if any(_is_blank(value) for i, value in enumerate(values) if i != may_be_blank):
                continue
            hashes.append(row_key(values))
            if self.label is not None:
                text = values[self.label.place].strip()
                ids.append(numbers.setdefault(text, len(numbers)))
                if len(numbers) > MOST_LABELS:
                    self.label = None
        self.hashes: Hashes = np.frombuffer(hashes, np.uint64)
        self._ids: Integers = np.frombuffer(ids, np.int64)
        self._names: list[list[str]] = []
        points = [text.replace(",", ".") for text in numbers]  # decimal commas are reported later
        if self.label is not None and (self.label.separator or not are_numbers(points)):
            self._names = [self.label.names(text) for text in numbers]

    @property
    def has_labels(self) -> bool:
        """Whether rows are stratified by their labels."""
        return bool(self._names)

    def strata(self) -> Integers:
        """Return the number of the stratum of every row: one per label, the rarest first.

        A row without a label is in the last stratum.
        """
        counts = self.label_counts()
        ordered = sorted(counts, key=lambda name: (counts[name], name))
        rank = {name: number for number, name in enumerate(ordered)}
        strata = [min((rank[name] for name in own), default=len(rank)) for own in self._names]
        return np.array(strata, np.int64)[self._ids]

    def label_counts(self, rows: npt.NDArray[np.bool_] | None = None) -> Counter[str]:
        """Return the number of these rows by label, by default of all; none if there are none."""
        counts: Counter[str] = Counter()
        if self._names:
            ids = self._ids if rows is None else self._ids[rows]
            numbers = np.bincount(ids, minlength=len(self._names)).tolist()
            for own, number in zip(self._names, numbers, strict=True):
                counts.update(dict.fromkeys(own, number))
        return counts


class _Groups:
    """The rows with equal hashes, in the order of their hashes, each in one stratum."""

    def __init__(self, hashes: Hashes, ranks: Integers) -> None:
        order = np.argsort(hashes, kind="stable")
        ordered = hashes[order]
        starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]][: len(ordered)])
        self.hashes = ordered[starts]
        self.sizes: Integers = np.diff(np.r_[starts, len(ordered)])
        empty = np.zeros(0, np.int64)
        self.ranks = np.minimum.reduceat(ranks[order], starts) if len(starts) else empty
        self.in_stratum: Integers = np.bincount(self.ranks)

    def quotas(self, target: int) -> list[int]:
        """Distribute the rows to hold out over the strata by their size (largest remainders)."""
        rows = np.bincount(self.ranks, self.sizes).astype(np.int64)
        total = max(int(rows.sum()), 1)
        quotas, remainders = rows * target // total, rows * target % total
        spare = target - int(quotas.sum())
        for stratum in np.argsort(-remainders, kind="stable").tolist():
            if spare and self.in_stratum[stratum] > 1 and quotas[stratum] + 1 < rows[stratum]:
                quotas[stratum] += 1
                spare -= 1
        return [int(quota) for quota in quotas]

    def chosen(self, quotas: Sequence[int]) -> list[int]:
        """Return the groups to hold out: in each stratum, the first ones that fit its quota.

        The rows that are missing to a quota, because no group is as small, are carried over to the
        next stratum of which they complete a group. A stratum keeps at least one group.
        """
        held: list[int] = []
        carried = 0
        members = np.split(np.argsort(self.ranks, kind="stable"), np.cumsum(self.in_stratum)[:-1])
        for stratum, quota in enumerate(quotas):
            groups, room, taken = members[stratum], quota, 0
            if len(groups) < 2:
                continue
            for group in groups.tolist():
                if not room or taken == len(groups) - 1:
                    break
                size = int(self.sizes[group])
                if size <= room + carried:
                    carried -= max(size - room, 0)
                    room = max(room - size, 0)
                    held.append(group)
                    taken += 1
            carried += room
        shared = self.in_stratum[self.ranks] > 1
        if not held and shared.any():
            held = [int(np.lexsort((self.hashes, self.sizes, ~shared))[0])]
        return held


def _smallest(ordered: Hashes, target: int) -> Hashes:
    """Return the smallest of sorted hashes whose rows can be held out; at least one hash stays.

    This is what `_Groups` chooses from rows without labels, in one byte per row.
    """
    different = 1 + int(np.count_nonzero(ordered[1:] != ordered[:-1]))
    chosen: list[int] = []
    start = 0
    for end in _ends_of_equal(ordered):
        if not target or len(chosen) == different - 1:
            break
        if end - start <= target:
            chosen.append(int(ordered[start]))
            target -= end - start
        start = end
    if not chosen and different > 1:
        values, sizes = np.unique(ordered, return_counts=True)
        chosen = [int(values[np.argmin(sizes)])]
    return np.array(chosen, np.uint64)


def _ends_of_equal(ordered: Hashes) -> Iterator[int]:
    """Yield the end of each series of equal hashes."""
    for start in range(0, len(ordered), PIECE):
        piece = ordered[start : start + PIECE + 1]
        yield from (np.flatnonzero(piece[1:] != piece[:-1]) + start + 1).tolist()
    yield len(ordered)


def _are_among(hashes: Hashes, ordered: Hashes) -> npt.NDArray[np.bool_]:
    """Return for each hash whether it is one of some sorted ones."""
    among = np.zeros(len(hashes), np.bool_)
    for start in range(0, len(hashes) if len(ordered) else 0, PIECE):
        piece = hashes[start : start + PIECE]
        places = np.minimum(np.searchsorted(ordered, piece), len(ordered) - 1)
        among[start : start + PIECE] = ordered[places] == piece
    return among


class _Members(Container[int]):
    """Some hashes, found by bisection: a set would need ten times the memory."""

    def __init__(self, ordered: Hashes) -> None:
        self._ordered = array("Q", ordered.tobytes())

    def __contains__(self, place: object) -> bool:
        assert isinstance(place, int)
        at = bisect_left(self._ordered, place)
        return at < len(self._ordered) and self._ordered[at] == place


class _UpTo(Container[int]):
    """All hashes up to one."""

    def __init__(self, until: int) -> None:
        self._until = until

    def __contains__(self, place: object) -> bool:
        return isinstance(place, int) and place <= self._until


def _partition(
    row_key: RowKey, chosen: Container[int], name: str, record: SplitRecord
) -> Partition:
    assert record.rows is not None
    train, valid = (
        RowSelection(row_key, chosen, held_out, record.rows[side], name)
        for side, held_out in (("train", False), ("valid", True))
    )
    return Partition(train, valid, record)


def _by_side(train: Mapping[str, int], valid: Mapping[str, int]) -> dict[str, dict[str, int]]:
    return {
        name: {"train": train.get(name, 0), "valid": valid.get(name, 0)}
        for name in sorted(train.keys() | valid.keys())
    }


def _target(rows: int, fraction: float | None, least: int) -> int:
    if fraction is not None:
        return max(round(fraction * rows), 1)
    return max(min(max(round(USUAL * rows), least), int(LARGEST * rows), MOST), 1)


def _is_blank(value: str) -> bool:
    return not value or value.isspace()


def _label_remarks(counts: Mapping[str, Mapping[str, int]]) -> Iterable[str]:
    single = [name for name, sides in counts.items() if sum(sides.values()) == 1]
    if single:
        yield (
            f"{_labels(single)} only one row, which stays in training: validation cannot measure "
            f"{'it' if len(single) == 1 else 'them'}"
        )
    if untrained := [name for name, sides in counts.items() if not sides["train"]]:
        which = "it" if len(untrained) == 1 else "them"
        yield f"{_labels(untrained)} no row in the training set: the model cannot learn {which}"


def _labels(names: Sequence[str]) -> str:
    shown = ", ".join(f'"{name[:40]}"' for name in names[:SHOWN])
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"the label {shown} has" if len(names) == 1 else f"the labels {shown}{more} have"


def _nothing_left(where: str, table: _Table) -> str:
    if table.total and not len(table.hashes):
        return (
            f"{where}: each of its {table.total:,} rows has an empty column. Name the right "
            "columns with --columns, or fill them in"
        )
    if len(np.unique(table.hashes)) < 2:
        return _too_few(where, table.total)
    return (
        f"{where}: no row can be held out for validation, because each label has only one "
        f"input that differs from the others (rows: {table.total}). Name the right column with "
        "--columns label=NAME, or use a folder with train.* and valid.*"
    )


def _too_few(where: str, total: int) -> str:
    return (
        f"{where} has too few different examples to hold some out for validation (rows: {total}); "
        "use a folder with train.* and valid.*"
    )
