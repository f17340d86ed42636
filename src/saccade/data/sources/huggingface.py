"""Data sets of the Hugging Face hub (`hf:NAME`, `hf:NAME:CONFIG`), or folders saved by `datasets`.

A column of dictionaries, such as `translation` = {"en": …, "de": …}, counts as its keys.
"""

import importlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from saccade.data.sources.columns import Asked, Taken, by_name, quoted
from saccade.data.sources.formats import texts_of
from saccade.data.sources.generated import Made
from saccade.data.sources.layout import SPLITS
from saccade.errors import DataError


def tables(name: str, asked: Asked) -> dict[str, Made]:
    """The splits of a data set, by our names for them."""
    loaded = _load(name)
    parts = loaded if isinstance(loaded, Mapping) else {"train": loaded}
    splits = {
        split: (called, parts[called])
        for split, others in SPLITS.items()
        for called in (*others, "validation")
        if called in parts and (called != "validation" or split == "valid")
    }
    if not splits:
        raise DataError(f"hf:{name} has none of train, validation, test; it has {', '.join(parts)}")
    return {
        split: _table(f"hf:{name} ({called})", part, asked)
        for split, (called, part) in splits.items()
    }


def _load(name: str) -> Any:
    try:
        datasets: Any = importlib.import_module("datasets")
    except ImportError as error:
        raise DataError(f'{name} needs datasets: pip install "saccade[hf]"') from error
    try:
        if Path(name).is_dir():
            return datasets.load_from_disk(name)
        called, _, config = name.partition(":")
        return datasets.load_dataset(called, config or None)
    except Exception as error:  # the hub, the network and the files each have their own errors
        raise DataError(f"datasets cannot load {name}: {error}") from error


def _table(origin: str, part: Any, asked: Asked) -> Made:
    first = next(iter(part), None)
    if first is None:
        raise DataError(f"{origin} has no rows")
    names = tuple(_flat(first))
    advice = f"Its columns are {', '.join(map(quoted, names))}."
    taken = by_name(names, asked, origin, advice)
    return Made(origin, taken, _reader(origin, part, taken))


def _label_names(part: Any) -> dict[str, list[str]]:
    """Return the names of the classes of each column that holds them as numbers."""
    features = getattr(part, "features", None) or {}
    return {
        column: list(feature.names)
        for column, feature in features.items()
        if hasattr(feature, "int2str")
    }


def _reader(origin: str, part: Any, taken: Taken) -> Callable[[], Iterator[tuple[str, ...]]]:
    named = _label_names(part)

    def read() -> Iterator[tuple[str, ...]]:
        for number, record in enumerate(part, 1):
            labels = {
                column: names[record[column]]
                for column, names in named.items()
                if record[column] in range(len(names))  # -1 marks a hidden label
            }
            yield texts_of(_flat({**record, **labels}), taken, f"{origin}, row {number}")

    return read


def _flat(record: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in record.items():
        flat |= value if isinstance(value, dict) else {name: value}
    return flat
