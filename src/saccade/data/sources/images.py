"""Read images: every file becomes upright RGB of limited size, or raises a DataError.

Files may be hostile, so neither the sizes they announce nor the time to decode them is trusted.
Formats that Pillow decodes in Python, byte by byte, have limits of their own.
"""

import struct
import threading
import warnings
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import Literal, TypeVar

import numpy as np
from PIL import ExifTags, Image, ImageFile, ImageOps, UnidentifiedImageError

from saccade.cancellation import raise_if_cancelled
from saccade.data import builtin
from saccade.data.sources.archives import Pixels, idx_image, is_idx, locate, read_bytes
from saccade.errors import DataError, ShapeError

ResizeMethod = Literal["squash", "crop", "pad"]

MOST_PIXELS = 50_000_000
LONGEST_SIDE = 100_000
MOST_SCANNED = 10**9  # pixels times scans of a JPEG: every scan passes over all pixels
LEAST_DATA = 512  # most pixels per byte of a JPEG: 64 pixels need at least one bit
MOST_TILES = 100_000  # strips or tiles of a TIFF
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM")
SLOW = frozenset({"ppm", "ppm_plain", "bmp_rle"})  # decoders written in Python
SLOW_PIXELS = 2**20
SLOW_BYTES = 2**22
SLOW_COMMENTS = 100  # of a PPM
DEEP = frozenset({"I;16", "I;16L", "I;16B", "I;16N", "I", "F"})
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
SIGNATURES = (
    (0, b"\x89PNG\r\n\x1a\n", "PNG"),
    (0, b"\xff\xd8", "JPEG"),
    (0, b"GIF8", "GIF"),
    (0, b"BM", "BMP"),
    (8, b"WEBP", "WebP"),
    *((0, mark, "TIFF") for mark in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")),
    *((0, b"P%c" % kind, "PPM") for kind in b"123456f"),
)
OTHER_SIGNATURES = (
    (4, b"ftypavif", "AVIF"),
    (4, b"ftyp", "HEIC or a video"),
    (4, b"jP  ", "JPEG 2000"),
    (0, b"\0\0\1\0", "an icon (.ico)"),
    (0, b"8BPS", "Photoshop's format"),
    (0, b"%PDF", "PDF"),
    (0, b"%!PS", "PostScript"),
    (0, b"PK", "a zip (an image inside it is named photos.zip/name.jpg)"),
    (0, b"<svg", "SVG"),
    (0, b"<?xml", "XML, perhaps SVG"),
    (0, b"<!DOCTYPE", "a web page"),
    (0, b"<html", "a web page"),
)
ALLOWED = "PNG, JPEG, GIF, BMP, WebP, TIFF or PPM"
LIMIT = f"an image may have {MOST_PIXELS:,} pixels, and {LONGEST_SIDE:,} on a side; scale it down"


def read_image(where: str | Path, *, named: str = "") -> Image.Image:
    """Read an image in RGB, rotated according to its EXIF data.

    Animations are read as their first frame. Transparent parts become white; colour profiles are
    ignored.

    Args:
        where: A file, `photos.zip/name.jpg`, `train-images-idx3-ubyte.gz/17`, or the name of a
            built-in image such as `builtin:shapes/3`.
        named: A beginning for error messages, such as the file and line that name the image.

    Returns:
        The image in mode RGB.

    Raises:
        DataError: The image does not exist, is damaged, too large, or not in a known format.
    """
    try:
        return _read(str(where))
    except DataError as error:
        if named:
            raise DataError(f"{named}: {error}") from error
        raise


def decode_image(data: bytes, where: str) -> Image.Image:
    """Decode the bytes of an image file as `read_image` does; `where` names it in errors."""
    return _opened(data, where, _decoded)


def image_header(data: bytes, where: str) -> tuple[tuple[int, int], str]:
    """Return (width, height) and Pillow's mode of an image file, without decoding it."""
    return _opened(data, where, _header)


def image_size(data: bytes, where: str) -> tuple[int, int]:
    """Return width and height from the header of an image file, without decoding it."""
    return image_header(data, where)[0]


Opened = TypeVar("Opened")


def _opened(data: bytes, where: str, decode: Callable[[bytes, str], Opened]) -> Opened:
    """Call `decode`, and raise errors that describe the fault of the file."""
    if not data:
        raise DataError(f"{where} is empty (0 bytes); an image file is expected")
    kind = _kind(data, SIGNATURES)
    if not kind:
        other = _kind(data, OTHER_SIGNATURES) or "something else"
        raise DataError(f"{where} is not an image in a known format but {other}; use {ALLOWED}")
    try:
        return decode(data, where)
    except DataError:
        raise
    except Image.DecompressionBombError as error:  # Pillow's own limit is above ours
        raise DataError(f"{where} is too large; {LIMIT}") from error
    except UnidentifiedImageError as error:
        raise DataError(f"{where} begins like {kind} but is damaged; copy it again") from error
    except Exception as error:  # Pillow and the libraries below it raise almost anything
        reason = str(error) or type(error).__name__
        raise DataError(
            f"{where} ({kind}) is damaged or incomplete: {reason}; copy or save it again"
        ) from error


def to_rgb(image: Image.Image) -> Image.Image:
    """Convert an image to RGB, with deep grey scaled to bytes and transparent parts white.

    16 bits are scaled by 1/257. Other values are scaled from the first of these ranges that holds
    all of them: 0 to 1 (floats only), 0 to 255, 0 to 65 535, their minimum to their maximum.
    """
    if image.mode in DEEP:
        return Image.fromarray(_in_bytes(image)).convert("RGB")
    if image.has_transparency_data:
        layered = image.convert("RGBA")
        flat = Image.new("RGB", image.size, "white")
        flat.paste(layered, mask=layered.getchannel("A"))
        return flat
    return image.convert("RGB")


def resized(
    image: Image.Image, size: tuple[int, int], how: ResizeMethod = "squash", *, grey: bool = False
) -> Pixels:
    """Resize an image.

    Args:
        image: An image of any mode.
        size: Height and width in pixels.
        how: `squash` stretches the image to fit; `crop` cuts the middle out after scaling the
            shorter side to fit; `pad` scales the longer side to fit and adds black borders.
        grey: Whether to return one channel.

    Returns:
        The pixels as uint8 (height, width, 3), or (height, width, 1) if `grey`.

    Raises:
        ShapeError: A side of `size` is below 1.
    """
    height, width = size
    if min(size) < 1:
        raise ShapeError(
            f"an image needs at least one pixel on each side, got the size {size}; "
            "pass a height and a width of 1 or more"
        )
    image = to_rgb(image).convert("L") if grey else to_rgb(image)
    method = Image.Resampling.BICUBIC
    if how == "crop":
        fitted = ImageOps.fit(image, (width, height), method)
    elif how == "pad":
        scale = min(height / image.height, width / image.width)
        inner = (max(round(image.width * scale), 1), max(round(image.height * scale), 1))
        fitted = Image.new(image.mode, (width, height))
        corner = ((width - inner[0]) // 2, (height - inner[1]) // 2)
        fitted.paste(image.resize(inner, method), corner)
    else:
        fitted = image.resize((width, height), method)
    return np.array(fitted).reshape(height, width, -1)


def _read(where: str) -> Image.Image:
    if where.startswith(builtin.PREFIX):
        return to_rgb(builtin.image(where))
    file, inner = locate(where)
    if inner and is_idx(file):
        pixels = idx_image(file, inner)
        _require_size((pixels.shape[1], pixels.shape[0]), where)
        return Image.fromarray(pixels).convert("RGB")
    return decode_image(read_bytes(where), where)


def _decoded(data: bytes, where: str) -> Image.Image:
    _require_few_tiles(data, where)
    stream = _BoundedReader(data, where)
    with _silence, Image.open(stream, formats=FORMATS) as image:
        _require_size(image.size, where)
        _require_quick(image, data, where)
        stream.allow(len(data) // 256 if image.format == "PNG" else SLOW_BYTES)
        image.load()
        raise_if_cancelled()
        upright = to_rgb(_upright(image))
    upright.info = {}
    return upright


def _header(data: bytes, where: str) -> tuple[tuple[int, int], str]:
    _require_few_tiles(data, where)
    with _silence, Image.open(_BoundedReader(data, where), formats=FORMATS) as image:
        _require_size(image.size, where)
        return image.size, image.mode


def _require_size(size: tuple[int, int], where: str) -> None:
    width, height = size
    if min(size) < 1:
        raise DataError(f"{where} has no pixels: {width} × {height}; use another image")
    if max(size) > LONGEST_SIDE or width * height > MOST_PIXELS:
        raise DataError(f"{where} is too large: {width:,} × {height:,}; {LIMIT}")


def _require_quick(image: ImageFile.ImageFile, data: bytes, where: str) -> None:
    """Raise if the image would take long to decode although it is not large."""
    width, height = image.size
    if image.format in ("JPEG", "MPO"):
        scans = data.count(b"\xff\xda")
        if width * height * scans > MOST_SCANNED:
            raise DataError(f"{where} is a JPEG of too many scans, {scans}; save it again")
        if width * height > LEAST_DATA * len(data):
            raise DataError(
                f"{where} is damaged: {len(data):,} bytes cannot hold a JPEG of {width:,} × "
                f"{height:,} pixels; copy it again"
            )
    if {tile[0] for tile in image.tile} & SLOW:
        if width * height > SLOW_PIXELS or len(data) > SLOW_BYTES:
            raise DataError(
                f"{where} is too large for this form of {image.format}, {width:,} × {height:,}; "
                "save it as PNG"
            )
        if image.tile[0][0] == "ppm_plain" and data.count(b"#") > SLOW_COMMENTS:
            raise DataError(f"{where} has more than {SLOW_COMMENTS} comments; save it as PNG")


def _require_few_tiles(data: bytes, where: str) -> None:
    """Raise if a TIFF has too many or too large strips or tiles, before they are listed."""
    order = {b"II": "<", b"MM": ">"}.get(data[:2])
    if order is None or data[2:4] not in (b"*\0", b"\0*", b"+\0", b"\0+"):
        return
    big = b"+" in data[2:4]
    head, many, entry = ("8xQ", "Q", "HHQ8s") if big else ("4xI", "H", "HHI4s")
    try:
        (start,) = struct.unpack_from(order + head, data)
        (count,) = struct.unpack_from(order + many, data, start)
        places = range(start + struct.calcsize(order + many), len(data), 20 if big else 12)
        entries = [struct.unpack_from(order + entry, data, place) for place in places[:count]]
    except struct.error:
        return  # Pillow reports what is wrong
    sides = {322: 1, 323: 1}
    for tag, kind, number, value in entries:
        if tag in (273, 279, 324, 325) and number > MOST_TILES:
            raise DataError(f"{where} is a TIFF of {number:,} tiles; save it again")
        if tag in sides:
            width = "H" if kind == 3 else "I"
            (sides[tag],) = struct.unpack_from(order + width, value)
    if sides[322] * sides[323] > MOST_PIXELS:
        raise DataError(f"{where} is a TIFF of too large tiles; save it again")


def _upright(image: Image.Image) -> Image.Image:
    try:
        turn = TURNS.get(image.getexif().get(ExifTags.Base.Orientation, 1))
    except Exception:  # the EXIF data is broken, but the image may be intact
        return image
    return image if turn is None else image.transpose(turn)


def _in_bytes(image: Image.Image) -> Pixels:
    values = np.asarray(image)
    if values.dtype.kind == "u":
        return _FROM_16_BITS[values]
    if image.mode == "I" and image.format in ("PNG", "PPM"):  # both have at most 16 bits
        return _FROM_16_BITS[values.clip(0, 65535)]
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    ends = (1.0, 255.0, 65535.0) if image.mode == "F" else (255.0, 65535.0)
    if low >= 0 and high <= ends[-1]:
        low, high = 0.0, next(end for end in ends if high <= end)
    scale = np.float32(255 / max(high - low, 1e-30))
    with np.errstate(all="ignore"):
        scaled = values.astype(np.float32) * scale
        scaled -= np.float32(low) * scale  # numpy 1 would compute it in float64
    return np.rint(np.nan_to_num(scaled, copy=False).clip(0, 255)).astype(np.uint8)


_FROM_16_BITS = np.rint(np.arange(65536) / 257).astype(np.uint8)


def _kind(data: bytes, signatures: tuple[tuple[int, bytes, str], ...]) -> str:
    for place, beginning, name in signatures:
        if data.startswith(beginning, place):
            return name
    return ""


class _BoundedReader(BytesIO):
    """The bytes of a file, which may be read in a limited number of steps.

    A file of millions of tiny chunks would keep a parser busy for minutes.
    """

    STEPS = 5_000

    def __init__(self, data: bytes, where: str) -> None:
        super().__init__(data)
        self._where, self._left = where, self.STEPS

    def allow(self, more: int) -> None:
        """Allow this many steps from now on, in addition to the usual number."""
        self._left = self.STEPS + more

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next bytes."""
        self._left -= 1
        if self._left < 0:
            raise DataError(f"{self._where} consists of too many small chunks; save it again")
        return super().read(size)


class _Silence:
    """Silence Pillow's warnings while any thread is inside.

    If each thread used `warnings.catch_warnings`, one would restore the filters of another.
    """

    def __init__(self) -> None:
        self._lock, self._threads = threading.Lock(), 0
        self._caught = warnings.catch_warnings()

    def __enter__(self) -> None:
        with self._lock:
            if not self._threads:
                self._caught = warnings.catch_warnings()
                self._caught.__enter__()
                warnings.filterwarnings("ignore", module=r"PIL\.")
            self._threads += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._threads -= 1
            if not self._threads:
                self._caught.__exit__(None, None, None)


_silence = _Silence()
