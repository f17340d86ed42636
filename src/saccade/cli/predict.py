"""saccade predict: predictions for arguments, a file or a pipe, in the order of the inputs."""

import json
import os
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saccade.cli.alignments import WordAligner, alignment_json, predict_lines, predict_markup
from saccade.cli.inputs import FILES, Inputs, broken_files
from saccade.cli.options import BatchSize, Beam, Device, OptionalEngine, RunFolder
from saccade.cli.output import LineWriter, prediction_progress
from saccade.cli.record_files import record_writer, require_record_file
from saccade.errors import BrokenImagesError, DataError, DecodingError

if TYPE_CHECKING:
    from saccade.tasks import Aligns, Answer, Predictor

CHUNK = 4096
"""Inputs that are sorted by length and predicted together."""


def run(
    run_folder: RunFolder,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="INPUT",
            help="Inputs to predict: texts, paths of images or .npy files, or a folder of images, "
            ".npy or .txt files (folder/), whose names are printed before a tab. Default: lines of "
            "--input or of stdin.",
        ),
    ] = None,
    *,
    input_: Annotated[
        Path | None,
        typer.Option(
            "--input",
            metavar="FILE",
            help="Text file with one input per line, also .gz, or a folder of images, .npy or .txt "
            "files. Default: stdin, if there are no INPUT arguments.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the predictions to this file. Default: stdout."),
    ] = None,
    beam: Beam = None,
    n_best: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="N",
            help="Answers per input, one per line, best first. Needs beam search.",
        ),
    ] = 1,
    sample: Annotated[
        bool, typer.Option("--sample", help="Sample tokens at random instead of beam search.")
    ] = False,
    temperature: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            metavar="T",
            help="Divide the logits by T before sampling: below 1 sharpens the distribution, above "
            "1 flattens it, 0 is greedy search. Implies --sample. Default: the recipe's value.",
        ),
    ] = None,
    top_k: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="K",
            help="Sample from the K most likely tokens. Implies --sample. Default: the recipe's "
            "value.",
        ),
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=1.0,
            metavar="P",
            help="Nucleus sampling: sample from the smallest set of tokens whose probabilities sum "
            "to P. Implies --sample. Default: the recipe's value.",
        ),
    ] = None,
    max_length: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Maximum length of an answer, in tokens. Default: the recipe's value.",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Random seed of sampling for the first input; each further input uses the next "
            "integer. Default: the recipe's value, usually 0.",
        ),
    ] = None,
    split_long: Annotated[
        bool | None,
        typer.Option(
            "--split-long/--no-split-long",
            help="Answer the lines of a text, and the sentences of a line that is too long for the "
            "model, one by one and join the answers; or cut what is too long. For text-to-text "
            "models. Default: the recipe's value, usually --split-long.",
        ),
    ] = None,
    skip_broken: Annotated[
        bool,
        typer.Option(
            "--skip-broken",
            help="Leave out images that are missing or damaged, report how many, and print the "
            "name of each image before its prediction and a tab. Default: they are an error that "
            "lists them.",
        ),
    ] = False,
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="I/N",
            help="Predict only part I of N, counted from 1, of the inputs. Parts are contiguous: "
            "the outputs of 1/N to N/N, one after another, are the output for all inputs. Not for "
            "stdin. Default: all inputs.",
        ),
    ] = None,
    batch_size: BatchSize = 64,
    align: Annotated[
        bool,
        typer.Option(
            "--align",
            help="Append word alignments after a tab, in Pharaoh format: i-j links word i of the "
            "input with word j of the answer, from 0.",
        ),
    ] = False,
    reverse: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="Run of the opposite translation direction, whose alignments are joined with this "
            "run's. Implies --align. Default: alignments of this run alone.",
        ),
    ] = None,
    markup: Annotated[
        bool,
        typer.Option(
            "--markup", help="Carry inline tags (<b>…</b>) of the inputs over to the answers."
        ),
    ] = False,
    attention: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the attention weights: .html is one page with all inputs; .png, .svg, "
            ".json and .npz are one file per input (FILE-2 for the second). Default: none.",
        ),
    ] = None,
    stream: Annotated[
        bool,
        typer.Option(
            "--stream",
            help="Print the text while it is generated, for one INPUT of a language model. Always "
            "on in a terminal.",
        ),
    ] = False,
    device: Device = "auto",
    engine: OptionalEngine = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per input instead of text.")
    ] = False,
) -> None:
    """Translate, classify, caption or continue inputs with a run.

    Inputs are arguments, lines of --input FILE, files of a folder, or lines of stdin. Predictions
    are printed in the order of the inputs, one per line; the answer to a single INPUT of several
    lines has lines, too. On a terminal, labels are printed with their confidence.
    """
    given = Inputs(inputs, input_, shard)
    if output is not None and input_ is not None and _same_file(output, input_):
        raise DataError(f"--output would overwrite the --input {input_}; choose another file")
    samples = sample or any(option is not None for option in (temperature, top_k, top_p))
    if samples and n_best > 1:
        raise DecodingError(
            "--n-best needs beam search and cannot be combined with sampling; to sample several "
            "answers, repeat the input"
        )
    align = align or reverse is not None
    if markup and (align or n_best > 1):
        raise DecodingError(
            "--markup cannot be combined with --align, --reverse or --n-best; run them separately"
        )
    options = {
        "beam": beam,
        "num_best": n_best if n_best > 1 else None,
        "sample": samples or None,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "max_length": max_length,
        "seed": seed,
        "split": None if split_long is None else ("none", "sentences")[split_long],
    }
    chosen: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    looks = align or markup or attention is not None
    plain = output is None and n_best == 1 and not looks and not as_json
    single = given.lone if plain else None
    if stream and single is None:
        raise DecodingError(
            "--stream needs exactly one INPUT and cannot be combined with --output, --json, "
            "--n-best, --align, --markup, --attention or --shard"
        )

    from saccade.tasks import Streams

    if attention is not None:
        require_record_file(attention, "--attention")
    task = _load(run_folder, device, engine, with_torch=looks)
    given.open(task.reads)
    if given.folder is not None:
        single = None
    _require_capable(task, align=align, markup=markup, stream=stream, single=single is not None)
    _require_usable_files(task, given, skip=skip_broken)
    back = None if reverse is None else _load_translator(reverse, device)
    aligner = WordAligner(back) if align else None
    live = stream or (_on_terminal() and engine in (None, "eager"))  # only eager can stream
    if single is not None and live and isinstance(task, Streams):
        _print_stream(single, task.stream(single, **chosen))
        return
    chunks = given.chunks(batch_size if looks else CHUNK)  # records are large
    first = next(chunks, [])  # before the output is opened: unreadable input must not truncate it
    has_lines = given.lone is not None and "\n" in given.lone.strip()
    done = start = given.start
    total = given.known() if _shows_progress(output) else None
    confident = output is None and _on_terminal()  # for people, not programs
    with (
        LineWriter(output) as writer,
        prediction_progress(shown=bool(total), total=total) as progress,
        record_writer(attention) as save_attention,
    ):
        for lines in chain([first] if first else [], chunks):
            answers = (predict_markup if markup else predict_lines)(
                task,
                lines,
                attention=looks,
                batch_size=batch_size,
                first=done,
                on_batch=progress,
                **chosen,
            )
            for line, answer in zip(lines, answers, strict=True):
                done += 1
                if answer.attention is not None:
                    save_attention(answer.attention, done)
                name = line if skip_broken else None
                if given.folder is not None:
                    name = given.folder.names[done - start - 1]
                for text in _output_lines(
                    line, answer, n_best, aligner, name, as_json=as_json, confident=confident
                ):
                    writer.write(text, keep_lines=has_lines)
            writer.flush()
            progress.set(done - start)


