"""Open a data set: a folder, a file, parallel texts, `builtin:NAME` or `hf:NAME`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
from saccade.data.sources.image_tables import IntactFiles, Tree, suffixes_of
from saccade.data.sources.layout import SPLITS, contents, find_places
from saccade.data.sources.text_files import suffix_of
from saccade.data.suffixes import SUFFIXES
from saccade.data.validation_split import (
    ENOUGH,
    GIVEN,
    HASH,
    RULES,
    STRATIFIED,
    LabelValues,
    RowKey,
    SplitRecord,
    compare_given,
    hold_out,
    hold_out_by_hash,
)
from saccade.errors import BrokenImagesError, DataError, SplitError, joined


def open_corpus(
    data: str | Path,
    task_columns: Sequence[Column],
    *,
    pair: str | None = None,
    columns: ColumnNames | None = None,
    valid_fraction: float | None = None,
    rule: str = STRATIFIED,
    seed: int = 0,
    required: Sequence[str] = ("train",),
    skip_broken: bool = False,
    tolerant: bool = False,
) -> Corpus:
    """Find the splits of a data set and their columns.

    Without a split `valid`, rows of `train` are held out, which reads the table once. A single
    file, or a folder of running text or of images without splits, is both `train` and `valid`.
    Where the data has both, they are read once to report inputs that both contain. With a
    `valid_fraction` of 0, only the beginnings of files are read.

    Args:
        data: A folder, a file, a pattern such as `shards/*.jsonl`, the common beginning of two
            parallel files, `builtin:NAME` or `hf:NAME`.
        task_columns: The columns to read.
        pair: Source and target language of parallel text, as in `en-de`.
        columns: Names of columns in the files, or numbers from 1 for files without a header, by
            the name of the column in `task_columns`; also as in "source=english,target=french".
        valid_fraction: The fraction of `train` to hold out for validation, from 0 up to 1. By
            default 10 % of the rows, at least 100, but at most 20 % and about 2000. With 0 nothing
            is held out, and a single file is `required[0]`, for evaluation.
        rule: How rows are held out: "stratified" by label, or "hash", the rule of runs that record
            no split.
        seed: The seed that decides which rows are held out.
        required: The splits that must exist.
        skip_broken: Whether rows are left out whose image or vector file is missing or damaged,
            which reads every file once.
        tolerant: Whether rows that cannot be read, such as those with too many fields, are left
            out; `Split.broken` lists them.

    Returns:
        The splits, a summary of the recognised files and columns, and the record of the split.

    Raises:
        DataError: A file, a column or a split is missing, or a file is damaged. The message names
            the file, the line and what is expected.
        BrokenImagesError: Images or vector files that a table names are missing.

    Example:
        >>> corpus = open_corpus("builtin:copy", [Column("source"), Column("target")])
        >>> next(iter(corpus.splits["train"])).values
        ('s s p f s', 's s p f s')
    """
    if valid_fraction is not None and not 0 <= valid_fraction < 1:
        raise DataError(
            f"the fraction of rows for validation must be between 0 and 1, got {valid_fraction}; "
            "0.1 holds out 10 %"
        )
    if not 0 <= seed < 2**64:
        raise DataError(f"seed must be between 0 and 2**64 - 1, got {seed}; choose another seed")
    if rule not in RULES:
        raise DataError(
            f"{rule!r} is not a known rule of splits; expected one of {', '.join(RULES)}. A newer "
            "Saccade may know it: upgrade"
        )
    request = ColumnRequest(
        columns=tuple(task_columns),
        pair=parse_pair(pair) if pair else None,
        renamed=parse_columns(columns),
        skip_broken=skip_broken,
        tolerant=tolerant,
    )
    single, tables = _tables(str(data), request)
    if single and valid_fraction == 0:
        tables = {required[0]: tables["train"]}
    for split in required:
        if split not in tables and not single:
            raise DataError(_missing(split, data, list(tables), request))
    _require_same_columns(tables)
    intact = _intact(tables, request) if skip_broken else {}
    tables |= intact
    corpus = _corpus(tables, intact)
    if valid_fraction == 0 or "train" not in tables:
        return corpus
    splitter = _Splitter(request, valid_fraction, seed, rule)
    if "valid" not in tables:
        corpus = splitter.held_out(corpus, tables["train"])
    elif not str(data).startswith(builtin.PREFIX):
        corpus = replace(corpus, record=splitter.given(tables["train"], tables["valid"]))
    else:
        corpus = replace(corpus, record=SplitRecord(GIVEN))
    corpus.splits["train"].companions = (corpus.splits["valid"],)
    assert corpus.record is not None
    return replace(corpus, remarks=(*corpus.remarks, *corpus.record.remarks))


@dataclass(frozen=True)
class _Splitter:
    """The rule by which rows are held out."""

    request: ColumnRequest
    fraction: float | None
    seed: int
    rule: str

    def held_out(self, corpus: Corpus, table: Table) -> Corpus:
        """Return the corpus with `valid` held out of `train`."""
        rows, where = (row.values for row in table.rows()), table.describe()
        label = self._label(table)
        if self.rule == HASH:
            old_key = RowKey(self.seed, base=table.base, strip=False)
            partition = hold_out_by_hash(rows, old_key, where, fraction=self.fraction)
        else:
            row_key = self._row_key(table)
            partition = hold_out(
                rows,
                row_key,
                where,
                fraction=self.fraction,
                label=label,
                least=1 if table.running else ENOUGH,  # parts of a text are long
            )
        train, valid = partition.train, partition.valid
        splits = {
            **corpus.splits,
            "train": Split("train", table, train),
            "valid": Split("valid", table, valid),
        }
        total = counted(train.count + valid.count, "part" if table.running else "row")
        how = ", stratified by label" if partition.record.labels else ""
        summary = (
            f"{corpus.summary} Held out for validation: {spaced(valid.count)} of {total}{how}."
        )
        return replace(corpus, splits=_ordered(splits), summary=summary, record=partition.record)

    def given(self, train: Table, valid: Table) -> SplitRecord:
        """Return the record of a validation set that the data has, with the rows it shares."""
        broken: list[BrokenImagesError] = []
        record = compare_given(
            _values(train, broken), _values(valid, broken), self._row_key(train), self._label(train)
        )
        if broken:
            raise joined(broken)
        if self.fraction is None:
            return record
        unused = (
            f"the validation fraction of {self.fraction} has no effect, because the data has a "
            "validation set of its own"
        )
        return replace(record, remarks=(*record.remarks, unused))

    def _label(self, table: Table) -> LabelValues | None:
        """Return the column of labels, if the table has one."""
        by_name = {column.name: column for column in self.request.columns}
        for place, name in enumerate(table.columns):
            if by_name[name].label:
                return LabelValues(place, by_name[name].separator)
        return None

    def _row_key(self, table: Table) -> RowKey:
        """Return the hash of a row's inputs: all columns but the label, or the first one."""
        label = self._label(table)
        places = range(len(table.columns)) if label else range(1)
        inputs = tuple(place for place in places if label is None or place != label.place)
        return RowKey(self.seed, inputs, table.base)


