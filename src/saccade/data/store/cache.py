"""Rows encoded once and found again by their content: a second start reads no text and no image.

An entry is a folder named after what it depends on. It is written under another name, then
renamed, so there is a whole entry or none; entry.json holds the checksum of every file.
"""

import hashlib
import json
import logging
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Generic, TypeVar

import filelock

from saccade.data.corpus import Row, Split
from saccade.data.sources.text_files import file_digest
from saccade.data.store.ragged import Ragged, RaggedWriter
from saccade.data.store.stacked import Array, Stacked, StackedWriter, sampled_digest
from saccade.data.threads import in_threads
from saccade.errors import DataError, DiskFullError
from saccade.files import atomic_folder, clean_up, disk_full

Encode = Callable[[list[Row]], list[tuple[list[int], ...]]]
Facts = dict[str, Any]
Made = TypeVar("Made")

FORMAT = 1
ENTRY = "entry.json"
ROWS = "rows"
CHUNK = 1024  # rows that are encoded together
AT_ONCE = 16  # arrays that are made by one thread, and wait together to be written
SHOWN = 5  # skipped rows that are named
BROKEN = (OSError, ValueError, KeyError, TypeError, AttributeError)  # what reading one may raise
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Skipped:
    """Rows that were left out: how many, why, and where the first of them stand."""

    empty: int = 0
    too_long: int = 0
    first: tuple[str, ...] = ()


@dataclass(frozen=True)
class Encoded:
    """The encoded rows, one `Ragged` for each field, and what was left out."""

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
    progress: Callable[[int], None] | None = None,
) -> Encoded:
    """The numbers that `encode` makes of the rows, from the cache if it has them.

    `encode` turns rows into tuples of numbers, one sequence for each field. `key` names all that
    it depends on. A row with an empty field or with one beyond its limit is left out and counted;
    columns of `may_be_empty` may be blank. `progress` hears how many rows are done.
    """
    left_out = _LeftOut(split.columns, limits, may_be_empty)

    def write(entry: Path) -> Facts:
        with ExitStack() as stack:
            skipped, dtypes = _write(split, encode, entry, left_out, progress, stack)
        return {"dtypes": dtypes, "skipped": asdict(skipped)}

    parts = (str(FORMAT), key, str(limits and list(limits)), split.digest())
    kind = _Kind("the encoded text", write=write, read=_encoded, digest=file_digest)
    return _once(_name(parts), folder, kind)


def arrays_once(
    names: Sequence[str],
    make: Callable[[str], Array],
    *,
    key: str,
    folder: Path,
    workers: int = 2,
    progress: Callable[[int], None] | None = None,
) -> Stacked:
    """The arrays that `make` makes of each name, from the cache if it has them.

    They have one shape and type. `key` names all that they depend on, such as the digest of the
    files' contents and the size of images. `make` runs in threads. If it refuses a name with a
    `DataError`, others are tried, and the first few that were refused are told. `progress` hears
    how many are done.
    """

    def write(entry: Path) -> Facts:
        writer = StackedWriter(entry, ROWS)
        try:
            _write_arrays(names, make, writer, workers, progress)
            writer.close()
        finally:
            writer.abandon()
        return {"dtype": writer.dtype, "shape": writer.shape}

    if not names:
        raise DataError("there are no rows of which arrays could be made")
    kind = _Kind("the prepared arrays", write=write, read=_stacked, digest=sampled_digest)
    return _once(_name(("arrays", str(FORMAT), key, str(len(names)))), folder, kind)


@dataclass(frozen=True)
class _Kind(Generic[Made]):
    """What entries hold, how they are written and read, and what tells a damaged file."""

    what: str
    write: Callable[[Path], Facts]
    read: Callable[[Path, Facts], Made]
    digest: Callable[[Path], str]


