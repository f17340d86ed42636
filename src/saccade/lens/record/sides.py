"""The two sides of attention: a text, an image in cells, or vectors over time.

Both have the same methods, so that callers need not know which they have: `membership`,
`answer_row`, `keep` for erasure, `draw`, and `to_json`, `arrays` and `view` for files and pages.
"""

import base64
import binascii
import io
import struct
import warnings
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
from jaxtyping import Float, Float32
from PIL import Image

from saccade.errors import ShapeError, WatchError
from saccade.lens.alignment.extraction import word_spans

if TYPE_CHECKING:
    from saccade.lens.drawing.chart import Chart

CLASS_TOKEN = "[CLS]"
STRIP_ROWS = 128  # the maximum height of a strip, in numbers of a vector
STRIP_RANGE = 2.5  # standard deviations from grey to black and to white
GREY = 127
"""The grey of erased cells."""
MOST_PIXELS = 50_000_000  # of the image in a record
LONGEST_SIDE = 640  # pixels of an image on a page
FEW_PIXELS = 256 * 256  # a larger image is stored as JPEG on a page
Item = TypeVar("Item")
_DAMAGED_PNG = (
    OSError,
    ValueError,
    SyntaxError,
    EOFError,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
    Image.DecompressionBombWarning,
)


@dataclass(frozen=True)
class Side:
    """A text that was read or written.

    Args:
        tokens: the tokens.
        words: the words.
        word_of: for each token the index of its word; None for control tokens such as `</s>`.

    Raises:
        ShapeError: if `word_of` does not fit the tokens and words.

    Example:
        >>> side = Side(("▁chat", "on", "</s>"), ("chaton",), (0, 0, None))
        >>> side.membership().tolist()
        [[1.0], [1.0], [0.0]]
    """

    tokens: tuple[str, ...]
    words: tuple[str, ...]
    word_of: tuple[int | None, ...]
    words_by_default: ClassVar[bool] = False
    answer_name: ClassVar[str] = "first token"
    parts: ClassVar[str] = "words"

    def __post_init__(self) -> None:
        if len(self.word_of) != len(self.tokens):
            raise ShapeError(
                "word_of must give a word or None for each token: got "
                f"{len(self.tokens)} tokens but {len(self.word_of)} in word_of; "
                "give one entry per token"
            )
        for token, word in zip(self.tokens, self.word_of, strict=True):
            if word is not None and not 0 <= word < len(self.words):
                raise ShapeError(
                    f"token {token!r} belongs to word {word}, but the number of words is "
                    f"{len(self.words)}, counted from 0; "
                    "correct word_of"
                )

    @classmethod
    def of_words(cls, words: Sequence[str], *, stop: str | None = None) -> "Side":
        """Return a text whose tokens are its words, followed by a control token if given."""
        control = () if stop is None else (stop,)
        return cls((*words, *control), tuple(words), (*range(len(words)), *(None for _ in control)))

    def membership(self) -> Float32[np.ndarray, "tokens words"]:
        """Return a matrix that is 1 where a token belongs to a word, and 0 elsewhere."""
        member = np.zeros((len(self.tokens), len(self.words)), dtype=np.float32)
        for token, word in enumerate(self.word_of):
            if word is not None:
                member[token, word] = 1.0
        return member

    def answer_row(self, weights: Float[np.ndarray, "n n"]) -> Float[np.ndarray, " n"]:
        """Return the row of self-attention that an answer is read from: the first token's."""
        return weights[0]

    def keep(self, original: Any, words: Collection[int]) -> str | tuple[str, ...]:
        """Return an input without all other words, as ERASER erases them.

        Args:
            original: the input: this text, or several texts whose words together are this text's.
            words: the indices of the words to keep.

        Returns:
            The words kept, separated by spaces: a text, or a tuple of several texts.

        Raises:
            WatchError: if the input has another number of words than this text.
        """
        single = isinstance(original, str)
        texts = [original] if single else list(original)
        kept, count = [], 0
        for text in texts:
            spans = word_spans(text)
            chosen = (span for i, span in enumerate(spans, count) if i in words)
            kept.append(" ".join(text[start:end] for start, end in chosen))
            count += len(spans)
        if count != len(self.words):
            raise WatchError(
                f"the input has {count} words, but its attention record has {len(self.words)}; "
                "pass the input that the record belongs to"
            )
        return kept[0] if single else tuple(kept)

    def draw(
        self,
        rows: Sequence[str],
        weights: Float32[np.ndarray, "rows columns"],
        *,
        words: bool,
        title: str,
    ) -> "Chart":
        """Draw the attention that something paid to this text, as a map.

        Args:
            rows: the names of what attended.
            weights: the attention of each row to the words of this text, or to its tokens.
            words: whether the columns are words.
            title: the title of the chart.
        """
        import torch

        from saccade.lens.drawing.figures import heatmap

        columns = self.words if words else self.tokens
        return heatmap(torch.from_numpy(weights), rows, columns, title=title)

    def to_json(self, *, image: bool = True) -> dict[str, object]:
        """Return the text as JSON has it."""
        return {"kind": "text", "tokens": self.tokens, "words": self.words, "word_of": self.word_of}

    def arrays(self) -> dict[str, np.ndarray]:
        """Return what an .npz file holds of this side beside its JSON: nothing."""
        return {}

    def view(self) -> dict[str, object]:
        """Return the text as a page shows it."""
        return self.to_json()


