"""Encoded rows and prepared arrays, cached by their content: the next start reads no source.

An entry is a folder named after all that it depends on. It is written under another name and then
renamed, so an entry is either complete or absent; entry.json holds the checksum of every file.
"""

import hashlib
import json
import logging
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Generic, TypeVar, cast

import filelock

from saccade.data.corpus import Row, Split
from saccade.data.store.ragged import Ragged, RaggedWriter
from saccade.data.store.stacked import (
    Array,
    SequenceWriter,
    StackedArrays,
    StackedSequences,
    StackedWriter,
    sampled_digest,
)
from saccade.data.threads import in_threads
from saccade.errors import BrokenImagesError, DataError, DiskFullError
from saccade.files import atomic_folder, clean_up, disk_full, fingerprint, read_json

Encode = Callable[[list[Row]], list[tuple[list[int], ...]]]
Facts = Mapping[str, object]
Progress = Callable[[int], None]
Content = TypeVar("Content")

FORMAT = 1
ENTRY = "entry.json"
ROWS = "rows"
CHUNK = 1024  # rows that are encoded together
AT_ONCE = 16  # arrays that one thread prepares before they are written
SHOWN = 5  # skipped rows that are named
BROKEN = (OSError, ValueError, KeyError, TypeError, AttributeError)  # raised by damaged entries
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Skipped:
    """The rows that were left out: their number by reason, and the places of the first."""

    empty: int = 0
    too_long: int = 0
    first: tuple[str, ...] = ()


@dataclass(frozen=True)
class Encoded:
    """The encoded rows of a split: one `Ragged` per field, and the rows that were left out."""

    fields: tuple[Ragged, ...]
    skipped: Skipped
    key: str

    def __len__(self) -> int:
        return len(self.fields[0]) if self.fields else 0


def encode_once(
    split: Split,
    encode: Encode,
    *,
    key: str,
    folder: Path,
    limits: Sequence[int] | None,
    may_be_empty: Collection[str] = (),
    progress: Progress | None = None,
) -> Encoded:
    """Encode the rows of a split, or read them from the cache.

    A row with an empty field, or with a field beyond its limit, is left out and counted.

    Args:
        split: The rows.
        encode: Turns rows into tuples of token ids, one sequence per field.
        key: Names all that `encode` depends on.
        folder: The folder of the cache.
        limits: The maximum number of tokens of each field; None for no limits.
        may_be_empty: The columns that may be blank.
        progress: Called with the number of rows that are done.

    Returns:
        The encoded rows.

    Raises:
        DataError: No row can be used, or the cache cannot be written.
        DiskFullError: The disk is full; nothing incomplete is left.
    """
    skipping = _Skipping(split.columns, limits, may_be_empty)

    def write(entry: Path) -> Facts:
        with ExitStack() as stack:
            skipped, dtypes = _write_rows(split, encode, entry, skipping, progress, stack)
        return {"dtypes": dtypes, "skipped": asdict(skipped)}

    def digest(path: Path) -> str:
        return fingerprint(path).sha256

    parts = (str(FORMAT), key, str(limits and list(limits)), split.digest())
    kind = _Kind("the encoded text", write=write, read=_read_rows, digest=digest)
    return _once(_name(parts), folder, kind)


def arrays_once(
    names: Sequence[str],
    make: Callable[[str], Array],
    *,
    key: str,
    folder: Path,
    workers: int = 2,
    progress: Progress | None = None,
) -> StackedArrays:
    """Prepare one array per name, such as the pixels of an image, or read them from the cache.

    Args:
        names: The names, in the order of the rows.
        make: Prepares the array of a name; called in threads. All arrays have one shape and type.
        key: Names all that the arrays depend on, such as the digest of the files and the size.
        folder: The folder of the cache.
        workers: The number of threads.
        progress: Called with the number of arrays that are done.

    Returns:
        The arrays, mapped from a file.

    Raises:
        BrokenImagesError: `make` raised a DataError; all of them are reported together.
        DiskFullError: The disk is full; nothing incomplete is left.
    """
    write = _writing(names, make, StackedWriter, workers, progress, "image")
    kind = _Kind("the prepared arrays", write=write, read=_read_arrays, digest=sampled_digest)
    return _once(_name(("arrays", str(FORMAT), key, str(len(names)))), folder, kind)


def sequences_once(
    names: Sequence[str],
    make: Callable[[str], Array],
    *,
    key: str,
    folder: Path,
    workers: int = 2,
    progress: Progress | None = None,
) -> StackedSequences:
    """Prepare one sequence of vectors per name, or read them from the cache.

    Like `arrays_once`, for arrays (steps, width) with different numbers of steps.

    Args:
        names: The names of the sequences.
        make: Prepares the sequence of a name.
        key: What the prepared sequences depend on, apart from their names.
        folder: The folder of the cache.
        workers: The number of threads that prepare sequences.
        progress: Called with the number of sequences prepared so far.
    """
    write = _writing(names, make, SequenceWriter, workers, progress, "vector file")
    kind = _Kind("the vectors", write=write, read=_read_sequences, digest=sampled_digest)
    return _once(_name(("sequences", str(FORMAT), key, str(len(names)))), folder, kind)


