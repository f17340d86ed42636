"""What is to be answered: arguments, the lines of a file, or those of a pipe as they come."""

import queue
import sys
import threading
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from saccade.errors import DataError


def chunks(arguments: list[str] | None, path: Path | None, most: int) -> Iterator[list[str]]:
    """The inputs in their order, up to `most` at a time; from a pipe as soon as they are there."""
    if arguments:
        yield from _groups(iter(arguments), most)
    elif path is not None:
        yield from _groups(from_file(path), most)
    else:
        yield from _as_they_come(_from_stdin(), most)


def from_file(path: Path) -> Iterator[str]:
    """The lines of a text file, which may be packed."""
    from saccade.data.sources.text_files import read_lines

    return read_lines(path)


def _from_stdin() -> Iterator[str]:
    if sys.stdin is None:
        raise DataError("there is no input: give it as arguments, with --input FILE, or on stdin")
    if sys.stdin.isatty():
        print("Reading from the keyboard, an input a line; Ctrl-D ends it.", file=sys.stderr)
    for number, line in enumerate(_own_stdin(), 1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise DataError(
                f"stdin, line {number}: not UTF-8 at byte offset {error.start} of the line "
                f"(0x{error.object[error.start]:02x})"
            ) from None


def _own_stdin() -> Iterable[bytes]:
    """Standard input as a file of our own: a thread that waits in Python's keeps it from ending."""
    try:
        return open(sys.stdin.fileno(), "rb", closefd=False)
    except OSError:  # a stand-in without a descriptor
        return sys.stdin.buffer


def _groups(lines: Iterator[str], most: int) -> Iterator[list[str]]:
    while group := list(islice(lines, most)):
        yield group


def _as_they_come(lines: Iterable[str], most: int) -> Iterator[list[str]]:
    """All lines that are waiting, at least one: nobody at a pipe waits for others' lines."""
    waiting: queue.Queue[str | BaseException | None] = queue.Queue(maxsize=most)

    def listen() -> None:
        try:
            for line in lines:
                waiting.put(line)
            waiting.put(None)
        except BaseException as error:  # raised again where the lines are taken
            waiting.put(error)

    threading.Thread(target=listen, daemon=True).start()
    over = False
    while not over:
        group: list[str] = []
        item = waiting.get()
        while isinstance(item, str):
            group.append(item)
            if len(group) == most or waiting.empty():
                break
            item = waiting.get()
        if group:
            yield group
        over = not isinstance(item, str)
    if isinstance(item, BaseException):
        raise item