def _name(parts: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _once(name: str, folder: Path, kind: _Kind[Made]) -> Made:
    """The entry of this name, read if it is there and whole, else made."""
    entry = folder / name
    with suppress(*BROKEN):
        return _read(entry, kind)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(folder / f"{name}.lock"):
            try:
                return _read(entry, kind)  # another process may have been quicker
            except BROKEN as error:
                if entry.exists():
                    log.warning("the cache entry %s is damaged (%s) and is made anew", entry, error)
                    shutil.rmtree(entry)
            _make(entry, kind)
    except OSError as error:
        if disk_full(error):
            raise DiskFullError(
                error.errno,
                f"the disk is full: {kind.what} cannot be kept in {folder}; free some space or "
                "choose another folder (nothing half-written was left)",
            ) from error
        raise DataError(
            f"{kind.what} cannot be written into {folder}: {error.strerror or error}"
        ) from error
    try:
        return _read(entry, kind)
    except BROKEN as error:
        raise DataError(
            f"the cache entry {entry} was written but cannot be read: {error}"
        ) from error


def _make(entry: Path, kind: _Kind[Any]) -> None:
    clean_up(entry.parent, entry.name)  # after a process that was killed
    with atomic_folder(entry) as partial:
        about = kind.write(partial)
        files = {path.name: kind.digest(path) for path in sorted(partial.iterdir())}
        facts = {"format": FORMAT, **about, "files": files}
        (partial / ENTRY).write_text(json.dumps(facts, indent=1), encoding="utf-8")


def _read(entry: Path, kind: _Kind[Made]) -> Made:
    """The entry; one of `BROKEN` says what is wrong with it."""
    facts: Any = json.loads((entry / ENTRY).read_text(encoding="utf-8"))
    for name, digest in facts["files"].items():
        if kind.digest(entry / name) != digest:
            raise ValueError(f"{name} is not what was written")
    return kind.read(entry, facts)


def _encoded(entry: Path, facts: Facts) -> Encoded:
    fields = tuple(
        Ragged.open(entry, f"field-{i}", dtype) for i, dtype in enumerate(facts["dtypes"])
    )
    skipped = facts["skipped"]
    first = tuple(skipped["first"])
    return Encoded(fields, Skipped(skipped["empty"], skipped["too_long"], first), entry.name)


def _stacked(entry: Path, facts: Facts) -> Stacked:
    return Stacked.open(entry, ROWS, facts["dtype"], facts["shape"])


def _write_arrays(
    names: Sequence[str],
    make: Callable[[str], Array],
    writer: StackedWriter,
    workers: int,
    progress: Callable[[int], None] | None,
) -> None:
    def made(some: Sequence[str]) -> list[Array | DataError]:
        return [_tried(make, name) for name in some]

    chunks = [names[i : i + AT_ONCE] for i in range(0, len(names), AT_ONCE)]
    refused: list[DataError] = []
    done = 0
    with closing(in_threads(made, chunks, workers)) as results:
        for chunk, arrays in zip(chunks, results, strict=True):
            for name, array in zip(chunk, arrays, strict=True):
                if isinstance(array, DataError):
                    refused.append(array)
                elif not refused:
                    writer.add(array, name)
            if len(refused) >= SHOWN:
                break
            done += len(chunk)
            if progress is not None:
                progress(done)
    if len(refused) == 1:
        raise refused[0]
    if refused:
        shown = "\n".join(str(error) for error in refused[:SHOWN])
        at_least = "at least " * (len(refused) >= SHOWN)
        raise DataError(f"{at_least}{len(refused)} of {len(names)} cannot be used:\n{shown}")


def _tried(make: Callable[[str], Array], name: str) -> Array | DataError:
    try:
        return make(name)
    except DataError as error:
        return error
    except OSError as error:  # which would look like one of writing
        return DataError(f"{name} cannot be read: {error.strerror or error}")


def _write(
    split: Split,
    encode: Encode,
    folder: Path,
    left_out: "_LeftOut",
    progress: Callable[[int], None] | None,
    stack: ExitStack,
) -> tuple[Skipped, list[str]]:
    writers: list[RaggedWriter] = []
    done = 0
    for chunk in _chunks(iter(split)):
        rows = [row for row in chunk if not left_out.blank(row)]
        coded = encode(rows)
        assert len(coded) == len(rows), "encode must give one tuple for each row"
        kept = [ids for row, ids in zip(rows, coded, strict=True) if left_out.fits(row, ids)]
        if coded and not writers:
            writers = [RaggedWriter(folder, f"field-{i}") for i in range(len(coded[0]))]
            for writer in writers:
                stack.callback(writer.abandon)
        for i, writer in enumerate(writers):
            writer.add([ids[i] for ids in kept])
        done += len(chunk)
        if progress is not None:
            progress(done)
    for writer in writers:
        writer.close()
    skipped = left_out.skipped()
    if skipped.empty + skipped.too_long == done:
        raise DataError(
            f"no row of {split.name} can be used: {skipped.empty} empty, {skipped.too_long} too "
            f"long. {'; '.join(skipped.first)}"
        )
    return skipped, [writer.dtype for writer in writers]


class _LeftOut:
    """Counts the rows that are left out, and remembers where the first of them stand."""

    def __init__(
        self,
        columns: Sequence[str],
        limits: Sequence[int] | None,
        may_be_empty: Collection[str],
    ) -> None:
        self._columns, self._limits, self._may_be_empty = columns, limits, may_be_empty
        self._empty = self._too_long = 0
        self._first: list[str] = []

    def blank(self, row: Row) -> bool:
        for column, value in zip(self._columns, row.values, strict=True):
            if (not value or value.isspace()) and column not in self._may_be_empty:
                return self._is_empty(row, column)
        return False

    def fits(self, row: Row, ids: tuple[list[int], ...]) -> bool:
        for i, field in enumerate(ids):
            name = self._columns[i] if len(ids) == len(self._columns) else f"field {i + 1}"
            if not len(field):
                return not self._is_empty(row, name)
            if self._limits is not None and len(field) > self._limits[i]:
                self._too_long += 1
                self._remember(
                    row, f"{name} has {len(field)} tokens, the limit is {self._limits[i]}"
                )
                return False
        return True

    def skipped(self) -> Skipped:
        return Skipped(self._empty, self._too_long, tuple(self._first))

    def _is_empty(self, row: Row, name: str) -> bool:
        self._empty += 1
        self._remember(row, f"{name} is empty")
        return True

    def _remember(self, row: Row, reason: str) -> None:
        if len(self._first) < SHOWN:
            self._first.append(f"{row.file}:{row.line}: {reason}")


def _chunks(rows: Iterator[Row]) -> Iterator[list[Row]]:
    while chunk := list(islice(rows, CHUNK)):
        yield chunk
