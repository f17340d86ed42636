"""saccade predict: answers, from arguments, a file or a pipe, in the order of the inputs."""

import json
import queue
import sys
import threading
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from saccade.cli.options import Device, Json
from saccade.errors import DataError

CHUNK = 4096
"""Inputs that are sorted by length and answered together."""


def run(
    run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    inputs: Annotated[
        list[str] | None, typer.Argument(metavar="[INPUT]...", help="What to answer.")
    ] = None,
    *,
    input_: Annotated[
        Path | None, typer.Option("--input", help="A file of inputs, a line each.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Write here instead of stdout.")] = None,
    beam: Annotated[int | None, typer.Option(min=1, help="The recipe's if left out.")] = None,
    n_best: Annotated[int, typer.Option(min=1, help="Answers for each input.")] = 1,
    sample: Annotated[bool, typer.Option("--sample", help="Draw answers at random.")] = False,
    temperature: Annotated[float | None, typer.Option(min=0.0)] = None,
    top_k: Annotated[int | None, typer.Option(min=1)] = None,
    top_p: Annotated[float | None, typer.Option(min=0.0, max=1.0)] = None,
    max_length: Annotated[int | None, typer.Option(min=1, help="Tokens of an answer.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="For --sample.")] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Inputs answered at once.")] = 64,
    align: Annotated[
        bool, typer.Option("--align", help="Add word alignments (i-j, from 0) after a tab.")
    ] = False,
    attention: Annotated[
        Path | None,
        typer.Option(help="Write where it looked: .png, .svg, .json or .npz; numbered if several."),
    ] = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Answer inputs given as arguments, in a file, or on stdin, one a line."""
    from saccade.training import session

    options: dict[str, Any] = {
        "beam": 1 if sample else beam,
        "sample": sample or None,
        "num_best": n_best if n_best > 1 else None,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "max_length": max_length,
        "seed": seed,
    }
    if n_best > 1 and beam is None and not sample:
        options["beam"] = max(n_best, 5)
    given = {name: value for name, value in options.items() if value is not None}
    looks = align or attention is not None
    task = session.load(run_folder, device=device)
    done = 0
    with _Sink(output) as sink:
        for lines in _chunks(inputs, input_):
            answers = task.predict(
                lines, attention=looks, batch_size=batch_size, first=done, **given
            )
            for line, answer in zip(lines, answers, strict=True):
                done += 1
                if attention is not None and answer.attention is not None:
                    answer.attention.save(
                        _numbered(attention, done, several=len(inputs or []) != 1)
                    )
                for text in _printed(line, answer, align=align, as_json=as_json):
                    sink.write(text)
            sink.flush()


def _printed(line: str, answer: Any, *, align: bool, as_json: bool) -> Iterator[str]:
    from saccade.lens.align import to_pharaoh

    links = to_pharaoh(answer.attention.alignment()) if align and answer.attention else ""
    if as_json:
        table = {"input": line, **answer.as_json()}
        if align:
            table["alignment"] = links
        yield json.dumps(table, ensure_ascii=False)
        return
    for each in (answer, *answer.alternatives):
        text = each.text.replace("\n", " ")
        yield f"{text}\t{links}" if align and each is answer else text


def _chunks(inputs: list[str] | None, path: Path | None) -> Iterator[list[str]]:
    """What to answer, some lines at a time; from a pipe as soon as it is there."""
    if inputs and path is not None:
        raise DataError("give inputs as arguments or with --input, not both")
    if inputs:
        yield inputs
    elif path is not None:
        try:
            with path.open("rb") as file:
                yield from _groups(_lines(file, str(path)))
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror}") from None
    else:
        yield from _as_they_come(_lines(sys.stdin.buffer, "stdin"))


def _lines(file: BinaryIO, name: str) -> Iterator[str]:
    for number, line in enumerate(file, 1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{name}, line {number}: not UTF-8 (byte {error.start + 1} of the line)"
            ) from None


def _groups(lines: Iterator[str]) -> Iterator[list[str]]:
    while group := list(islice(lines, CHUNK)):
        yield group


def _as_they_come(lines: Iterable[str]) -> Iterator[list[str]]:
    """All lines that are waiting, at least one: nobody at a pipe waits for others' lines."""
    waiting: queue.Queue[str | BaseException | None] = queue.Queue(maxsize=CHUNK)

    def listen() -> None:
        try:
            for line in lines:
                waiting.put(line)
            waiting.put(None)
        except BaseException as error:  # raised again where the lines are taken
            waiting.put(error)

    threading.Thread(target=listen, daemon=True).start()
    ended: BaseException | None = None
    over = False
    while not over:
        group: list[str] = []
        item = waiting.get()
        while True:
            if isinstance(item, str):
                group.append(item)
            else:
                over, ended = True, item
                break
            if len(group) == CHUNK or waiting.empty():
                break
            item = waiting.get()
        if group:
            yield group
    if ended is not None:
        raise ended


class _Sink:
    """Where answers go: a file, or stdout in UTF-8 whatever the terminal's locale says."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def __enter__(self) -> "_Sink":
        try:
            self._file: Any = sys.stdout.buffer if self._path is None else self._path.open("wb")
        except OSError as error:
            raise DataError(f"{self._path} cannot be written: {error.strerror}") from None
        return self

    def __exit__(self, *_: object) -> None:
        if self._path is not None:
            self._file.close()

    def write(self, text: str) -> None:
        """One line."""
        self._file.write(text.encode("utf-8", "replace") + b"\n")

    def flush(self) -> None:
        """So that whoever reads a pipe has it."""
        self._file.flush()


def _numbered(path: Path, number: int, *, several: bool) -> Path:
    return path.with_name(f"{path.stem}-{number}{path.suffix}") if several else path
