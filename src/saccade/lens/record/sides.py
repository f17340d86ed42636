"""What attention goes from and to: a text, or an image in cells."""

import base64
import binascii
import io
import struct
import warnings
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float32
from PIL import Image

from saccade.errors import ShapeError

CLASS_TOKEN = "[CLS]"
MOST_PIXELS = 50_000_000  # of the image of a record
_INDEX = int | None
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
    """A text that was read or written: its tokens, its words, and which word each token is of.

    `word_of` is None for control tokens such as </s>, which are of no word.
    """

    tokens: tuple[str, ...]
    words: tuple[str, ...]
    word_of: tuple[int | None, ...]

    def __post_init__(self) -> None:
        if len(self.word_of) != len(self.tokens):
            raise ShapeError(
                f"each token is of one word or None: got {len(self.tokens)} tokens but "
                f"{len(self.word_of)} in word_of"
            )
        for token, word in zip(self.tokens, self.word_of, strict=True):
            if word is not None and not 0 <= word < len(self.words):
                raise ShapeError(
                    f"token {token!r} is said to be of word {word}, but there are "
                    f"{len(self.words)} words, counted from 0"
                )

    @classmethod
    def of_words(cls, words: Sequence[str], *, stop: str | None = None) -> "Side":
        """A text whose tokens are its words, with a control token after them if it has one."""
        control = () if stop is None else (stop,)
        return cls((*words, *control), tuple(words), (*range(len(words)), *(None for _ in control)))

    def membership(self) -> Float32[np.ndarray, "tokens words"]:
        """1 where a token is of a word."""
        member = np.zeros((len(self.tokens), len(self.words)), dtype=np.float32)
        for token, word in enumerate(self.word_of):
            if word is not None:
                member[token, word] = 1.0
        return member


@dataclass(frozen=True, eq=False)
class ImageSide:
    """An image that was read: its pixels, and the grid of cells that attention can look at.

    `pixels` are bytes, (height, width, 3) of red, green and blue; grey ones may be (height, width)
    or (height, width, 1). `grid` is the number of cells (down, across), which share the whole of
    these pixels alike, whatever its aspect: of an image that was cropped for the model, give what
    was left of it. The cells stand row by row, after a class token if the model has one.

    As a text has tokens and words, an image has tokens (the class token and the cells) and cells;
    the class token is no cell.
    """

    pixels: np.ndarray
    grid: tuple[int, int]
    class_token: bool = False

    def __post_init__(self) -> None:
        pixels = np.array(self.pixels)
        if pixels.ndim == 2:
            pixels = pixels[:, :, None]
        if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] not in {1, 3}:
            raise ShapeError(
                "the pixels of an image are bytes (uint8), (height, width, 3), or of grey ones "
                f"(height, width); got {pixels.dtype} of {np.shape(self.pixels)}"
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
        """The names of the cells, `row,column` from 0."""
        rows, columns = self.grid
        return tuple(f"{row},{column}" for row in range(rows) for column in range(columns))

    @property
    def tokens(self) -> tuple[str, ...]:
        """The cells, after the class token if there is one."""
        return (CLASS_TOKEN, *self.words) if self.class_token else self.words

    def membership(self) -> Float32[np.ndarray, "tokens cells"]:
        """1 where a token is a cell."""
        cells = self.grid[0] * self.grid[1]
        return np.eye(cells + self.class_token, cells, -int(self.class_token), dtype=np.float32)

    def png(self) -> bytes:
        """The image as a file would hold it."""
        file = io.BytesIO()
        Image.fromarray(self.pixels).save(file, "PNG")
        return file.getvalue()


AnySide = Side | ImageSide


def side_json(side: AnySide, *, image: bool = True) -> dict[str, Any]:
    """A side as JSON has it; without its `image`, pixels are kept elsewhere."""
    if isinstance(side, Side):
        return {"kind": "text", "tokens": side.tokens, "words": side.words, "word_of": side.word_of}
    found = {"kind": "image", "grid": side.grid, "class_token": side.class_token}
    return {**found, "png": base64.b64encode(side.png()).decode()} if image else found


def side_of(found: Any, pixels: np.ndarray | None = None) -> AnySide:
    """What `side_json` gave; of an image without its PNG, these are the pixels."""
    if found["kind"] == "text":
        return Side(
            _all_of(str, found["tokens"]),
            _all_of(str, found["words"]),
            _all_of(_INDEX, found["word_of"]),
        )
    if found["kind"] != "image":
        raise ValueError(f"it is of {found['kind']!r}, this version reads 'text' and 'image'")
    rows, columns = _all_of(int, found["grid"])
    if not isinstance(found["class_token"], bool):
        raise ValueError(f"class_token should be true or false, got {found['class_token']!r}")
    shown = _png_pixels(found["png"]) if pixels is None else pixels
    return ImageSide(shown, (rows, columns), class_token=found["class_token"])


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
        raise ValueError(f"its image is no PNG of at most {MOST_PIXELS:,} pixels: {error}") from (
            error
        )


def _all_of(kind: Any, found: Any) -> tuple[Any, ...]:
    if not isinstance(found, list) or not all(
        isinstance(one, kind) and not isinstance(one, bool) for one in found
    ):
        raise ValueError(f"{str(found)[:60]!r} should be a list of {kind}")
    return tuple(found)