@dataclass(frozen=True, eq=False)
class ImageSide:
    """An image that was read, and the grid of cells that attention can see.

    As a text has tokens and words, an image has tokens (its cells row by row, after the class token
    if there is one) and cells; the class token is not a cell.

    Args:
        pixels: bytes (height, width, 3); a grey image may be (height, width) or (height, width, 1).
            If the image was cropped for the model, give what is left of it.
        grid: the number of cells (down, across); together they cover all pixels.
        class_token: whether the model puts a class token before the cells.

    Raises:
        ShapeError: if the pixels are not an image, or the grid has no cells.
    """

    pixels: np.ndarray
    grid: tuple[int, int]
    class_token: bool = False
    words_by_default: ClassVar[bool] = True
    parts: ClassVar[str] = "cells"
    noun: ClassVar[str] = "image"

    def __post_init__(self) -> None:
        pixels = np.array(self.pixels)
        if pixels.ndim == 2:
            pixels = pixels[:, :, None]
        if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] not in {1, 3}:
            raise ShapeError(
                "pixels must be bytes (uint8), (height, width, 3), or (height, width) for a grey "
                f"image; got {pixels.dtype} of {np.shape(self.pixels)}"
            )
        if not 0 < pixels.shape[0] * pixels.shape[1] <= MOST_PIXELS:
            raise ShapeError(
                f"the image of a record has 1 to {MOST_PIXELS:,} pixels, got "
                f"{pixels.shape[0]} × {pixels.shape[1]}; make it smaller first"
            )
        pixels = np.repeat(pixels, 3 // pixels.shape[2], 2)
        pixels.setflags(write=False)
        if len(self.grid) != 2 or min(self.grid) < 1:
            raise ShapeError(f"a grid is (rows, columns), each at least 1; got {self.grid}")
        object.__setattr__(self, "pixels", pixels)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ImageSide)
            and (self.grid, self.class_token) == (other.grid, other.class_token)
            and np.array_equal(self.pixels, other.pixels)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        height, width, _ = self.pixels.shape
        return (
            f"ImageSide({height} × {width} pixels, grid={self.grid}, "
            f"class_token={self.class_token})"
        )

    @property
    def words(self) -> tuple[str, ...]:
        """The names of the cells: `row,column`, counted from 0."""
        rows, columns = self.grid
        return tuple(f"{row},{column}" for row in range(rows) for column in range(columns))

    @property
    def tokens(self) -> tuple[str, ...]:
        """The names of the cells, after the class token if there is one."""
        return (CLASS_TOKEN, *self.words) if self.class_token else self.words

    @property
    def answer_name(self) -> str:
        """The name of what an answer is read from (see `answer_row`)."""
        return "class token" if self.class_token else "all cells"

    def membership(self) -> Float32[np.ndarray, "tokens cells"]:
        """Return a matrix that is 1 where a token is a cell, and 0 elsewhere."""
        cells = self.grid[0] * self.grid[1]
        return np.eye(cells + self.class_token, cells, -int(self.class_token), dtype=np.float32)

    def answer_row(self, weights: Float[np.ndarray, "n n"]) -> Float[np.ndarray, " n"]:
        """Return the row of self-attention that an answer is read from.

        It is the row of the class token or, without one, the mean over all cells.
        """
        return weights[0] if self.class_token else weights.mean(0)

    def keep(self, original: object, cells: Collection[int]) -> np.ndarray:
        """Return the pixels (height, width, 3) with all other cells grey.

        Args:
            original: the input; not used, because this side holds its pixels.
            cells: the indices of the cells to keep, counted row by row.
        """
        pixels = self.pixels.copy()
        rows, columns = self.grid
        height, width = pixels.shape[:2]
        for cell in set(range(rows * columns)) - set(cells):
            row, column = divmod(cell, columns)
            top, bottom = row * height // rows, (row + 1) * height // rows
            left, right = column * width // columns, (column + 1) * width // columns
            pixels[top:bottom, left:right] = GREY
        return pixels

    def draw(
        self,
        rows: Sequence[str],
        weights: Float32[np.ndarray, "rows columns"],
        *,
        words: bool,
        title: str,
    ) -> "Chart":
        """Draw the attention that something paid to this image: one panel per row.

        Args:
            rows: the names of what attended.
            weights: the attention of each row to the cells, or to the tokens.
            words: whether the columns are cells.
            title: the title of the chart.
        """
        from saccade.lens.drawing.overlays import overlays

        cells = weights if words else weights @ self.membership()
        strip = self.parts == "steps"
        return overlays(
            self.pixels, self.grid, cells, rows, title=title, name=self.noun, strip=strip
        )

    def to_json(self, *, image: bool = True) -> dict[str, object]:
        """Return the image as JSON has it: as PNG in base64, or without its pixels."""
        facts = {"kind": "image", "grid": self.grid, "class_token": self.class_token}
        return {**facts, "png": _base64(Image.fromarray(self.pixels))} if image else facts

    def arrays(self) -> dict[str, np.ndarray]:
        """Return what an .npz file holds of this side beside its JSON: the pixels."""
        return {"pixels": self.pixels}

    def view(self) -> dict[str, object]:
        """Return the image as a page shows it: at most 640 pixels long, as JPEG if large."""
        shown = Image.fromarray(self.pixels)
        shown.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
        kind = "JPEG" if shown.width * shown.height > FEW_PIXELS else "PNG"
        return {**self.to_json(image=False), "image": _base64(shown, kind)}


