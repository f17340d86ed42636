"""Inputs of predict: arguments, lines of a file, files of a folder, or lines from a pipe."""

import os
import queue
import re
import sys
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

from saccade.errors import DataError

FILES = {"image": "images", "vectors": ".npy or .npz files"}
"""The kinds of inputs that are files, and their names for people."""


@dataclass(frozen=True)
class Shard:
    """One of `count` contiguous parts of the inputs, which differ by at most one input in size.

    The outputs of all parts, one after another, are the output for all inputs.

    Args:
        number: Which part, from 1.
        count: The number of parts.

    Example:
        >>> [Shard(i, 3).of(10) for i in (1, 2, 3)]
        [range(0, 3), range(3, 6), range(6, 10)]
    """

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """Return the part that `i/n` names."""
        if match := re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text):
            number, count = map(int, match.groups())
            if 1 <= number <= count:
                return cls(number, count)
        raise DataError(
            f"--shard {text} is not a part of the inputs: expected i/n with i from 1 to n; use for "
            "example --shard 2/4 for the second quarter"
        )

    def of(self, total: int) -> range:
        """Return the positions of this part's inputs among `total` inputs."""
        return range((self.number - 1) * total // self.count, self.number * total // self.count)


class Inputs:
    """The inputs of predict: arguments, lines of a file, files of a folder, or lines from stdin.

    Args:
        arguments: Inputs from the command line.
        path: Text file with one input per line, or a folder of files.
        shard: Which part of the inputs is wanted, as `i/n`; all by default.

    Attributes:
        arguments: Inputs from the command line.
        folder: The folder of files, once `open` has looked for it.

    Raises:
        DataError: There are both arguments and a path, or the shard is invalid or one of stdin.
    """

    def __init__(
        self, arguments: Sequence[str] | None, path: Path | None, shard: str | None
    ) -> None:
        self.arguments = tuple(arguments or ())
        if self.arguments and path is not None:
            raise DataError(
                "there are both INPUT arguments and --input FILE; use one of them, not both"
            )
        self._shard = None if shard is None else Shard.parse(shard)
        if self._shard is not None and not self.arguments and path is None:
            raise DataError(
                "--shard needs the number of inputs, which is unknown for stdin; use --input FILE "
                "or INPUT arguments"
            )
        self._path = path
        self._part: range | None = None
        self._files: list[str] | None = None
        self.folder: InputFolder | None = None

    @property
    def start(self) -> int:
        """The number of inputs before those that are wanted."""
        return self._part.start if self._part is not None else 0

    @property
    def lone(self) -> str | None:
        """The only argument, if all of it is wanted."""
        return self.arguments[0] if len(self.arguments) == 1 and self._shard is None else None

    def open(self, reads: str) -> None:
        """Look for a folder, and choose the part that is wanted.

        Args:
            reads: The kind of an input, as `InputFolder` takes it.
        """
        self.folder = InputFolder.of(self.arguments, self._path, reads)
        if self._shard is not None:
            total = len(self.folder.names) if self.folder else sum(1 for _ in self._lines())
            self._part = self._shard.of(total)
            if self.folder is not None:
                self.folder.keep(self._part)

    def files(self) -> list[str] | None:
        """Return the inputs as paths of files; None if they arrive from stdin."""
        if self.folder is not None:
            return self.folder.paths
        return [*self._selected()] if self.arguments or self._path is not None else None

    def use(self, files: Collection[str]) -> None:
        """Use only these files."""
        if self.folder is not None:
            self.folder.leave_out(set(self.folder.paths).difference(files))
        else:
            self._files = [*files]

    def known(self) -> int | None:
        """Return the number of lines that a file holds or that are wanted of it; None of others."""
        if self._path is None or not self._path.is_file():
            return None
        return sum(1 for _ in self._selected())

    def chunks(self, size: int) -> Iterator[list[str]]:
        """Yield the inputs in their order, in chunks.

        Args:
            size: Inputs per chunk. A chunk from stdin may be smaller, so that no line waits for
                the next one.
        """
        if self.folder is not None:
            yield from self.folder.chunks(size)
        elif self._files is not None:
            yield from _chunked(iter(self._files), size)
        elif self.arguments or self._path is not None:
            yield from _chunked(self._selected(), size)
        else:
            yield from _as_they_arrive(_from_stdin(), size)

    def _lines(self) -> Iterator[str]:
        return iter(self.arguments) if self._path is None else read_lines(self._path)

    def _selected(self) -> Iterator[str]:
        part = self._part
        return self._lines() if part is None else islice(self._lines(), part.start, part.stop)


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
        from saccade.data.sources.text_files import suffix_of
        from saccade.data.suffixes import SUFFIXES, VECTOR_SUFFIXES

        self._folder, self._texts = folder, reads not in FILES
        suffixes = {"image": SUFFIXES, "vectors": VECTOR_SUFFIXES}.get(reads, (".txt",))
        files = (path for path in folder.iterdir() if not path.name.startswith("."))
        self.names = sorted(path.name for path in files if suffix_of(path) in suffixes)
        if not self.names:
            kind = FILES.get(reads, ".txt files (also .txt.gz, .txt.xz)")
            inner = min((path for path in folder.glob("[!.]*") if path.is_dir()), default=None)
            raise DataError(
                f"{folder} holds no {kind}; give a folder that does"
                + (f". Files in sub-folders such as {inner} are not read" if inner else "")
            )

    @classmethod
    def of(cls, arguments: Sequence[str], path: Path | None, reads: str) -> "InputFolder | None":
        """Return the folder that the inputs name; None if they are arguments, lines or a file.

        An argument of a task that reads text is a folder only if it contains a slash.
        """
        if path is None and len(arguments) == 1:
            [text] = arguments
            if reads in FILES or "/" in text or "\\" in text:
                path = Path(text)
        # a text may be too long for a path, which Path.is_dir raises for
        return cls(path, reads) if path is not None and os.path.isdir(path) else None

    @property
    def paths(self) -> list[str]:
        """The paths of the files."""
        return [str(self._folder / name) for name in self.names]

    def keep(self, part: range) -> None:
        """Keep only the files at these positions."""
        self.names = self.names[part.start : part.stop]

    def leave_out(self, paths: Collection[str]) -> None:
        """Leave out some of the files."""
        pairs = zip(self.names, self.paths, strict=True)
        self.names = [name for name, path in pairs if path not in paths]

    def chunks(self, size: int) -> Iterator[list[str]]:
        """Yield the inputs in the order of their names: paths of files, or contents of texts."""
        paths = (self._folder / name for name in self.names)
        inputs = ("\n".join(read_lines(path)) if self._texts else str(path) for path in paths)
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


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a text file, which may be compressed."""
    from saccade.data.sources import text_files

    return text_files.read_lines(path)


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
