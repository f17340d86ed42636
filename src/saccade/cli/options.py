"""Options that several verbs have, and how their text is read."""

from pathlib import Path
from typing import Annotated

import typer

from saccade.errors import DataError

Data = Annotated[
    str,
    typer.Option(
        help="A folder with train.*, valid.*, test.*; one file; builtin:NAME; or hf:NAME."
    ),
]
Pair = Annotated[
    str | None,
    typer.Option(help="The languages of parallel text files, source first: en-de."),
]
Columns = Annotated[
    str | None,
    typer.Option(
        help="Which columns to read: source=english,target=french; numbers (from 1) for files "
        "without a header."
    ),
]
Cache = Annotated[
    Path | None,
    typer.Option(help="Where encoded data is kept.", envvar="SACCADE_CACHE", show_default=False),
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]
Precision = Annotated[str, typer.Option(help="auto, float32 or bfloat16.")]
Threads = Annotated[
    int | None, typer.Option(min=1, help="Processor threads; all cores if left out.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]
Engine = Annotated[
    str | None,
    typer.Option(help="What answers: auto, eager, ctranslate2 (int8) or ctranslate2-float32."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def parse_columns(text: str | None) -> dict[str, str] | None:
    """From "source=english,target=french" to a table."""
    if text is None:
        return None
    table = {}
    for part in text.split(","):
        name, equals, column = part.partition("=")
        if not equals or not name.strip() or not column.strip():
            raise DataError(f"--columns takes name=column,name=column; got {text!r}")
        table[name.strip()] = column.strip()
    return table
