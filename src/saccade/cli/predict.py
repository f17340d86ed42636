"""saccade predict: answers, from arguments, a file or a pipe, in the order of the inputs."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from saccade.cli.alignments import Linking, links_as_json, predict_lines, predict_markup
from saccade.cli.inputs import chunks, from_file
from saccade.cli.options import Device, Engine, Json
from saccade.cli.output import Sink
from saccade.cli.progress import answering
from saccade.errors import DataError, DecodingError, FigureError

if TYPE_CHECKING:
    from saccade.lens.record import AttentionRecord

CHUNK = 4096
"""Inputs that are sorted by length and answered together."""


def run(
    run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    inputs: Annotated[
        list[str] | None, typer.Argument(metavar="[INPUT]...", help="What to answer.")
    ] = None,
    *,
    input_: Annotated[
        Path | None, typer.Option("--input", help="A file of inputs, a line each; also .gz.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Write here instead of stdout.")] = None,
    beam: Annotated[int | None, typer.Option(min=1, help="The recipe's if left out.")] = None,
    n_best: Annotated[int, typer.Option(min=1, help="Answers for each input, a line each.")] = 1,
    sample: Annotated[bool, typer.Option("--sample", help="Draw answers at random.")] = False,
    temperature: Annotated[
        float | None, typer.Option(min=0.0, help="Draw more evenly (above 1) or less; 0: greedily.")
    ] = None,
    top_k: Annotated[
        int | None, typer.Option(min=1, help="Draw among the K most likely tokens.")
    ] = None,
    top_p: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="Draw among those with this share.")
    ] = None,
    max_length: Annotated[int | None, typer.Option(min=1, help="Tokens of an answer.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="For drawing.")] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Inputs answered at once.")] = 64,
    align: Annotated[
        bool, typer.Option("--align", help="Add word alignments (i-j, from 0) after a tab.")
    ] = False,
    reverse: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Align together with a run of the other direction."),
    ] = None,
    markup: Annotated[
        bool, typer.Option("--markup", help="Carry inline tags (<b>…</b>) over to the answers.")
    ] = False,
    attention: Annotated[
        Path | None,
        typer.Option(
            help="Write where it looked: a page with all inputs (.html), or a .png, .svg, .json or "
            ".npz for each: FILE-2 for the second."
        ),
    ] = None,
    stream: Annotated[
        bool,
        typer.Option("--stream", help="Show the text as it is written, as a terminal does."),
    ] = False,
    device: Device = "auto",
    engine: Engine = None,
    as_json: Json = False,
) -> None:
    """Answer inputs: arguments, or lines of a file or of stdin."""
    if inputs and input_ is not None:
        raise DataError("give inputs as arguments or with --input, not both")
    if output is not None and input_ is not None and _same(output, input_):
        raise DataError(f"--output would overwrite the --input {input_}; give it another name")
    drawn = sample or any(option is not None for option in (temperature, top_k, top_p))
    if drawn and n_best > 1:
        raise DecodingError("--n-best is for beam search; to draw more, give the input repeatedly")
    align = align or reverse is not None
    if markup and (align or n_best > 1):
        raise DecodingError("--markup gives one text with tags: leave out --align and --n-best")
    options = {
        "beam": beam,
        "num_best": n_best if n_best > 1 else None,
        "sample": drawn or None,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "max_length": max_length,
        "seed": seed,
    }
    given = {name: value for name, value in options.items() if value is not None}
    looks = align or markup or attention is not None
    plain = output is None and n_best == 1 and not looks and not as_json
    one = inputs[0] if plain and inputs and len(inputs) == 1 else None
    if stream and one is None:
        raise DecodingError(
            "--stream is for one INPUT, without --output, --json, --n-best, --align, --markup "
            "and --attention"
        )

    from saccade import engines
    from saccade.lens.record import SUFFIXES
    from saccade.tasks import Streams
    from saccade.training import session
    from saccade.training.console import Console

    if attention is not None and attention.suffix not in SUFFIXES:
        raise FigureError(f"--attention must end in one of {', '.join(SUFFIXES)}; got {attention}")
    # who did not ask for an engine is not told why he has this one
    notify = None if engine is None else Console().notify
    task = engines.load(run_folder, device=device, engine=engine or "auto", notify=notify)
    _require_fit(task, align=align, markup=markup, stream=stream)
    link = None
    if align:
        link = Linking(None if reverse is None else session.load_translator(reverse, device=device))
    watched = stream or (_on_terminal() and engine in (None, "eager"))  # streams are eager's
    if one is not None and watched and isinstance(task, Streams):
        _show(one, task.stream(one, **given))
        return
    asked = chunks(inputs, input_, batch_size if looks else CHUNK)  # records take room
    first = next(asked, [])  # before the output is opened: what cannot be read costs no file
    done = 0
    total = _total(input_, output)
    with (
        Sink(output) as sink,
        answering(shown=bool(total), total=total) as answered,
        _keeping(attention) as keep,
    ):
        for lines in chain([first] if first else [], asked):
            answers = (predict_markup if markup else predict_lines)(
                task,
                lines,
                attention=looks,
                batch_size=batch_size,
                first=done,
                on_batch=answered,
                **given,
            )
            for line, answer in zip(lines, answers, strict=True):
                done += 1
                if answer.attention is not None:
                    keep(answer.attention, done)
                for text in _printed(line, answer, n_best, link, as_json=as_json):
                    sink.line(text)
            sink.flush()
            answered.to(done)


def _show(prompt: str, pieces: Iterator[str]) -> None:
    """The prompt and how it goes on, on stdout, each piece as it comes."""
    try:
        for text in chain([prompt], pieces):
            sys.stdout.buffer.write(text.encode("utf-8", "replace"))
            sys.stdout.buffer.flush()
    finally:  # Ctrl-C, too, leaves a whole line
        sys.stdout.buffer.write(b"\n")
        sys.stdout.buffer.flush()


def _require_fit(task: Any, *, align: bool, markup: bool, stream: bool) -> None:
    """Refuse what this task cannot do."""
    from saccade.tasks import Streams

    if (align or markup) and not task.aligns:
        option = "--align" if align else "--markup"
        raise DecodingError(f"{option} is for translators and their like, not for {task.name}")
    if stream and not isinstance(task, Streams):
        raise DecodingError(f"--stream is for language models, not for {task.name}")


def _printed(
    line: str, answer: Any, n_best: int, link: Linking | None, *, as_json: bool
) -> Iterator[str]:
    """The lines for one input: as many as were asked for, or one with all as JSON."""
    from saccade.lens.alignment.extraction import to_pharaoh

    links = None if link is None else link(line, answer)
    if as_json:
        table = {"input": line, **answer.as_json()}
        more = {} if links is None else links_as_json(links, line, answer.text)
        yield json.dumps({**table, **more}, ensure_ascii=False)
        return
    yield answer.text if links is None else f"{answer.text}\t{to_pharaoh(links)}"
    others = [other.text for other in answer.alternatives]
    yield from others + [""] * (n_best - 1 - len(others))  # so that each input has as many lines


@contextmanager
def _keeping(path: Path | None) -> Iterator[Callable[["AttentionRecord", int], object]]:
    """Takes where each answer looked, with its number from 1, and writes it as the path asks."""
    if path is None:
        yield lambda record, number: None
    elif path.suffix == ".html":
        with _page(path) as add:
            yield lambda record, number: add(record)
    else:
        yield lambda record, number: record.save(_numbered(path, number))


@contextmanager
def _page(path: Path) -> Iterator[Callable[["AttentionRecord"], None]]:
    """Takes records and writes one page of all, also of those before an interruption."""
    from saccade.lens.page import page_of, view_model

    inputs: list[Any] = []  # packed: records themselves take room
    try:
        yield lambda record: inputs.append([view_model(record)])
    finally:
        if inputs:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(page_of(inputs).encode())


def _total(path: Path | None, output: Path | None) -> int | None:
    """The lines of a file, if progress through it is to be shown.

    It is where stderr is a terminal that does not show the answers too.
    """
    if path is None or not sys.stderr.isatty() or (output is None and _on_terminal()):
        return None
    return sum(1 for _ in from_file(path)) if path.is_file() else None


def _on_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def _same(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.samefile(other)


def _numbered(path: Path, number: int) -> Path:
    """x.png for the first input, x-2.png for the second."""
    return path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")
