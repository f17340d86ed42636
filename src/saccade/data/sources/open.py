"""Open a data set: a folder, a file, parallel texts, `builtin:NAME` or `hf:NAME`."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from saccade.data import builtin
from saccade.data.corpus import Corpus, Split, Table
from saccade.data.sources.columns import (
    Column,
    ColumnNames,
    ColumnRequest,
    counted,
    parse_columns,
    parse_pair,
    spaced,
)
from saccade.data.sources.formats import FORMATS
from saccade.data.sources.generated import builtin_tables
from saccade.data.sources.huggingface import HUGGING_FACE, huggingface_tables, is_saved
from saccade.data.sources.layout import SPLITS, contents, find_places
from saccade.data.validation_split import hold_out
from saccade.errors import DataError


def open_corpus(
    data: str | Path,
    task_columns: Sequence[Column],
    *,
    pair: str | None = None,
    columns: ColumnNames | None = None,
    held_out: float = 0.05,
    seed: int = 0,
    required: Sequence[str] = ("train",),
) -> Corpus:
    """Find the splits of a data set and their columns.

    Only the beginnings of files are read. Without a split `valid`, a fraction of `train` is
    held out, which reads the first column once. A single file, or a folder of running text or
    of images without splits, is both `train` and `valid`.

    Args:
        data: A folder, a file, the common beginning of two parallel files, `builtin:NAME` or
            `hf:NAME`.
        task_columns: The columns to read.
        pair: Source and target language of parallel text, as in `en-de`.
        columns: Names of columns in the files, or numbers from 1 for files without a header, by
            the name of the column in `task_columns`; also as in "source=english,target=french".
        held_out: The fraction of `train` to hold out for validation, from 0 up to 1. With 0
            nothing is held out, and a single file is `required[0]`, for evaluation.
        seed: The seed that decides which rows are held out.
        required: The splits that must exist.

    Returns:
        The splits, and a summary of the recognised files and columns.

    Raises:
        DataError: A file, a column or a split is missing, or a file is damaged. The message names
            the file, the line and what is expected.

    Example:
        >>> corpus = open_corpus("builtin:copy", [Column("source"), Column("target")])
        >>> next(iter(corpus.splits["train"])).values
        ('s s p f s', 's s p f s')
    """
    if not 0 <= held_out < 1:
        raise DataError(f"held_out must be a fraction between 0 and 1, got {held_out}")
    if not 0 <= seed < 2**64:
        raise DataError(f"seed must be between 0 and 2**64 - 1, got {seed}")
    request = ColumnRequest(
        columns=tuple(task_columns),
        pair=parse_pair(pair) if pair else None,
        renamed=parse_columns(columns),
    )
    single, tables = _tables(str(data), request)
    if single and not held_out:
        tables = {required[0]: tables["train"]}
    for split in required:
        if split not in tables and not single:
            raise DataError(_missing(split, data, list(tables), request))
    _require_same_columns(tables)
    return _corpus(tables, held_out, seed)


def _corpus(tables: Mapping[str, Table], held_out: float, seed: int) -> Corpus:
    """Return the tables as splits, with `valid` held out of `train` if it is missing."""
    splits = {name: Split(name, table) for name, table in tables.items()}
    files = "; ".join(f"{name}: {table.describe()}" for name, table in tables.items())
    meaning = "; ".join(dict.fromkeys(table.meaning() for table in tables.values()))
    summary = f"{files}. {meaning}."
    if held_out and "train" in splits and "valid" not in splits:
        table = tables["train"]
        values = (row.values[0] for row in table.rows())
        train, valid = hold_out(values, held_out, seed, table.describe(), table.base)
        splits |= {"train": Split("train", table, train), "valid": Split("valid", table, valid)}
        total = counted(train.count + valid.count, "part" if table.running else "row")
        summary += f" Held out for validation: {spaced(valid.count)} of {total}."
    ordered = {name: splits[name] for name in SPLITS if name in splits}
    return Corpus({**ordered, **splits}, summary)


def _tables(data: str, request: ColumnRequest) -> tuple[bool, dict[str, Table]]:
    """Return whether there is a single table for all splits, and the tables by split."""
    if data.startswith(builtin.PREFIX):
        return False, {**builtin_tables(data.removeprefix(builtin.PREFIX), request)}
    if data.startswith(HUGGING_FACE) or is_saved(Path(data)):
        return False, {**huggingface_tables(data.removeprefix(HUGGING_FACE), request)}
    single, places = find_places(Path(data), request)
    return single, {name: place.open(request) for name, place in places.items()}


def _missing(split: str, data: str | Path, there: list[str], request: ColumnRequest) -> str:
    if str(data).startswith((builtin.PREFIX, HUGGING_FACE)):
        return f"{data} has no split {split}; its splits are {', '.join(there)}"
    names = " or ".join(f"{name}.*" for name in SPLITS.get(split, (split,)))
    if request.running:
        other = f", or a sub-folder {split} of .txt files"
    elif request.classes:
        other = f", or one sub-folder per class, perhaps inside a folder {split}, or a .zip"
    elif request.images:
        other = ""
    else:
        other = f", or parallel text such as {split}.en and {split}.de"
    return (
        f"{data} has no {names} ({' '.join(FORMATS)}, also followed by .gz or .xz{other}); it "
        f"holds {contents(Path(data))}"
    )


def _require_same_columns(tables: Mapping[str, Table]) -> None:
    """Raise unless all splits have the same columns: an optional one would be dropped silently."""
    splits = {table.columns: name for name, table in tables.items()}
    if len(splits) > 1:
        shown = "; ".join(f"{name} has {', '.join(columns)}" for columns, name in splits.items())
        raise DataError(
            f"the splits differ in their columns: {shown}. Give all splits the same columns"
        )