def _values(table: Table, broken: list[BrokenImagesError]) -> Iterator[tuple[str, ...]]:
    """Yield the values of all rows; an error about missing files is collected, not raised."""
    try:
        for row in table.rows():
            yield row.values
    except BrokenImagesError as error:
        broken.append(error)


def _corpus(tables: Mapping[str, Table], intact: Mapping[str, IntactFiles]) -> Corpus:
    """Return the tables as splits, with all their rows; `intact` are those without some files."""
    files = "; ".join(f"{name}: {table.describe()}" for name, table in tables.items())
    meaning = "; ".join(dict.fromkeys(table.meaning() for table in tables.values()))
    splits = {name: Split(name, table) for name, table in tables.items()}
    return Corpus(
        splits=_ordered(splits),
        summary=f"{files}. {meaning}.",
        remarks=tuple(
            f"{name}: {table.left_out}, the first: {table.problems[0]}"
            for name, table in intact.items()
        ),
        skipped={name: len(table.problems) for name, table in intact.items()},
        languages=next((table.languages for table in tables.values() if table.languages), None),
    )


def _ordered(splits: Mapping[str, Split]) -> dict[str, Split]:
    return {**{name: splits[name] for name in SPLITS if name in splits}, **splits}


def _intact(tables: Mapping[str, Table], request: ColumnRequest) -> dict[str, IntactFiles]:
    """Return the tables that have broken images or vector files, without these."""
    if (column := request.file_column) is None:
        raise DataError(
            "--skip-broken is for images and vector files, and this task reads neither; leave it "
            "out"
        )
    checked = {name: IntactFiles(table, column) for name, table in tables.items()}
    return {name: table for name, table in checked.items() if table.problems}


