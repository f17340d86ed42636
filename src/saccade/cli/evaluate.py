"""saccade evaluate: the metrics of a run on data it was not trained on."""

import json
from pathlib import Path
from typing import Annotated

import typer

from saccade.cli.options import Columns, Data, Device, Json, Pair, parse_columns
from saccade.cli.progress import answering
from saccade.cli.sink import Sink
from saccade.errors import DataError


def run(
    run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    *,
    data: Data,
    split: Annotated[
        str, typer.Option(help="train, valid or test; a file is taken whole.")
    ] = "test",
    beam: Annotated[int | None, typer.Option(min=1, help="The recipe's if left out.")] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Inputs answered at once.")] = 64,
    output: Annotated[
        Path | None, typer.Option(help="Write the answers here, a line each.")
    ] = None,
    device: Device = "auto",
    pair: Pair = None,
    columns: Columns = None,
    as_json: Json = False,
) -> None:
    """Measure a run on data."""
    from saccade.training import session
    from saccade.training.screen import Screen

    if output is not None and not output.parent.is_dir():
        raise DataError(f"there is no folder {output.parent} to write {output.name} into")
    task = session.load(run_folder, device=device)
    with answering(batch_size, shown=True) as answered:
        found = session.assess(
            task,
            data=data,
            split=split,
            pair=pair,
            columns=parse_columns(columns),
            say=Screen().say,
            batch_size=batch_size,
            stop=answered,
            **({} if beam is None else {"beam": beam}),
        )
    if output is not None:
        with Sink(output) as sink:
            for text in found.answers:
                sink.line(text)
    if as_json:
        print(json.dumps(found.as_json(), ensure_ascii=False))
        return
    for score in found.scores.values():
        print(score)
    print(f"over {len(found.answers):,} items")
