"""Structured logs: one JSON object per line, without user text unless --log-text is given."""

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from types import TracebackType

log = logging.getLogger("saccade.serve")


class JsonFormatter(logging.Formatter):
    """Formatter that writes one JSON object per event.

    Args:
        text: Include the messages of errors, which may quote what users wrote.
    """

    def __init__(self, *, text: bool) -> None:
        super().__init__()
        self.text = text

    def format(self, record: logging.LogRecord) -> str:
        """Return the line for an event."""
        table: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info is not None and record.exc_info[1] is not None:
            table |= self._error(record.exc_info[1], record.exc_info[2])
        return json.dumps(table)

    def _error(self, error: BaseException, at: TracebackType | None) -> dict[str, object]:
        """Return the type of an error and where it was raised; neither quotes a user."""
        places = [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(at)]
        table: dict[str, object] = {"error": type(error).__name__, "at": places[-8:]}
        return {**table, "message": str(error)} if self.text else table


class EngineNotices:
    """Callback for the notices of engines: plain lines on stderr, log events once `logs` is set."""

    def __init__(self) -> None:
        self.logs = False

    def __call__(self, text: str) -> None:
        """Print or log a notice."""
        if self.logs:
            log_event("engine", message=text)
        else:
            print(text, file=sys.stderr)


def start_logging(*, text: bool = False) -> None:
    """Write everything that is logged in this process to stderr, as JSON lines.

    Args:
        text: Include the messages of errors, which may quote what users wrote.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(text=text))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for name in ("saccade", "uvicorn.error"):
        logging.getLogger(name).setLevel(logging.INFO)


def log_event(event: str, **facts: object) -> None:
    """Log an event with its facts."""
    log.info(event, extra={"facts": facts})


def log_error(event: str, error: BaseException, **facts: object) -> None:
    """Log an internal error."""
    log.error(event, exc_info=error, extra={"facts": facts})