def _tables(data: str, request: ColumnRequest) -> tuple[bool, dict[str, Table]]:
    """Return whether there is a single table for all splits, and the tables by split."""
    if data.startswith(builtin.PREFIX):
        return False, {**builtin_tables(data.removeprefix(builtin.PREFIX), request)}
    if data.startswith(HUGGING_FACE) or is_saved(Path(data)):
        return False, {**huggingface_tables(data.removeprefix(HUGGING_FACE), request)}
    single, places = find_places(Path(data), request)
    tables: dict[str, Table] = {}
    for name, place in places.items():
        try:
            tables[name] = place.open(request)
        except DataError as error:
            if not tables:
                raise
            raise SplitError(str(error)) from error
    return single, tables


def _missing(split: str, data: str | Path, there: list[str], request: ColumnRequest) -> str:
    if str(data).startswith((builtin.PREFIX, HUGGING_FACE)):
        return f"{data} has no split {split}; its splits are {', '.join(there)}"
    if not Path(data).exists():  # a pattern
        return (
            f"no file that matches {data} is named after {split}, only after {', '.join(there)}; "
            "choose a pattern that matches more"
        )
    known = SPLITS.get(split, (split,))
    short = (name for name in known if name == split or not name.startswith(split))
    names = " or ".join(f"{name}.*" for name in short)
    if request.running:
        other = f", or a sub-folder {split} of .txt files"
    elif request.classes:
        other = f", or one sub-folder per class, perhaps inside a folder {split}, or a .zip"
    elif request.file_column:
        other = ""
    else:
        other = f", or parallel text such as {split}.en and {split}.de"
    return (
        f"{data} has no {names} ({' '.join(FORMATS)}, also followed by .gz or .xz{other}); it "
        f"holds {contents(Path(data))}. {_remedy(split, Path(data), request)}"
    )


def _remedy(split: str, path: Path, request: ColumnRequest) -> str:
    """Return what to do about a folder or a zip that has no files of a split."""
    files = [name for name in path.iterdir() if suffix_of(name) in FORMATS] if path.is_dir() else []
    if files:
        first = min(files, key=lambda file: (split not in file.name.lower(), file))
        one = "" if len(files) == 1 else "one of them, such as "
        return f"Rename {one}{first.name} to {split}{suffix_of(first)}, or give {first} itself"
    suffixes = suffixes_of(request.required[0])
    tree = Tree.of(path, suffixes if request.classes else SUFFIXES)
    if len(tree.classes) > 1 and not request.file_column:
        return "Its sub-folders hold images: choose a recipe for images, such as cnn-small"
    if tree.examples and not tree.folders:
        file = request.required[0] if request.classes else Column("image", image=True)
        only = f"Only {next(iter(tree.classes))}/ holds {file.noun}s" if tree.classes else ""
        return (
            f"{only or f'Its {file.noun}s are not in sub-folders'}: a classifier needs one "
            f"sub-folder per class, at least two. Or add a table {split}.csv with the columns "
            f"{file.name} and label"
        )
    if request.classes and not tree.examples:
        return f"None of its files is one of {' '.join(suffixes)}: check the path"
    return f"Check the path, or add {split} data"


def _require_same_columns(tables: Mapping[str, Table]) -> None:
    """Raise unless all splits have the same columns: an optional one would be dropped silently."""
    splits = {table.columns: name for name, table in tables.items()}
    if len(splits) > 1:
        shown = "; ".join(f"{name} has {', '.join(columns)}" for columns, name in splits.items())
        raise DataError(
            f"the splits differ in their columns: {shown}. Give all splits the same columns"
        )