@dataclass(frozen=True, eq=False)
class StripSide(ImageSide):
    """Vectors over time that were read, drawn as a strip with one cell per step.

    Args:
        values: the vectors (steps, width); None if the side was read from a file.
        neutral: the vector that stands for nothing, in place of erased steps.
    """

    values: np.ndarray | None = None
    neutral: np.ndarray | None = None
    parts: ClassVar[str] = "steps"
    noun: ClassVar[str] = "vectors"

    @classmethod
    def of(cls, values: np.ndarray, mean: np.ndarray, spread: np.ndarray) -> "StripSide":
        """Return the strip of vectors: their numbers, scaled, as greys; the first is at the bottom.

        Args:
            values: the vectors (steps, width).
            mean: the mean of each number, drawn in medium grey.
            spread: the standard deviation of each number.
        """
        steps, width = values.shape
        scaled = ((values - mean) / spread)[:, :: -(-width // STRIP_ROWS)]
        greys = (255 * (np.clip(scaled / STRIP_RANGE, -1, 1) + 1) / 2).astype(np.uint8)
        pixels = np.repeat(greys.T[::-1], max(1, -(-4 * greys.shape[1] // steps)), 1)
        return cls(pixels, (1, steps), values=values, neutral=mean)

    @property
    def words(self) -> tuple[str, ...]:
        """The numbers of the steps, from 0."""
        return tuple(map(str, range(self.grid[1])))

    @property
    def answer_name(self) -> str:
        """The name of what an answer is read from."""
        return "all steps"

    def keep(self, original: object, cells: Collection[int]) -> np.ndarray:
        """Return the vectors with all other steps neutral.

        Args:
            original: the input; not used, because this side holds its vectors.
            cells: the numbers of the steps to keep.
        """
        if self.values is None or self.neutral is None:
            raise WatchError(
                "this record was read from a file and has no vectors; predict the input again"
            )
        kept = np.zeros(len(self.values), bool)
        kept[list(cells)] = True
        return np.where(kept[:, None], self.values, self.neutral).astype(np.float32)

    def to_json(self, *, image: bool = True) -> dict[str, object]:
        """Return the strip as JSON has it: an image of one row of cells, which are steps."""
        return {**super().to_json(image=image), "steps": True}


AnySide = Side | ImageSide
Input = str | tuple[str, ...] | np.ndarray
"""An input with some of its parts erased."""


def side_from_json(saved: Mapping[str, Any], pixels: np.ndarray | None = None) -> AnySide:
    """Return the side that `to_json` gave.

    Args:
        saved: the side as JSON has it.
        pixels: the pixels of an image that was saved without them.

    Raises:
        ValueError: if it is not such a side.
    """
    if saved["kind"] == "text":
        return Side(
            _items(saved["tokens"], str),
            _items(saved["words"], str),
            _items(saved["word_of"], int, type(None)),
        )
    if saved["kind"] != "image":
        raise ValueError(f"a side is of kind 'text' or 'image'; got {saved['kind']!r}")
    rows, columns = _items(saved["grid"], int)
    [class_token] = _items([saved["class_token"]], bool)
    shown = _png_pixels(saved["png"]) if pixels is None else pixels
    kind = StripSide if saved.get("steps") is True else ImageSide
    return kind(shown, (rows, columns), class_token=class_token)


def _items(values: object, *kinds: type[Item]) -> tuple[Item, ...]:
    """Return a JSON list as a tuple; raise unless each item is exactly of one of these types."""
    if not isinstance(values, list) or any(type(value) not in kinds for value in values):
        names = " or ".join(kind.__name__ for kind in kinds)
        raise ValueError(f"expected a list of {names}, got {str(values)[:60]}")
    return tuple(values)


def _base64(image: Image.Image, kind: str = "PNG") -> str:
    file = io.BytesIO()
    image.save(file, kind, **({"quality": 88} if kind == "JPEG" else {}))
    return base64.b64encode(file.getvalue()).decode()


def _png_pixels(text: str) -> np.ndarray:
    try:
        file = io.BytesIO(base64.b64decode(text, validate=True))
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image = Image.open(file, formats=["PNG"])
            if image.width * image.height > MOST_PIXELS:
                raise ValueError(f"it has {image.width} × {image.height} pixels")
            return np.array(image.convert("RGB"))
    except (binascii.Error, *_DAMAGED_PNG) as error:
        raise ValueError(
            f"its image is not a PNG of at most {MOST_PIXELS:,} pixels: {error}"
        ) from error
