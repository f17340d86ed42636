"""JSON and text tables."""

import json
from collections.abc import Collection, Iterator, Sequence

import numpy as np
from pydantic_core import to_json

AT_ONCE = 10_000
"""The most numbers that one call serialises."""


def readable_json(value: object) -> str:
    """Return a value as JSON, with non-ASCII letters unescaped.

    Letters are escaped only if the text holds a lone surrogate, which cannot be encoded as UTF-8.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, allow_nan=False)
    return text


def numbers_json(numbers: np.ndarray, decimals: int) -> Iterator[str]:
    """Yield an array as nested JSON lists, rounded, in short pieces.

    Serialising holds the interpreter lock, so short pieces let other threads of a server run.

    Raises:
        ValueError: if a number is NaN or infinite.
    """
    if numbers.ndim > 1 and numbers.size > AT_ONCE:
        for i, part in enumerate(numbers):
            yield ", " if i else "["
            yield from numbers_json(part, decimals)
        yield "]"
    elif np.isfinite(numbers).all():
        yield to_json(np.round(numbers.astype(np.float64), decimals).tolist()).decode()
    else:
        raise ValueError("JSON holds finite numbers only; this array has NaN or infinity")


def in_columns(cells: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> str:
    """Return rows of cells as lines of aligned text.

    Args:
        cells: the rows, all of the same number of cells.
        right: the columns to align at their right end; the others are aligned at their left end.

    Example:
        >>> print(in_columns([["layer", "head"], ["cross.0", "12"]], right=[1]))
        layer    head
        cross.0    12
    """
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    ]
    return "\n".join(map(str.rstrip, lines))
