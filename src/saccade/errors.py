"""What a user can get wrong. Each error says what was wrong, where, and what is allowed.

SaccadeError
 └─ ShapeError      widths, lengths or head counts that do not fit together
 └─ MaskError       a mask that does not fit the queries and keys it is used with
 └─ PositionError   a place beyond what a positional encoding covers
 └─ WatchError      asking `watch` for something it did not see
 └─ FigureError     a picture that cannot be drawn or written
 └─ DecodingError   limits or options that no text can keep to, or a model that gives NaN
 └─ WeightsError    a file of weights that is missing, broken or of another network
 └─ TextError       a vocabulary that cannot be built or read, or text that is no text
 └─ InteropError    another tool's folder or model for which there is no counterpart
 └─ EngineError     an engine that does not exist, is not there, or cannot run this model here
 └─ DataError       files of data that are missing, broken or not as expected
 └─ MetricError     answers, references or alignments that cannot be measured
 └─ RecipeError     a recipe with an unknown key or a value that the key cannot have
 └─ RunError        a run folder that is missing, taken, damaged or does not fit
 └─ TrainingError   a training that cannot go on, such as one whose loss is no number
 └─ StoppedError    a training that was asked to stop, and saved everything
 └─ ServeError      a server that cannot be started as it was asked to
 └─ WriteError      a file or folder that the disk does not take
     └─ DiskFullError   no space left on the disk; what was there before is kept

Our own invariants use `assert`; a bare traceback of anything else is a bug of ours.
"""


class SaccadeError(Exception):
    """Base of every error that a user of Saccade can cause."""


class ShapeError(SaccadeError, ValueError):
    """Sizes that do not fit together; the message names both numbers."""


class MaskError(SaccadeError, ValueError):
    """A mask that does not fit the queries and keys it is used with."""


class PositionError(SaccadeError, IndexError):
    """A place that a positional encoding does not cover."""


class WatchError(SaccadeError, KeyError):
    """A question to `watch` about something it did not see."""

    def __str__(self) -> str:  # KeyError would show the repr of the message
        return str(self.args[0])


class FigureError(SaccadeError, ValueError):
    """A picture that cannot be drawn or written."""


class WeightsError(SaccadeError, ValueError):
    """Weights that are missing, broken or of another network."""


class DecodingError(SaccadeError, ValueError):
    """Limits or options of generation that cannot be met, or a model that gives no numbers."""


class TextError(SaccadeError, ValueError):
    """A vocabulary that cannot be built or read, or text and ids that it cannot take."""


class InteropError(SaccadeError, ValueError):
    """A model of another tool that has no counterpart here, or one of ours that has none there."""


class EngineError(SaccadeError):
    """An engine that does not exist, is not installed, or cannot run this model on this machine."""


class RecipeError(SaccadeError, ValueError):
    """A recipe that does not exist, an unknown key, or a value that the key cannot have."""


class RunError(SaccadeError):
    """A run folder that is missing, taken by another process, damaged, or does not fit."""


class TrainingError(SaccadeError):
    """A training that cannot go on; what was saved before is kept."""


class StoppedError(SaccadeError):
    """A training that was asked to stop, and saved everything."""


class ServeError(SaccadeError, ValueError):
    """A server that cannot be started as it was asked to."""


class WriteError(SaccadeError, OSError):
    """A file or folder that cannot be written, because of the disk or its permissions."""

    def __str__(self) -> str:  # OSError would put its number before the message
        return self.strerror or super().__str__()


class DiskFullError(WriteError):
    """No space left on the disk; what was written before is kept."""


class MetricError(SaccadeError, ValueError):
    """Answers, references or alignments that cannot be measured."""


class DataError(SaccadeError, ValueError):
    """Data that is missing, broken or not as expected; the message names the file and the line."""


def brief(error: BaseException, most: int = 300) -> str:
    """The message of an error, cut: those of damaged files may hold much of the file."""
    text = str(error) or type(error).__name__
    return text if len(text) <= most else f"{text[:most]} …"
