"""JSON and tables of text, as the lens writes them."""

import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
from pydantic_core import to_json

AT_ONCE = 10_000
"""Numbers of an array that are written in one call."""


def readable_json(value: Any) -> str:
    """With letters as they are, save where half a surrogate pair fits in no file."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, allow_nan=False)
    return text


def numbers_json(numbers: np.ndarray, decimals: int) -> Iterator[str]:
    """Yield the numbers of an array as nested lists, rounded, in pieces of JSON.

    Each piece is short, so that other threads of a server get their turns.
    """
    if numbers.ndim > 1 and numbers.size > AT_ONCE:
        for i, part in enumerate(numbers):
            yield ", " if i else "["
            yield from numbers_json(part, decimals)
        yield "]"
    elif np.isfinite(numbers).all():
        yield to_json(np.round(numbers.astype(np.float64), decimals).tolist()).decode()
    else:
        raise ValueError("only finite numbers can be written as JSON")


def in_columns(cells: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> str:
    """Rows of cells as lines of text; the columns in `right` end at one line, others begin at one.

    >>> print(in_columns([["layer", "head"], ["cross.0", "12"]], right=[1]))
    layer    head
    cross.0    12
    """
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(
            cell.rjust(wide) if i in right else cell.ljust(wide)
            for i, (cell, wide) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    ]
    return "\n".join(map(str.rstrip, lines))
