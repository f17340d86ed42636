"""Inputs of predict: arguments, lines of a file, files of a folder, or lines from a pipe."""

import os
import queue
import sys
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

from saccade.errors import DataError

FILES = {"image": "images", "vectors": ".npy or .npz files"}
"""The kinds of inputs that are files, and their names for people."""


def input_chunks(arguments: list[str] | None, path: Path | None, size: int) -> Iterator[list[str]]:
    """Yield the inputs in their order, in chunks.

    Args:
        arguments: Inputs from the command line; they take precedence.
        path: Text file with one input per line. Without both, inputs are read from stdin.
        size: Inputs per chunk. A chunk from stdin may be smaller, so that no line waits for
            the next one.
    """
    if arguments:
        yield from _chunked(iter(arguments), size)
    elif path is not None:
        yield from _chunked(read_inputs(path), size)
    else:
        yield from _as_they_arrive(_from_stdin(), size)


class InputFolder:
    """The files of a folder, each of which is one input; sub-folders are not read.

    Args:
        folder: The folder.
        reads: The kind of an input: "image" for image files, "vectors" for .npy and .npz files,
            otherwise .txt files are read.

    Attributes:
        names: The names of the files, sorted.

    Raises:
        DataError: The folder has no such file.
    """

    def __init__(self, folder: Path, reads: str) -> None:
        from saccade.data.sources.archives import SUFFIXES, VECTOR_SUFFIXES
        from saccade.data.sources.text_files import suffix_of

        self._folder, self._texts = folder, reads not in FILES
        suffixes = {"image": SUFFIXES, "vectors": VECTOR_SUFFIXES}.get(reads, (".txt",))
        files = (path for path in folder.iterdir() if not path.name.startswith("."))
        self.names = sorted(path.name for path in files if suffix_of(path) in suffixes)
        if not self.names:
            kind = FILES.get(reads, ".txt files (also .txt.gz, .txt.xz)")
            raise DataError(
                f"{folder} holds no {kind}; give a folder that does. Files in its sub-folders are "
                "not read"
            )

    @classmethod
    def of(cls, arguments: list[str] | None, path: Path | None, reads: str) -> "InputFolder | None":
        """Return the folder that the inputs name; None if they are arguments, lines or a file.

        An argument of a task that reads text is a folder only if it contains a slash.
        """
        if path is None and arguments and len(arguments) == 1:
            [text] = arguments
            if reads in FILES or "/" in text or "\\" in text:
                path = Path(text)
        # a text may be too long for a path, which Path.is_dir raises for
        return cls(path, reads) if path is not None and os.path.isdir(path) else None

    @property
    def paths(self) -> list[str]:
        """The paths of the files."""
        return [str(self._folder / name) for name in self.names]

    def leave_out(self, paths: Collection[str]) -> None:
        """Leave out some of the files."""
        pairs = zip(self.names, self.paths, strict=True)
        self.names = [name for name, path in pairs if path not in paths]

    def chunks(self, size: int) -> Iterator[list[str]]:
        """Yield the inputs in the order of their names: paths of files, or contents of texts."""
        paths = (self._folder / name for name in self.names)
        inputs = ("\n".join(read_inputs(path)) if self._texts else str(path) for path in paths)
        yield from _chunked(inputs, size)


def broken_files(paths: Sequence[str], *, width: int | None) -> dict[str, str]:
    """Return the images or vector files that cannot be used, with the reasons.

    Args:
        paths: The files.
        width: The width of vectors; None for images.
    """
    from saccade.data.sources.image_tables import WORKERS, damage
    from saccade.data.threads import in_threads

    names = list(dict.fromkeys(paths))
    reasons = zip(names, in_threads(partial(damage, width=width), names, WORKERS), strict=True)
    return {name: reason for name, reason in reasons if reason}


def read_inputs(path: Path) -> Iterator[str]:
    """Yield the lines of a text file, which may be compressed."""
    from saccade.data.sources.text_files import read_lines

    return read_lines(path)


def _from_stdin() -> Iterator[str]:
    if sys.stdin is None:
        raise DataError("stdin is closed; pass inputs as arguments, with --input FILE or on stdin")
    if sys.stdin.isatty():
        print("Reading inputs from the keyboard, one per line; Ctrl-D ends.", file=sys.stderr)
    for number, line in enumerate(_own_stdin(), 1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise DataError(
                f"stdin, line {number}: not UTF-8 at byte offset {error.start} of the line "
                f"(0x{error.object[error.start]:02x}). Convert the input to UTF-8, for example "
                "with iconv"
            ) from None


def _own_stdin() -> Iterable[bytes]:
    """Return stdin as a new file: a thread that waits in Python's own keeps it from exiting."""
    try:
        return open(sys.stdin.fileno(), "rb", closefd=False)
    except OSError:  # a replacement without a descriptor
        return sys.stdin.buffer


def _chunked(lines: Iterator[str], size: int) -> Iterator[list[str]]:
    while chunk := list(islice(lines, size)):
        yield chunk


def _as_they_arrive(lines: Iterable[str], size: int) -> Iterator[list[str]]:
    """Yield all lines that have arrived, at least one."""
    arrived: queue.Queue[str | None] = queue.Queue(maxsize=size)
    errors: list[BaseException] = []

    def read() -> None:
        try:
            for line in lines:
                arrived.put(line)
        except BaseException as error:  # raised again where the lines are consumed
            errors.append(error)
        arrived.put(None)

    threading.Thread(target=read, daemon=True).start()
    line: str | None = ""
    while line is not None and (line := arrived.get()) is not None:
        chunk = [line]
        while len(chunk) < size and not arrived.empty() and (line := arrived.get()) is not None:
            chunk.append(line)
        yield chunk
    if errors:
        raise errors[0]