def _writing(
    names: Sequence[str],
    make: Callable[[str], Array],
    writer_class: type[StackedWriter],
    workers: int,
    progress: Progress | None,
    noun: str,
) -> Callable[[Path], Facts]:
    """Return a function that prepares the arrays and writes them into a folder."""
    if not names:
        raise DataError("there are no rows to prepare; at least one is expected")

    def write(entry: Path) -> Facts:
        writer = writer_class(entry, ROWS)
        try:
            _write_arrays(names, make, writer, workers, progress, noun)
            writer.close()
        finally:
            writer.abandon()
        return {"dtype": writer.dtype, "shape": writer.shape}

    return write


@dataclass(frozen=True)
class _Kind(Generic[Content]):
    """A kind of entries: its name for people, how to write and read one, and its checksum."""

    what: str
    write: Callable[[Path], Facts]
    read: Callable[[Path, Facts], Content]
    digest: Callable[[Path], str]


def _name(parts: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _once(name: str, folder: Path, kind: _Kind[Content]) -> Content:
    """Read the entry of this name if it is intact; otherwise write it first."""
    entry = folder / name
    with suppress(*BROKEN):
        return _read(entry, kind)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(folder / f"{name}.lock"):
            try:
                return _read(entry, kind)  # another process may have been faster
            except BROKEN as error:
                if entry.exists():
                    log.warning("cache entry %s is damaged (%s); writing it again", entry, error)
                    shutil.rmtree(entry)
            _write(entry, kind)
    except OSError as error:
        if disk_full(error):
            raise DiskFullError(
                error.errno,
                f"the disk is full: {kind.what} cannot be kept in {folder}; free some space or "
                "choose another folder (nothing incomplete was left)",
            ) from error
        raise DataError(
            f"{kind.what} cannot be written into {folder}: {error.strerror or error}; choose "
            "another folder"
        ) from error
    try:
        return _read(entry, kind)
    except BROKEN as error:
        raise DataError(
            f"the cache entry {entry} was written but cannot be read: {error}; remove it and try "
            "again"
        ) from error


def _write(entry: Path, kind: _Kind[Content]) -> None:
    clean_up(entry.parent, entry.name)  # after a process that was killed
    with atomic_folder(entry) as partial:
        facts = kind.write(partial)
        files = {path.name: kind.digest(path) for path in sorted(partial.iterdir())}
        table = {"format": FORMAT, **facts, "files": files}
        (partial / ENTRY).write_text(json.dumps(table, indent=1), encoding="utf-8")


def _read(entry: Path, kind: _Kind[Content]) -> Content:
    """Read an entry; raise one of `BROKEN` if it is damaged."""
    facts = read_json(entry / ENTRY)
    for name, digest in facts["files"].items():
        if kind.digest(entry / name) != digest:
            raise ValueError(f"{name} has changed since it was written")
    return kind.read(entry, facts)


def _read_rows(entry: Path, facts: Facts) -> Encoded:
    dtypes = cast(list[str], facts["dtypes"])
    fields = tuple(Ragged.open(entry, f"field-{i}", dtype) for i, dtype in enumerate(dtypes))
    skipped = cast(dict[str, int], facts["skipped"])
    first = tuple(cast(list[str], skipped["first"]))
    return Encoded(fields, Skipped(skipped["empty"], skipped["too_long"], first), entry.name)


def _read_arrays(entry: Path, facts: Facts) -> StackedArrays:
    dtype, shape = cast(str, facts["dtype"]), cast(list[int], facts["shape"])
    return StackedArrays.open(entry, ROWS, dtype, shape)


def _read_sequences(entry: Path, facts: Facts) -> StackedSequences:
    dtype, shape = cast(str, facts["dtype"]), cast(list[int], facts["shape"])
    return StackedSequences.open(entry, ROWS, dtype, shape)


def _write_arrays(
    names: Sequence[str],
    make: Callable[[str], Array],
    writer: StackedWriter,
    workers: int,
    progress: Progress | None,
    noun: str,
) -> None:
    def prepare(chunk: Sequence[str]) -> list[Array | DataError]:
        return [_tried(make, name) for name in chunk]

    chunks = [names[i : i + AT_ONCE] for i in range(0, len(names), AT_ONCE)]
    errors: list[DataError] = []
    done = 0
    with closing(in_threads(prepare, chunks, workers)) as results:
        for chunk, arrays in zip(chunks, results, strict=True):
            for name, array in zip(chunk, arrays, strict=True):
                if isinstance(array, DataError):
                    errors.append(array)
                elif not errors:
                    writer.add(array, name)
            done += len(chunk)
            if progress is not None:
                progress(done)
    if errors:
        raise BrokenImagesError([str(error) for error in errors], len(names), noun)


def _tried(make: Callable[[str], Array], name: str) -> Array | DataError:
    try:
        return make(name)
    except DataError as error:
        return error
    except OSError as error:  # not to be taken for an error of writing
        return DataError(f"{name} cannot be read: {error.strerror or error}; check its permissions")


def _write_rows(
    split: Split,
    encode: Encode,
    folder: Path,
    skipping: "_Skipping",
    progress: Progress | None,
    stack: ExitStack,
) -> tuple[Skipped, list[str]]:
    writers: list[RaggedWriter] = []
    done = 0

    def encoded(
        chunk: list[Row],
    ) -> tuple[list[Row], list[str | None], list[tuple[list[int], ...]]]:
        blank = [skipping.blank_column(row) for row in chunk]
        rows = [row for row, column in zip(chunk, blank, strict=True) if column is None]
        coded = encode(rows)
        assert len(coded) == len(rows), "encode must return one tuple per row"
        return chunk, blank, coded

    # one thread, because `encode` may depend on the rows before; while it encodes, on all cores
    # and without Python's lock, this one reads and writes
    with closing(in_threads(encoded, _chunks(iter(split)), 1)) as chunks:
        for chunk, blank, coded in chunks:
            usable = skipping.usable(chunk, blank, coded)
            if coded and not writers:
                writers = [RaggedWriter(folder, f"field-{i}") for i in range(len(coded[0]))]
                for writer in writers:
                    stack.callback(writer.abandon)
            for i, writer in enumerate(writers):
                writer.add([ids[i] for ids in usable])
            done += len(chunk)
            if progress is not None:
                progress(done)
    for writer in writers:
        writer.close()
    skipped = skipping.skipped()
    if skipped.empty + skipped.too_long == done:
        raise DataError(
            f"no row of {split.name} can be used: {skipped.empty} empty, {skipped.too_long} too "
            f"long. {'; '.join(skipped.first)}"
        )
    return skipped, [writer.dtype for writer in writers]


class _Skipping:
    """Count the rows that are left out, and remember the places of the first."""

    def __init__(
        self,
        columns: Sequence[str],
        limits: Sequence[int] | None,
        may_be_empty: Collection[str],
    ) -> None:
        self._columns, self._limits, self._may_be_empty = columns, limits, may_be_empty
        self._empty = self._too_long = 0
        self._first: list[str] = []

    def blank_column(self, row: Row) -> str | None:
        """Return the column that is blank and must not be; None if there is none."""
        for column, value in zip(self._columns, row.values, strict=True):
            if (not value or value.isspace()) and column not in self._may_be_empty:
                return column
        return None

    def usable(
        self,
        rows: Sequence[Row],
        blank: Sequence[str | None],
        coded: Sequence[tuple[list[int], ...]],
    ) -> list[tuple[list[int], ...]]:
        """Return what can be used of encoded rows, and count the others in their order.

        Args:
            rows: The rows.
            blank: The blank column of each row.
            coded: The rows without a blank column, encoded.
        """
        usable, remaining = [], iter(coded)
        for row, column in zip(rows, blank, strict=True):
            if column is not None:
                self._count_empty(row, column)
            elif self.fits(row, ids := next(remaining)):
                usable.append(ids)
        return usable

    def fits(self, row: Row, ids: tuple[list[int], ...]) -> bool:
        """Return whether every field has tokens within its limit; if not, count the row."""
        for i, field in enumerate(ids):
            name = self._columns[i] if len(ids) == len(self._columns) else f"field {i + 1}"
            if not len(field):
                self._count_empty(row, name)
                return False
            if self._limits is not None and len(field) > self._limits[i]:
                self._too_long += 1
                self._remember(
                    row, f"{name} has {len(field)} tokens, the limit is {self._limits[i]}"
                )
                return False
        return True

    def skipped(self) -> Skipped:
        """Return the rows left out so far."""
        return Skipped(self._empty, self._too_long, tuple(self._first))

    def _count_empty(self, row: Row, name: str) -> None:
        self._empty += 1
        self._remember(row, f"{name} is empty")

    def _remember(self, row: Row, reason: str) -> None:
        if len(self._first) < SHOWN:
            self._first.append(f"{row.where}: {reason}")


def _chunks(rows: Iterator[Row]) -> Iterator[list[Row]]:
    while chunk := list(islice(rows, CHUNK)):
        yield chunk
