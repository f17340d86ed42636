"""Data sets of the Hugging Face hub (`hf:NAME`, `hf:NAME:CONFIG`), and folders saved by `datasets`.

A column of dictionaries, such as `translation` = {"en": …, "de": …}, counts as its keys.
"""

import importlib
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

from saccade.data.sources.columns import ColumnMatch, ColumnRequest, match_names, quoted
from saccade.data.sources.formats import Record, texts_of
from saccade.data.sources.generated import GeneratedTable
from saccade.data.sources.layout import SPLITS
from saccade.errors import DataError, brief

HUGGING_FACE = "hf:"


def is_saved(folder: Path) -> bool:
    """Return whether a folder was written by `datasets`."""
    return (folder / "dataset_dict.json").is_file() or (folder / "state.json").is_file()


def huggingface_tables(name: str, request: ColumnRequest) -> dict[str, GeneratedTable]:
    """Return the splits of a data set, by our names for them."""
    parts = _load(name)
    names = {**SPLITS, "valid": (*SPLITS["valid"], "validation")}
    chosen = {split: other for split, others in names.items() for other in others if other in parts}
    if not chosen:
        raise DataError(
            f"{HUGGING_FACE}{name} has the splits {', '.join(parts)}; expected train, validation "
            "or test"
        )
    return {
        split: _table(f"{HUGGING_FACE}{name} ({other})", parts[other], request)
        for split, other in chosen.items()
    }


def _load(name: str) -> Mapping[str, Iterable[Record]]:
    try:
        datasets = importlib.import_module("datasets")
    except ImportError as error:
        raise DataError(
            f'{name} needs datasets: pip install "saccade-attention[hf]"; '
            "or give a file or folder instead"
        ) from error
    try:
        if Path(name).is_dir():
            loaded = datasets.load_from_disk(name)
        else:
            dataset, _, config = name.partition(":")
            loaded = datasets.load_dataset(dataset, config or None)
    except Exception as error:  # the hub, the network and the files each have their own errors
        raise DataError(
            f"datasets cannot load {name}: {brief(error)}. Check the name and the network, or "
            "give a file or folder instead"
        ) from error
    return loaded if isinstance(loaded, Mapping) else {"train": loaded}


def _table(origin: str, part: Iterable[Record], request: ColumnRequest) -> GeneratedTable:
    first = next(iter(part), None)
    if first is None:
        raise DataError(f"{origin} has no rows; choose another data set or split")
    names = tuple(_flat(first))
    advice = f"Its columns are {', '.join(map(quoted, names))}."
    match = match_names(names, request, origin, advice)
    return GeneratedTable(origin, match, partial(_rows, origin, part, match))


def _rows(origin: str, part: Iterable[Record], match: ColumnMatch) -> Iterator[tuple[str, ...]]:
    names = _label_names(part)
    for number, record in enumerate(part, 1):
        named = {column: _label(record[column], names[column]) for column in names}
        yield texts_of(_flat({**record, **named}), match, f"{origin}:{number}")


def _label_names(part: Iterable[Record]) -> dict[str, list[str]]:
    """Return the names of the classes of each column that holds them as numbers."""
    features = getattr(part, "features", None) or {}
    kinds = {column: getattr(kind, "feature", kind) for column, kind in features.items()}
    return {column: list(kind.names) for column, kind in kinds.items() if hasattr(kind, "int2str")}


def _label(value: object, names: list[str]) -> object:
    """Return the names of one or several classes; -1, a hidden label, stays as it is."""
    if isinstance(value, list):
        return [_label(one, names) for one in value]
    return names[value] if isinstance(value, int) and value >= 0 else value


def _flat(record: Record) -> Record:
    flat: dict[str, object] = {}
    for name, value in record.items():
        flat |= value if isinstance(value, dict) else {name: value}
    return flat
