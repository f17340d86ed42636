"""saccade evaluate: the metrics of a run on data it was not trained on."""

import json
from pathlib import Path
from typing import Annotated

import typer

from saccade.cli.options import Columns, Data, Device, Engine, Json, Pair, parse_columns
from saccade.cli.output import Sink
from saccade.cli.progress import answering
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
    attention: Annotated[
        bool, typer.Option("--attention", help="Also measure how far to believe its attention.")
    ] = False,
    gold: Annotated[
        Path | None,
        typer.Option(help="Gold alignments, a line a row: 0-0 1-2, or sentence source target S|P."),
    ] = None,
    gold_from_1: Annotated[
        bool, typer.Option("--gold-from-1", help="The i-j pairs of --gold count from 1.")
    ] = False,
    gold_swapped: Annotated[
        bool, typer.Option("--gold-swapped", help="--gold names the word of the target first.")
    ] = False,
    reverse: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Join alignments with those of a run the other way."),
    ] = None,
    device: Device = "auto",
    engine: Engine = "eager",
    pair: Pair = None,
    columns: Columns = None,
    as_json: Json = False,
) -> None:
    """Measure a run on data."""
    if not attention and (gold is not None or reverse is not None):
        raise DataError("--gold and --reverse are for measuring attention: add --attention")
    if gold is None and (gold_from_1 or gold_swapped):
        raise DataError("--gold-from-1 and --gold-swapped say how to read --gold, which is missing")

    from saccade import engines
    from saccade.lens.formatting import in_columns
    from saccade.lens.page.document import shown
    from saccade.training import session
    from saccade.training.console import Console
    from saccade.training.golds import GoldFile

    if output is not None and not output.parent.is_dir():
        raise DataError(f"there is no folder {output.parent} to write {output.name} into")
    links = None
    if gold is not None:
        links = GoldFile(path=gold, first=1 if gold_from_1 else 0, swapped=gold_swapped)
    notify = Console().notify
    task = engines.load(run_folder, device=device, engine=engine or "eager", notify=notify)
    with answering(shown=True) as answered:
        found = session.assess(
            task,
            data=data,
            split=split,
            pair=pair,
            columns=parse_columns(columns),
            attention=session.AttentionOptions(gold=links, reverse=reverse) if attention else None,
            notify=notify,
            batch_size=batch_size,
            on_batch=answered,
            **({} if beam is None else {"beam": beam}),
        )
    if output is not None:
        with Sink(output) as sink:
            for text in found.answers:
                sink.line(text)
    if as_json:
        print(json.dumps(found.as_json(), ensure_ascii=False))
        return
    for name, score in found.scores.items():
        print(score)
        if name in found.meanings:
            print(f"    {found.meanings[name]}")
    for title, rows in found.attention.items():
        cells = [list(rows[0]), *([shown(value) for value in row.values()] for row in rows)]
        print(f"\n{title}:\n{in_columns(cells)}")
    told = "" if found.engine == "eager" else f", answered by the engine {found.engine}"
    print(f"over {len(found.answers):,} items{told}")
