"""Parallel plain text: the same line of two files is one pair."""

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from saccade.data.corpus import Row
from saccade.data.sources.columns import counted
from saccade.data.sources.text_files import file_digest, first_line, read_lines, unpacked_name
from saccade.errors import DataError


class Parallel:
    """Lines of `first` beside lines of `second`; files of different length are an error."""

    running = False

    def __init__(self, first: Path, second: Path, columns: tuple[str, str]) -> None:
        self.paths, self.columns = (first, second), columns
        for path in self.paths:
            first_line(path)

    def rows(self) -> Iterator[Row]:
        """All pairs; an empty line is an empty value."""
        first, second = self.paths
        file = str(first)
        pairs = zip_longest(read_lines(first), read_lines(second))
        for number, (one, other) in enumerate(pairs, 1):
            if one is None or other is None:
                more = number + sum(1 for _ in pairs)
                lines = (number - 1, more) if one is None else (more, number - 1)
                raise DataError(
                    f"{first.name} has {counted(lines[0], 'line')}, {second.name} has "
                    f"{counted(lines[1], 'line')} (in {first.parent}); the lines of parallel text "
                    "belong together one by one"
                )
            yield Row((one, other), number, file)

    def digest(self) -> str:
        """Of the bytes of both files."""
        return "parallel " + " ".join(map(file_digest, self.paths))

    def describe(self) -> str:
        """As in: train.en + train.de (parallel text)."""
        return " + ".join(path.name for path in self.paths) + " (parallel text)"

    def meaning(self) -> str:
        """As in: source = en, target = de, and how to turn it round."""
        languages = [unpacked_name(path).rpartition(".")[2] for path in self.paths]
        pairs = zip(self.columns, languages, strict=True)
        said = ", ".join(f"{name} = {language}" for name, language in pairs)
        return f"{said} (the other way: --pair {languages[1]}-{languages[0]})"
