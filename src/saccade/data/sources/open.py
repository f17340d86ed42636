"""From what a user points at to a corpus: a folder, a file, parallel texts, `builtin:` or `hf:`."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from saccade.data.corpus import Corpus, Item, Row, Split, Table, items
from saccade.data.sources.archives import BUILTIN, ZIP, open_zip
from saccade.data.sources.columns import Asked, Column, counted, parse_pair, some
from saccade.data.sources.documents import Documents
from saccade.data.sources.formats import FORMATS, open_table
from saccade.data.sources.image_tables import ClassFolders, Idx, IdxFiles, SideBelow, Tree
from saccade.data.sources.layout import (
    SPLITS,
    Place,
    Texts,
    find_beginning,
    find_images,
    find_splits,
    find_texts,
    listing,
)
from saccade.data.sources.parallel_text import Parallel
from saccade.data.validation_split import divide
from saccade.errors import DataError

__all__ = ["Column", "Corpus", "Item", "Row", "Split", "items", "open_corpus"]
HUGGING_FACE = "hf:"


def open_corpus(
    where: str | Path,
    wanted: Sequence[Column],
    *,
    pair: str | None = None,
    columns: Mapping[str, str] | None = None,
    held_out: float = 0.05,
    seed: int = 0,
    required: Sequence[str] = ("train",),
) -> Corpus:
    """Find the splits and their columns; only the beginnings of files are read.

    Without a split `valid`, the share `held_out` of `train` is kept as one, which reads it once.
    One file alone, or a folder of running text or of images without splits, is `train` and
    `valid`; with `held_out` = 0 it is wholly `required[0]`, as for an evaluation of all of it. A
    split of `required` that is not there is an error.
    """
    if not 0 <= held_out < 1:
        raise DataError(f"held_out is a share between 0 and 1, got {held_out}")
    if not 0 <= seed < 2**64:
        raise DataError(f"a seed must be between 0 and 2**64 - 1, got {seed}")
    asked = Asked(
        wanted=tuple(wanted), pair=parse_pair(pair) if pair else None, renamed=dict(columns or {})
    )
    single, tables = _find(str(where), asked)
    if single and not held_out:
        tables = {required[0]: tables["train"]}
    missing = [split for split in required if split not in tables and not single]
    if missing:
        raise DataError(_lacking(missing[0], where, list(tables), asked))
    _require_alike(tables)
    splits = {name: Split(name, table) for name, table in tables.items()}
    files = "; ".join(f"{name}: {table.describe()}" for name, table in tables.items())
    meaning = "; ".join(dict.fromkeys(table.meaning() for table in tables.values()))
    summary = f"{files}. {meaning}."
    if held_out and "train" in splits and "valid" not in splits:
        train = tables["train"]
        base: str = getattr(train, "base", "")  # where images lie, which must not decide
        firsts = (row.values[0].removeprefix(base) for row in train.rows())
        rest, kept = divide(firsts, held_out, seed, train.describe())
        if base:
            rest, kept = SideBelow.of(rest, base), SideBelow.of(kept, base)
        splits |= {"train": Split("train", train, rest), "valid": Split("valid", train, kept)}
        unit = "part" if train.running else "row"
        total, held = counted(rest.count + kept.count, unit), counted(kept.count, unit)
        summary += f" Of {total}, {held} kept back for validation."
    ordered = {name: splits[name] for name in SPLITS if name in splits}
    return Corpus({**ordered, **splits}, summary)


def _find(where: str, asked: Asked) -> tuple[bool, dict[str, Table]]:
    """Whether there is a single table for all, and the tables by split."""
    if where.startswith(BUILTIN):
        from saccade.data import builtin

        return False, {**builtin.tables(where.removeprefix(BUILTIN), asked)}
    path = Path(where)
    if where.startswith(HUGGING_FACE) or _saved_by_datasets(path):
        from saccade.data.sources import huggingface

        return False, {**huggingface.tables(where.removeprefix(HUGGING_FACE), asked)}
    if path.is_dir():
        places = find_splits(path, asked)
        if not places and asked.running and (texts := find_texts(path)):
            return True, {"train": _open(texts, asked)}
        if not places and asked.classes:
            return _images(path, asked)
        return False, {name: _open(place, asked) for name, place in places.items()}
    if path.is_file() and asked.classes and path.suffix.lower() == ZIP:
        return _images(path, asked)
    if path.is_file():
        return True, {"train": open_table(path, asked)}
    if place := find_beginning(path, asked):
        return True, {"train": _open(place, asked)}
    if path.exists():
        raise DataError(f"{path} is neither a file nor a folder")
    if path.parent.is_dir():
        raise DataError(
            f"there is no {path}, nor parallel text that begins with it; {path.parent} holds "
            f"{listing(path.parent)}"
        )
    raise DataError(f"there is no {path}, and no folder {path.parent}")


def _images(path: Path, asked: Asked) -> tuple[bool, dict[str, Table]]:
    places = find_images(path)
    if isinstance(places, Tree):
        return True, {"train": _open(places, asked)}
    return False, {name: _open(place, asked) for name, place in places.items()}


def _open(place: Place | Texts | Tree | IdxFiles, asked: Asked) -> Table:
    if isinstance(place, Texts):
        return Documents(place.folder, place.files, asked.required[0])
    if isinstance(place, Tree):
        return ClassFolders(place, (asked.required[0].name, asked.required[1].name))
    if isinstance(place, IdxFiles):
        return Idx(place, (asked.required[0].name, asked.required[1].name))
    for path in place.files:
        if path.is_dir():
            raise DataError(f"{path} is a folder, where a file is expected")
    if len(place.files) == 1:
        return open_table(place.files[0], asked)
    (first, second), (source, target) = place.files, asked.required
    return Parallel(first, second, (source.name, target.name))


def _lacking(split: str, where: str | Path, there: list[str], asked: Asked) -> str:
    if str(where).startswith((BUILTIN, HUGGING_FACE)):
        return f"{where} has no split {split}; it has {', '.join(there)}"
    names = " or ".join(f"{name}.*" for name in SPLITS.get(split, (split,)))
    if asked.running:
        other = f", or a sub-folder {split} of .txt files"
    elif asked.classes:
        other = f", or a sub-folder for each class, perhaps inside one called {split}, or a .zip"
    elif asked.images:
        other = ""
    else:
        other = f", or parallel text such as {split}.en and {split}.de"
    path = Path(where)
    holds = listing(path) if path.is_dir() else some(open_zip(path).names)
    return (
        f"{where} has no {names} ({' '.join(FORMATS)}, also .gz or .xz after it{other}); it holds "
        f"{holds}"
    )


def _require_alike(tables: Mapping[str, Table]) -> None:
    """An optional column that only some splits have would be lost without a word."""
    columns = {table.columns: name for name, table in tables.items()}
    if len(columns) > 1:
        shown = "; ".join(f"{name} has {', '.join(found)}" for found, name in columns.items())
        raise DataError(f"the splits differ in their columns: {shown}")


def _saved_by_datasets(path: Path) -> bool:
    return (path / "dataset_dict.json").is_file() or (path / "state.json").is_file()