def _require_usable_files(task: "Predictor", inputs: Inputs, *, skip: bool) -> None:
    """Check inputs that are files: broken ones are an error unless they are skipped.

    Those from stdin are checked when they are predicted. A text that names a file is reported.
    """
    from saccade.tasks import VectorInput

    reads, described = task.reads, task.describe().reads
    if skip and reads not in FILES:
        raise DataError(
            "--skip-broken is for images and vector files, and this run reads neither; leave it out"
        )
    if reads not in FILES:
        _warn_of_files(() if inputs.folder is not None else inputs.arguments)
        return
    if (names := inputs.files()) is None:
        return
    width = described.width if isinstance(described, VectorInput) else None
    noun, broken = "image" if width is None else "vector file", broken_files(names, width=width)
    if len(names) == 1 and broken:
        reminder = "" if os.path.exists(names[0]) else f"; this run reads {noun}s"
        raise DataError(f"{broken[names[0]]}{reminder}")
    if broken and (not skip or len(broken) == len(set(names))):
        raise BrokenImagesError([*broken.values()], len(names), noun)
    if broken:
        many = f"{len(broken)} of {len(names)} {noun}s left out as broken"
        print(f"{many}, the first: {next(iter(broken.values()))}", file=sys.stderr)
    inputs.use([name for name in names if name not in broken])


