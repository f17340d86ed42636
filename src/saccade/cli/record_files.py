"""Files of attention records: one page of all, or one figure or JSON file per input."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from saccade.errors import FigureError

if TYPE_CHECKING:
    from saccade.lens.record import AttentionRecord


def require_record_file(path: Path, option: str) -> None:
    """Raise `FigureError` if records cannot be written in the format of this file."""
    from saccade.lens.record import SUFFIXES

    if path.suffix not in SUFFIXES:
        raise FigureError(
            f"{option} {path}: unknown file type {path.suffix!r}; use one of {', '.join(SUFFIXES)}"
        )


@contextmanager
def record_writer(
    path: Path | None, measures: Mapping[str, Any] | None = None
) -> Iterator[Callable[["AttentionRecord", int], object]]:
    """Yield a function that saves the record of an input, numbered from 1.

    A page also has the measures, if there are any.
    """
    if path is None:
        yield lambda record, number: None
    elif path.suffix == ".html":
        with _page_writer(path, measures) as add:
            yield lambda record, number: add(record)
    else:
        yield lambda record, number: record.save(_numbered(path, number))


@contextmanager
def _page_writer(
    path: Path, measures: Mapping[str, Any] | None
) -> Iterator[Callable[["AttentionRecord"], None]]:
    """Collect records and write one page of all, also if an interruption ends the predictions."""
    from saccade.lens.page import page_of, view_model

    models: list[list[Any]] = []  # smaller than the records themselves
    try:
        yield lambda record: models.append([view_model(record)])
    finally:
        if models:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(page_of(models, measures=measures).encode())


def _numbered(path: Path, number: int) -> Path:
    """Return x.png for the first input, x-2.png for the second."""
    return path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")
