"""Read the objects of a JSON array one by one, so that a large file is never in memory."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

from saccade.data.sources.columns import quoted
from saccade.data.sources.text_files import LONGEST, empty_file, read_chunks
from saccade.errors import DataError

SHAPE = 'an array of objects: [{"text": "…"}, …] or {"data": [{"text": "…"}, …]}'
BLANK = re.compile(r"[ \t\r\n]*")


def is_array_of_objects(value: object) -> bool:
    """Return whether a value is a list that begins with an object."""
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def read_objects(path: Path) -> Iterator[tuple[int, Mapping[str, object]]]:
    """Yield every object of the array in a file with the line where it begins.

    The array is the content of the file, or the first array of objects in the object that is.

    Raises:
        DataError: The file is not valid JSON, or has another content.
    """
    scanner = _Scanner(path)
    start = scanner.peek()
    if start == "{":
        _enter_array(scanner)
    elif not start:
        raise empty_file(path)
    elif start != "[":
        raise scanner.unexpected()
    scanner.skip("[")
    while scanner.peek() != "]":
        if scanner.peek() != "{":
            raise scanner.unexpected()
        line = scanner.line
        yield line, cast(Mapping[str, object], scanner.value())
        if scanner.peek() != "]":
            scanner.skip(",")


def _enter_array(scanner: "_Scanner") -> None:
    """Move to the first array of objects in the object that begins here."""
    scanner.skip("{")
    while scanner.peek() == '"':
        scanner.value()
        scanner.skip(":")
        if scanner.begins_array_of_objects():
            return
        scanner.value()
        if scanner.peek() == ",":
            scanner.skip(",")
    raise columns_instead_of_rows(scanner.path)


def columns_instead_of_rows(path: Path) -> DataError:
    """Return the error of an object that has no array of objects."""
    return DataError(
        f"{path}: expected {SHAPE}, found an object without such an array. With pandas, write it "
        'with to_json(path, orient="records")'
    )


class _Scanner:
    """The characters of a file, parsed value by value."""

    def __init__(self, path: Path) -> None:
        self.path, self.line = path, 1
        self._chunks = read_chunks(path)
        self._text, self._place = "", 0
        self._decoder = json.JSONDecoder()

    def peek(self) -> str:
        """Return the next character that is not blank; "" at the end of the file."""
        while True:
            end = BLANK.match(self._text, self._place).end()  # type: ignore[union-attr]
            self._move(end)
            if self._place < len(self._text) or not self._read():
                return self._text[self._place : self._place + 1]

    def skip(self, expected: str) -> None:
        """Move past a character, which must be next."""
        if self.peek() != expected:
            raise self._invalid(f"expected {expected!r}")
        self._place += 1

    def begins_array_of_objects(self) -> bool:
        """Return whether an array is next whose first value is an object."""
        if self.peek() != "[":
            return False
        while not (after := self._text[self._place + 1 :].lstrip()) and self._read():
            pass
        return after.startswith("{")

    def value(self) -> object:
        """Return the value that begins here and move past it."""
        self.peek()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._place)
            except (ValueError, RecursionError) as error:
                if len(self._text) - self._place > LONGEST or not self._read():
                    raise self._invalid(str(error)) from error
            else:
                if end < len(self._text) or not self._read():  # a number may go on
                    self._move(end)
                    return value

    def unexpected(self) -> DataError:
        """Return an error about the character that is next."""
        start = self._text[self._place : self._place + 30] or "the end of the file"
        return DataError(
            f"{self.path}:{self.line}: expected {SHAPE}, found {quoted(start)}. Correct the file"
        )

    def _invalid(self, reason: str) -> DataError:
        return DataError(
            f"{self.path}:{self.line}: not valid JSON ({reason}); expected {SHAPE}. Write the file "
            "again"
        )

    def _move(self, place: int) -> None:
        self.line += self._text.count("\n", self._place, place)
        self._place = place

    def _read(self) -> bool:
        """Append more characters, at least as many as are being parsed; False at the end."""
        size = len(self._text) - self._place
        parts, length = [self._text[self._place :]], 0
        for chunk in self._chunks:
            parts.append(chunk)
            length += len(chunk)
            if length >= max(size, 1):
                break
        self._text, self._place = "".join(parts), 0
        return length > 0
