"""saccade evaluate: the metrics of a run on data it was not trained on."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saccade.cli.options import (
    BatchSize,
    Beam,
    Columns,
    Data,
    Device,
    Engine,
    NoSamples,
    Pair,
    RunFolder,
    SkipBroken,
)
from saccade.cli.output import LineWriter, counted, prediction_progress, print_score
from saccade.errors import DataError

if TYPE_CHECKING:
    from saccade.tasks import Baseline, Evaluation

CLASSES = 30
"""The maximum number of classes whose precision and recall are printed."""


def run(
    run_folder: RunFolder,
    *,
    data: Data,
    split: Annotated[
        str,
        typer.Option(
            metavar="SPLIT",
            help="Split to measure on: train, valid or test. A single file is used completely; "
            "with valid, only the rows that training held out of it, if the run was trained on it.",
        ),
    ] = "test",
    beam: Beam = None,
    batch_size: BatchSize = 64,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write the predictions to this file, one per line. Default: no file.",
        ),
    ] = None,
    attention: Annotated[
        bool,
        typer.Option(
            "--attention", help="Also measure how faithful the attention weights are (slower)."
        ),
    ] = False,
    gold: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Gold word alignments, one line per row: 0-0 1-2, or `sentence source target "
            "S|P`. Needs --attention. Default: the data's column alignment, if there is one.",
        ),
    ] = None,
    gold_from_1: Annotated[
        bool,
        typer.Option("--gold-from-1", help="Words of the i-j pairs in --gold are counted from 1."),
    ] = False,
    gold_swapped: Annotated[
        bool,
        typer.Option("--gold-swapped", help="Pairs in --gold name the target word first."),
    ] = False,
    reverse: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="Run of the opposite translation direction, whose alignments are joined with this "
            "run's. Needs --attention. Default: alignments of this run alone.",
        ),
    ] = None,
    device: Device = "auto",
    engine: Engine = "eager",
    pair: Pair = None,
    columns: Columns = None,
    no_samples: NoSamples = False,
    skip_broken: SkipBroken = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print one JSON object with all metrics; fractions stay fractions."
        ),
    ] = False,
) -> None:
    """Measure a run on data: metrics with 95 % confidence intervals.

    Each line has the metric, its value, its interval, and the signature that makes it comparable
    with other systems.
    """
    if not attention and (gold is not None or reverse is not None):
        raise DataError("--gold and --reverse are used to measure attention; add --attention")
    if gold is None and (gold_from_1 or gold_swapped):
        raise DataError(
            "--gold-from-1 and --gold-swapped describe the file of --gold, which is missing; add "
            "--gold FILE"
        )
    if output is not None:
        _require_writable(output, no_samples=no_samples)

    from saccade import engines
    from saccade.data.sources.columns import parse_columns
    from saccade.lens.alignment.gold import GoldFile
    from saccade.training import session
    from saccade.training.baselines import DataPlace, baseline_remarks, baselines_on
    from saccade.training.console import Console
    from saccade.training.run import Run

    alignments = None
    if gold is not None:
        alignments = GoldFile(path=gold, first=1 if gold_from_1 else 0, swapped=gold_swapped)
    options = session.AttentionOptions(gold=alignments, reverse=reverse) if attention else None
    console = Console()
    notify = console.notify
    with console.working(f"loading {run_folder}"):
        task = engines.load(run_folder, device=device, engine=engine, notify=notify)
    with prediction_progress() as progress:
        evaluation = session.assess(
            task,
            data=data,
            split=split,
            pair=pair,
            columns=columns,
            run=run_folder,
            skip_broken=skip_broken,
            attention=options,
            notify=notify,
            batch_size=batch_size,
            on_batch=progress,
            **({} if beam is None else {"beam": beam}),
        )
    evaluation = evaluation.without_samples() if no_samples else evaluation
    place = DataPlace(data=str(data), pair=pair, columns=parse_columns(columns) or None)
    baselines = baselines_on(
        Run(run_folder), task, evaluation.items, split=split, place=place, notify=notify
    )
    result, remarks = baseline_remarks(Run(run_folder), task, evaluation.scores, baselines)
    if output is not None:
        with LineWriter(output) as writer:
            for text in evaluation.answers:
                writer.write(text)
    if as_json:
        table = evaluation.as_json()
        table["baselines"] = [baseline.as_json() for baseline in baselines]
        table["against_baseline"] = None if result is None else result.as_json()
        print(json.dumps(table, ensure_ascii=False))
        return
    _print_scores(evaluation)
    _print_baselines(baselines, task.comparison_metric, split)
    if result is not None and not result.beats:
        print("\n".join(remarks))
    for remark in evaluation.remarks:
        notify(remark)


def _print_scores(evaluation: "Evaluation") -> None:
    """Print the metrics, those of each class, and the measures of attention."""
    from saccade.lens.formatting import in_columns
    from saccade.lens.page.document import shown

    for name, score in evaluation.scores.items():
        print_score(score)
        if name in evaluation.meanings:
            print(f"    {evaluation.meanings[name]}")
    if evaluation.per_class:
        _print_classes(evaluation.per_class)
    for title, rows in evaluation.attention.items():
        cells = [list(rows[0]), *([shown(value) for value in row.values()] for row in rows)]
        print(f"\n{title}:\n{in_columns(cells)}")
    by = "" if evaluation.engine == "eager" else f" with the engine {evaluation.engine}"
    print(f"measured on {counted(len(evaluation.answers), 'item')}{by}")


def _require_writable(output: Path, *, no_samples: bool) -> None:
    """Raise if predictions must not or cannot be written to a file."""
    if no_samples:
        raise DataError(
            "--no-samples keeps texts out of files, and --output writes predictions to one; leave "
            "out one of them"
        )
    if not output.parent.is_dir():
        raise DataError(
            f"--output {output}: the folder {output.parent} does not exist; create it or choose "
            "another file"
        )


def _print_classes(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print precision, recall, F1 and support of each class; of very many, the first ones."""
    from saccade.lens.formatting import in_columns

    fractions = ("precision", "recall", "f1")
    cells = [["class", "precision", "recall", "F1", "support"]]
    for row in rows[:CLASSES]:
        values = [f"{100 * row[name]:.1f} %" for name in fractions]
        cells.append([row["label"], *values, f"{row['support']:,}"])
    more = f"\nand {len(rows) - CLASSES:,} more, see --json" if len(rows) > CLASSES else ""
    print(f"{in_columns(cells, right=range(1, 5))}{more}")


def _print_baselines(baselines: "Sequence[Baseline]", metric: str, split: str) -> None:
    """Print each baseline with one metric, and the split if it is another than that of the run."""
    for baseline in baselines:
        if metric in baseline.scores:
            where = "" if baseline.split == split else f", on the {baseline.split} split"
            note = f", {baseline.note}" if baseline.note else ""
            print(f"{baseline.kind} baseline: {baseline.name}{where}{note}")
            print_score(baseline.scores[metric], "    ")
