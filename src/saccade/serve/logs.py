"""Structured logs: a JSON object a line, without anything that a user wrote unless asked for."""

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

log = logging.getLogger("saccade.serve")


class JsonLines(logging.Formatter):
    """An event a line. With `text`, messages of errors are shown, which may quote users."""

    def __init__(self, *, text: bool) -> None:
        super().__init__()
        self.text = text

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        table: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info is not None and record.exc_info[1] is not None:
            table |= self._error(record.exc_info[1], record.exc_info[2])
        return json.dumps(table)

    def _error(self, error: BaseException, at: TracebackType | None) -> dict[str, Any]:
        """Its kind and where it was raised: neither holds what a user wrote."""
        places = [f"{each.filename}:{each.lineno}" for each in traceback.extract_tb(at)]
        table: dict[str, Any] = {"error": type(error).__name__, "at": places[-8:]}
        return {**table, "message": str(error)} if self.text else table


def start_logging(*, text: bool = False) -> None:
    """Everything that is logged in this process goes to stderr as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines(text=text))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for name in ("saccade", "uvicorn.error"):
        logging.getLogger(name).setLevel(logging.INFO)


class Saying:
    """What engines have to say: lines for people until the server logs, events from then on."""

    def __init__(self) -> None:
        self.logs = False

    def __call__(self, text: str) -> None:
        """Say it."""
        if self.logs:
            note("engine", said=text)
        else:
            print(text, file=sys.stderr)


def note(event: str, **facts: Any) -> None:
    """Log an event with its facts."""
    log.info(event, extra={"facts": facts})


def note_failure(event: str, error: BaseException, **facts: Any) -> None:
    """Log an error of ours."""
    log.error(event, exc_info=error, extra={"facts": facts})
