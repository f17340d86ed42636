"""Descriptions: what a task reads, what it writes, and the options of its model.

A task describes itself by one `Description`. The server, the command line and the exports derive
what they need from these records by `match`, so that they work with tasks they have never seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from saccade.data.suffixes import SUFFIXES, VECTOR_SUFFIXES
from saccade.decoding import GenerationConfig, GenerationLimits

if TYPE_CHECKING:
    from torch import nn

    from saccade.tasks._shared.labels import Labels
    from saccade.text import Tokenizer

VOCABULARY_FILE = "tokenizer.json"
"""The file of a run folder that holds the vocabulary of a task with one vocabulary."""


@dataclass(frozen=True, kw_only=True)
class Input:
    """Base class for the inputs of tasks.

    Attributes:
        kind: The name of such inputs in the HTTP API.
        unit: The plural of what the length of an input counts.
        suffixes: The suffixes of the files that inputs may be; none if they are texts.
        part: The part of an input that is read if it is too long, with "{}" for its length.
    """

    kind: ClassVar[str]
    unit: ClassVar[str] = "tokens"
    suffixes: ClassVar[tuple[str, ...]] = ()
    part: ClassVar[str] = "only {} are read"


@dataclass(frozen=True, kw_only=True)
class TextInput(Input):
    """A text, or a pair of texts, as token ids.

    The model is called with `tokens` (b, s) and a boolean `mask` (b, s) that is True at real
    tokens; with `num_segments` above 0 also with `segments` (b, s).

    Attributes:
        tokenizer: The vocabulary.
        file: The file of a run folder that holds the vocabulary.
        max_length: Maximum number of tokens that are read at once, control tokens included.
        places: Number of positions that the model has for them; None if it is unlimited.
        before: Token ids before every text.
        after: Token ids after every text; after each text of a pair.
        empty: Token ids that are read in place of a text without tokens.
        opening: Text before every input, of which the input is the continuation; its token ids
            are `before`.
        pairs: Whether an input is a pair of texts.
        long: The part of a longer input that is read: its beginning ("cut"), all of it in
            overlapping windows ("slide"), the tokens around its masks ("masks"), or its end
            ("end").
        num_segments: Number of segments that the model tells apart; 0 if it takes none.
        masks: Whether an input may contain mask tokens.
    """

    tokenizer: Tokenizer
    file: str = VOCABULARY_FILE
    max_length: int
    places: int | None = None
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    empty: tuple[int, ...] = ()
    opening: str = ""
    pairs: bool = False
    long: Literal["cut", "slide", "masks", "end"] = "cut"
    num_segments: int = 0
    masks: bool = False

    @property
    def kind(self) -> str:  # type: ignore[override]
        """The kind: "pair" or "text"."""
        return "pair" if self.pairs else "text"

    @property
    def part(self) -> str:  # type: ignore[override]
        """The part that is read of a longer input, for a message."""
        match self.long:
            case "end":
                return "only the last {} are read (text.block)"
            case "masks":
                return "only the {} around its masks are read (text.max_length)"
        return "only the first {} are read (text.max_length)"


@dataclass(frozen=True, kw_only=True)
class ImageInput(Input):
    """An image as pixels (b, channels, size, size), scaled by (x - mean) / spread.

    Attributes:
        size: Both sides in pixels.
        how: How an image is resized; see `ImageConfig`.
        channels: 1 for grey, 3 for colour.
        mean: The mean of each channel, in bytes (0 to 255).
        spread: The spread of each channel, in bytes.
        features: Return the network whose features the model reads instead of the pixels; None
            if it reads the pixels. Features are rounded to float16.
    """

    kind: ClassVar[str] = "image"
    suffixes: ClassVar[tuple[str, ...]] = SUFFIXES

    size: int
    how: str
    channels: int
    mean: tuple[float, ...]
    spread: tuple[float, ...]
    features: Callable[[], nn.Module] | None = None


@dataclass(frozen=True, kw_only=True)
class VectorInput(Input):
    """A sequence of vectors (b, n, width), scaled by (x - mean) / spread.

    The model is called with the vectors and a boolean `mask` (b, n) that is True at real steps.

    Attributes:
        width: The number of numbers per vector.
        max_length: The maximum number of steps that are read.
        mean: The mean of each number in the training data.
        spread: The standard deviation of each number in the training data.
        places: Number of positions that the model has for them; None if it is unlimited.
    """

    kind: ClassVar[str] = "vectors"
    unit: ClassVar[str] = "steps"
    suffixes: ClassVar[tuple[str, ...]] = VECTOR_SUFFIXES
    part: ClassVar[str] = "only the first {} are read (vectors.max_length)"

    width: int
    max_length: int
    mean: tuple[float, ...]
    spread: tuple[float, ...]
    places: int | None = None


@dataclass(frozen=True, kw_only=True)
class Output:
    """Base class for the outputs of tasks."""


@dataclass(frozen=True, kw_only=True)
class GeneratedText(Output):
    """A text that is generated token by token.

    The model has a `decoder`. With a `start`, `model.read(...)` reads the input and
    `model(..., tokens, ...)` gives the logits of what follows each token; without one,
    `model(tokens)` continues the input itself.

    Attributes:
        tokenizer: The vocabulary.
        file: The file of a run folder that holds the vocabulary.
        start: The token id that a text begins with; None if it continues the input.
        options: The default options of generation, such as the maximum length.
        places: Number of positions that the model has for the text; None if it is unlimited.
        window: Maximum number of tokens that are seen at once; None if all are. When it is full,
            its last half is read again.
    """

    tokenizer: Tokenizer
    file: str = VOCABULARY_FILE
    start: int | None
    options: GenerationConfig
    places: int | None = None
    window: int | None = None

    @property
    def stop(self) -> int:
        """The token id that ends a text."""
        return self.tokenizer.stop

    @property
    def never(self) -> tuple[int, ...]:
        """The token ids that are never generated: all control tokens but `stop`."""
        controls = self.tokenizer.controls
        ids = controls.ids if controls.unknown is None else {*controls.ids, controls.unknown}
        return tuple(sorted(ids - {self.stop}))

    def limits(self, max_length: int) -> GenerationLimits:
        """Return the limits of a generation of at most `max_length` tokens."""
        return GenerationLimits(stop=self.stop, max_length=max_length, forbidden=self.never)


@dataclass(frozen=True, kw_only=True)
class LabelOutput(Output):
    """A label, several labels or a number, from the logits (b, c) that `model(...)` returns.

    Attributes:
        labels: The meaning of the logits.
        temperature: The divisor of the logits before they become probabilities.
    """

    labels: Labels
    temperature: float = 1.0


@dataclass(frozen=True, kw_only=True)
class TagOutput(LabelOutput):
    """A label for each word, from the logits (b, s, c) that `model(...)` returns.

    The logits of a word are those of its first token.
    """


@dataclass(frozen=True, kw_only=True)
class TokenOutput(Output):
    """A token for each token of the input, from the logits (b, s, v) that `model(...)` returns.

    Attributes:
        tokenizer: The vocabulary.
        file: The file of a run folder that holds the vocabulary.
    """

    tokenizer: Tokenizer
    file: str = VOCABULARY_FILE


def places_of(side: object) -> int | None:
    """Return the number of positions of an encoder's or decoder's options; None if unlimited."""
    position = getattr(side, "position", None)
    places: int | None = getattr(position, "places", None)
    return places


@dataclass(frozen=True, kw_only=True)
class Description:
    """A task's input and output, and the options of its model.

    Attributes:
        reads: The input.
        writes: The output.
        model: The options that the model was built from.
    """

    reads: Input
    writes: Output
    model: object

    @property
    def vocabularies(self) -> dict[str, Tokenizer]:
        """The vocabularies, by their file names; the one of the input first."""
        sides = (self.reads, self.writes)
        return {
            side.file: side.tokenizer
            for side in sides
            if isinstance(side, TextInput | GeneratedText | TokenOutput)
        }

    def vocabulary_files(self) -> dict[str, str]:
        """Return the contents of the files of the vocabularies."""
        return {file: tokenizer.to_string() for file, tokenizer in self.vocabularies.items()}

    @property
    def generation(self) -> GenerationConfig | None:
        """The default options of generation; None if no text is generated."""
        return self.writes.options if isinstance(self.writes, GeneratedText) else None
