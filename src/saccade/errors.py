"""Exceptions that a user of Saccade can cause.

Every message has three parts: what is wrong and where (file, line or key), what would be right, and
what to do next. Catch `SaccadeError` to handle all of them. The command line prints the message
without a traceback and exits with 2 (1 for `LostProcessError`, 74 for `DiskFullError`, 130 for
`StoppedError`).

    SaccadeError                    base of all
     ├─ ShapeError       ValueError   widths, lengths or head counts that do not fit together
     ├─ MaskError        ValueError   a mask that does not fit its queries and keys
     ├─ PositionError    IndexError   a place that a positional encoding does not cover
     ├─ WatchError       KeyError     a name, layer or head that `watch` did not record
     ├─ FigureError      ValueError   a figure that cannot be drawn or written
     ├─ DecodingError    ValueError   invalid options of generation, or logits that are not finite
     ├─ WeightsError     ValueError   weights that are missing, damaged or of another network
     ├─ TextError        ValueError   an invalid vocabulary or tokenizer file, or invalid text
     ├─ InteropError     ValueError   a model or folder of another tool without a counterpart here
     ├─ EngineError                   an engine that is unknown, not installed or not usable here
     ├─ DataError        ValueError   data files that are missing, damaged or not as expected
     │   ├─ SplitError                the file of one split lacks a column of another one
     │   ├─ WrongTaskError            a file whose format is for another task
     │   ├─ BrokenRowsError           rows that cannot be read, such as those with too many columns
     │   └─ BrokenImagesError         images or vector files that are missing or damaged
     ├─ MetricError      ValueError   predictions and references that cannot be compared
     ├─ RecipeError      ValueError   an unknown recipe or key, or an invalid value of a key
     ├─ RunError                      a run folder that is missing, in use, damaged or incompatible
     │   └─ LostProcessError          another process of the training that has died
     ├─ TrainingError                 a training that cannot continue, such as a loss of NaN
     ├─ StoppedError                  a training that was interrupted and saved its state
     ├─ ServeError       ValueError   a server that cannot start with these settings
     └─ WriteError       OSError      a file or folder that cannot be written
         └─ DiskFullError             a full disk; files written before are kept

The second column is the built-in exception that each also inherits from. Invariants of the package
itself are checked with `assert`; any other exception that reaches a user is a bug.
"""

import collections.abc


class SaccadeError(Exception):
    """Base class of every error that a user of Saccade can cause."""


class ShapeError(SaccadeError, ValueError):
    """Raised if sizes do not fit together; the message names both numbers."""


class MaskError(SaccadeError, ValueError):
    """Raised if a mask does not fit the queries and keys that it is used with."""


class PositionError(SaccadeError, IndexError):
    """Raised if a positional encoding does not cover a place."""


class WatchError(SaccadeError, KeyError):
    """Raised if `watch` has no record of what it is asked for."""

    def __str__(self) -> str:  # KeyError would show the repr of the message
        return str(self.args[0])


class FigureError(SaccadeError, ValueError):
    """Raised if a figure cannot be drawn or written."""


class WeightsError(SaccadeError, ValueError):
    """Raised if weights are missing, damaged or of another network."""


class DecodingError(SaccadeError, ValueError):
    """Raised if options of generation are invalid or the logits of a model are not finite."""


class TextError(SaccadeError, ValueError):
    """Raised if a vocabulary cannot be built or read, or cannot encode or decode its input."""


class InteropError(SaccadeError, ValueError):
    """Raised if a model of another tool has no counterpart here, or one of ours has none there."""


class EngineError(SaccadeError):
    """Raised if an engine is unknown, not installed, or cannot run this model on this machine."""


class RecipeError(SaccadeError, ValueError):
    """Raised if a recipe or a key does not exist, or a key has an invalid value."""


class RunError(SaccadeError):
    """Raised if a run folder is missing, in use by another process, damaged or incompatible."""


class LostProcessError(RunError):
    """Raised if another process of the same training has died; a new attempt can succeed."""


class TrainingError(SaccadeError):
    """Raised if training cannot continue; checkpoints saved before are kept."""


class StoppedError(SaccadeError):
    """Raised if training was interrupted and its state was saved."""


class ServeError(SaccadeError, ValueError):
    """Raised if the server cannot start with these settings."""


class WriteError(SaccadeError, OSError):
    """Raised if a file or folder cannot be written, because of the disk or its permissions."""

    def __str__(self) -> str:  # OSError would put its number before the message
        return self.strerror or super().__str__()


class DiskFullError(WriteError):
    """Raised if the disk is full; files written before are kept."""


class MetricError(SaccadeError, ValueError):
    """Raised if predictions, references or alignments cannot be compared."""


class DataError(SaccadeError, ValueError):
    """Raised if data is missing, damaged or not as expected; names the file and the line."""


class WrongTaskError(DataError):
    """Raised when a file has a format that is for another task."""


class SplitError(DataError):
    """Raised when the file of one split does not have the columns that another one has."""


class BrokenRowsError(DataError):
    """Raised if rows of a file cannot be read; the message lists the first ten.

    Args:
        problems: One sentence per row, which begins with its file and line.
        total: The number of rows, including those that can be read.
    """

    SHOWN = 10

    def __init__(self, problems: collections.abc.Sequence[str], total: int) -> None:
        more = len(problems) - self.SHOWN
        lines = [*problems[: self.SHOWN], *([f"and {more} more"] if more > 0 else [])]
        heading = f"{len(problems)} of {total} rows cannot be read:"
        single = len(problems) == 1
        super().__init__(problems[0] if single else "\n  ".join([heading, *lines]))


class BrokenImagesError(DataError):
    """Raised if images or vector files are missing or damaged; the message lists the first ten.

    Args:
        problems: One sentence per file, which begins with its name.
        total: The number of files.
        noun: The kind of the files.
    """

    SHOWN = 10

    def __init__(
        self, problems: collections.abc.Sequence[str], total: int, noun: str = "image"
    ) -> None:
        self.problems, self.total, self.noun = tuple(problems), total, noun
        more = len(problems) - self.SHOWN
        lines = [*problems[: self.SHOWN], *([f"and {more} more"] if more > 0 else [])]
        super().__init__(
            "\n  ".join([f"{len(problems)} of {total} {noun}s cannot be used:", *lines])
            + "\nReplace or remove them, or leave them out with --skip-broken."
        )


def joined(errors: collections.abc.Sequence[BrokenImagesError]) -> BrokenImagesError:
    """Return one error with the problems of several."""
    problems = [problem for error in errors for problem in error.problems]
    return BrokenImagesError(problems, sum(error.total for error in errors), errors[0].noun)


def brief(error: BaseException, most: int = 300) -> str:
    """Return the message of an error, cut to `most` characters.

    Messages of parsers may contain much of a damaged file.
    """
    text = str(error) or type(error).__name__
    return text if len(text) <= most else f"{text[:most]} …"