def _warn_of_files(texts: Iterable[str]) -> None:
    """Print the first text that is the name of a file: its contents are not read."""
    for text in texts:
        if Path(text).suffix and os.path.isfile(text):
            print(
                f"{text} is a file, but this run reads texts: its name is the input. To predict "
                f"the lines of a text file, use --input {text}",
                file=sys.stderr,
            )
            return


def _load(run_folder: Path, device: str, engine: str | None, *, with_torch: bool) -> "Predictor":
    """Return what answers with a run; only a requested engine is explained.

    Args:
        run_folder: The run.
        device: The option --device.
        engine: The option --engine.
        with_torch: Whether the model itself is needed, as for attention.
    """
    from saccade import engines

    chosen = engine or "auto"
    if not with_torch:
        printed = None if engine is None else partial(print, file=sys.stderr)
        ready = engines.open_ready(run_folder, device=device, engine=chosen, notify=printed)
        if ready is not None:
            return ready
    from saccade.training import session  # noqa: F401 - with torch, before the run is loaded
    from saccade.training.console import Console

    console = Console()
    notify = None if engine is None else console.notify
    with console.working(f"loading {run_folder}"):
        return engines.load(run_folder, device=device, engine=chosen, notify=notify)


def _load_translator(run_folder: Path, device: str) -> "Aligns":
    from saccade.training import session

    return session.load_translator(run_folder, device=device)


def _print_stream(prompt: str, pieces: Iterator[str]) -> None:
    """Print the prompt and its continuation, each piece as it is generated."""
    try:
        for text in chain([prompt], pieces):
            sys.stdout.buffer.write(text.encode("utf-8", "replace"))
            sys.stdout.buffer.flush()
    finally:  # also after Ctrl-C, the line is complete
        sys.stdout.buffer.write(b"\n")
        sys.stdout.buffer.flush()


def _require_capable(
    task: "Predictor", *, align: bool, markup: bool, stream: bool, single: bool
) -> None:
    """Raise if the task cannot do what an option asks for."""
    from saccade.tasks import Aligns, Streams

    if (align or markup) and not isinstance(task, Aligns):
        option = "--align" if align else "--markup"
        raise DecodingError(
            f"{option} needs word alignments, which only text-to-text models have; this "
            f"run's task is {task.name}"
        )
    if stream and not isinstance(task, Streams):
        raise DecodingError(f"--stream needs a language model; this run's task is {task.name}")
    if stream and not single:
        raise DecodingError("--stream needs exactly one INPUT, not a folder; leave it out")


def _output_lines(
    line: str,
    answer: "Answer",
    n_best: int,
    aligner: WordAligner | None,
    name: str | None,
    *,
    as_json: bool,
    confident: bool,
) -> Iterator[str]:
    """Yield the lines for one input: `n_best` of them, or one with everything as JSON.

    Lines begin with the name of the input's file, if it has one. If `confident`, labels have their
    probability.
    """
    links = None if aligner is None else aligner(line, answer)
    if as_json:
        file = {} if name is None else {"file": name}
        table = {**file, "input": line, **answer.to_dict()}
        more = {} if links is None else alignment_json(links, line, answer.text)
        yield json.dumps({**table, **more}, ensure_ascii=False)
        return
    text = str(answer) if confident else answer.text
    others = [other.text for other in answer.alternatives]
    others += [""] * (n_best - 1 - len(others))  # every input has `n_best` lines
    best = text
    if links is not None:
        from saccade.lens.alignment.extraction import to_pharaoh

        best = f"{text}\t{to_pharaoh(links)}"
    yield from ([best, *others] if name is None else (f"{name}\t{x}" for x in (best, *others)))


def _shows_progress(output: Path | None) -> bool:
    """Return whether stderr is a terminal to which the predictions are not printed."""
    return sys.stderr.isatty() and (output is not None or not _on_terminal())


def _on_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def _same_file(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)
