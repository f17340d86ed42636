"""Where answers are written: a file, or stdout in UTF-8 whatever the terminal's locale says."""

import errno
import re
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

from saccade.errors import DataError, DiskFullError


class Sink:
    """Takes lines; as a context, it opens and closes the file."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path

    def __enter__(self) -> "Sink":
        try:
            self._file: Any = sys.stdout.buffer if self._path is None else self._path.open("wb")
        except OSError as error:
            raise DataError(f"{self._path} cannot be written: {error.strerror}") from None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        full = self._full(error)
        if self._path is not None:
            try:
                self._file.close()
            except OSError as last:
                full = full or self._full(last)
        if full is not None:
            raise full from None

    def line(self, text: str) -> None:
        """Write one line; line ends inside the text become spaces."""
        self._file.write(re.sub(r"[\r\n]+", " ", text).encode("utf-8", "replace") + b"\n")

    def flush(self) -> None:
        """So that whoever reads a pipe has it."""
        self._file.flush()

    def _full(self, error: BaseException | None) -> DiskFullError | None:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            where = self._path or "the output"
            return DiskFullError(errno.ENOSPC, f"the disk is full: {where} is not whole")
        return None
