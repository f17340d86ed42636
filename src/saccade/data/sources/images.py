"""Reading images: whatever a file holds becomes upright RGB of modest size, or is refused.

Files come from anywhere, so nothing in them is trusted: not the sizes they announce, and not that
reading them ends soon. What Pillow decodes in Python, byte by byte, is bounded, too.
"""

import struct
import threading
import warnings
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from saccade.cancellation import raise_if_cancelled
from saccade.data.sources.archives import BUILTIN, bytes_of, idx_image, is_idx, place_of
from saccade.errors import DataError, ShapeError

Pixels = npt.NDArray[np.uint8]
ResizeMethod = Literal["squash", "crop", "pad"]

MOST_PIXELS = 50_000_000
LONGEST_SIDE = 100_000
MOST_SCANNED = 10**9  # pixels of a JPEG times its scans, each of which goes over all of them
LEAST_DATA = 512  # pixels for each byte of a JPEG: of 64 pixels at least one bit is said
MOST_PIECES = 100_000  # strips or tiles of a TIFF
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM")
SLOW = frozenset({"ppm", "ppm_plain", "bmp_rle"})  # decoders that are written in Python
SLOW_PIXELS = 2**20
SLOW_BYTES = 2**22
SLOW_REMARKS = 100  # lines beginning with # in a PPM
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
    (0, b"II*\0", "TIFF"),
    (0, b"MM\0*", "TIFF"),
    (0, b"II+\0", "TIFF"),
    (0, b"MM\0+", "TIFF"),
    (0, b"P1", "PPM"),
    (0, b"P2", "PPM"),
    (0, b"P3", "PPM"),
    (0, b"P4", "PPM"),
    (0, b"P5", "PPM"),
    (0, b"P6", "PPM"),
    (0, b"Pf", "PPM"),
)
OTHER_SIGNATURES = (
    (4, b"ftypavif", "AVIF"),
    (4, b"ftyp", "HEIC or a film"),
    (4, b"jP  ", "JPEG 2000"),
    (0, b"\0\0\1\0", "an icon (.ico)"),
    (0, b"8BPS", "Photoshop's format"),
    (0, b"%PDF", "PDF"),
    (0, b"%!PS", "PostScript"),
    (0, b"PK", "a zip; name an image inside it as photos.zip/name.jpg"),
    (0, b"<svg", "SVG"),
    (0, b"<?xml", "XML, perhaps SVG"),
    (0, b"<!DOCTYPE", "a web page"),
    (0, b"<html", "a web page"),
)
ALLOWED = "PNG, JPEG, GIF, BMP, WebP, TIFF or PPM"
LARGEST = f"an image may have {MOST_PIXELS:,} pixels and {LONGEST_SIDE:,} on a side"


def read_image(where: str | Path, *, named: str = "") -> Image.Image:
    """The image in RGB, turned as its EXIF says; of an animation the first frame.

    `where` is a file, `photos.zip/name.jpg`, `train-images-idx3-ubyte.gz/17`, or the name of a
    built-in image. Transparent parts become white, colour profiles are ignored. `named` is what a
    message begins with, such as the file and the line that name the image.
    """
    try:
        return _read(str(where))
    except DataError as error:
        if named:
            raise DataError(f"{named}: {error}") from error
        raise


def decode_image(data: bytes, where: str) -> Image.Image:
    """The image that the bytes of a file hold, as `read_image` gives it; `where` names it."""
    return _opened(data, where, _decoded)


def image_size(data: bytes, where: str) -> tuple[int, int]:
    """Width and height as the header of a file states them; nothing is decoded."""
    return _opened(data, where, _stated_size)


Opened = TypeVar("Opened")


def _opened(data: bytes, where: str, how: Callable[[bytes, str], Opened]) -> Opened:
    """Decode the bytes of a file with `how`; raise errors that describe the fault of the file."""
    if not data:
        raise DataError(f"{where} is empty (0 bytes); an image is expected")
    kind = _kind(data, SIGNATURES)
    if not kind:
        found = _kind(data, OTHER_SIGNATURES) or "something else"
        raise DataError(f"{where} is no image that can be read but {found}; use {ALLOWED}")
    try:
        return how(data, where)
    except DataError:
        raise
    except Image.DecompressionBombError as error:  # Pillow's own limit lies beyond ours
        raise DataError(f"{where} is too large; {LARGEST}") from error
    except UnidentifiedImageError as error:
        raise DataError(f"{where} begins like {kind} but is damaged or no image") from error
    except Exception as error:  # Pillow and the libraries below it raise almost anything
        reason = str(error) or type(error).__name__
        raise DataError(f"{where} ({kind}) is damaged or was not copied whole: {reason}") from error


def to_rgb(image: Image.Image) -> Image.Image:
    """The image in RGB: deep greys scaled to bytes, transparent parts over white.

    16 bits are scaled by 1/257. Other numbers lie in the first of these ranges that holds them
    all: 0 to 1 (floats only), 0 to 255, 0 to 65 535, their own smallest to largest.
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
    """The image as (height, width, 3), or (height, width, 1) if it is to be grey.

    squash   all of it, its sides stretched to fit
    crop     the middle of it, as much as fits when the shorter side does
    pad      all of it, with black on two sides
    """
    height, width = size
    if min(size) < 1:
        raise ShapeError(f"an image has at least one pixel, got the size {size}")
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
    if where.startswith(BUILTIN):
        return _builtin(where)
    file, inner = place_of(where)
    if inner and is_idx(file):
        pixels = idx_image(file, inner)
        _require_size((pixels.shape[1], pixels.shape[0]), where)
        return Image.fromarray(pixels).convert("RGB")
    return decode_image(bytes_of(where), where)


def _decoded(data: bytes, where: str) -> Image.Image:
    _require_few_pieces(data, where)
    stream = _Crumbs(data, where)
    with _quiet, Image.open(stream, formats=FORMATS) as image:
        _require_size(image.size, where)
        _require_quick(image, data, where)
        stream.allow(len(data) // 256 if image.format == "PNG" else SLOW_BYTES)
        image.load()
        raise_if_cancelled()
        upright = to_rgb(_upright(image))
    upright.info = {}
    return upright


def _stated_size(data: bytes, where: str) -> tuple[int, int]:
    _require_few_pieces(data, where)
    with _quiet, Image.open(_Crumbs(data, where), formats=FORMATS) as image:
        _require_size(image.size, where)
        return image.size


def _require_size(size: tuple[int, int], where: str) -> None:
    width, height = size
    if min(size) < 1:
        raise DataError(f"{where} has no pixels: {width} × {height}")
    if max(size) > LONGEST_SIDE or width * height > MOST_PIXELS:
        raise DataError(f"{where} is too large: {width:,} × {height:,}; {LARGEST}")


def _require_quick(image: Any, data: bytes, where: str) -> None:
    """Refuse what would take long to decode although it is not large."""
    width, height = image.size
    if image.format in ("JPEG", "MPO"):
        scans = data.count(b"\xff\xda")
        if width * height * scans > MOST_SCANNED:
            raise DataError(f"{where} is a JPEG of too many scans, {scans}; save it anew")
        if width * height > LEAST_DATA * len(data):
            raise DataError(
                f"{where} is damaged: {len(data):,} bytes cannot be a JPEG of {width:,} × "
                f"{height:,} pixels"
            )
    if {tile[0] for tile in image.tile} & SLOW:
        if width * height > SLOW_PIXELS or len(data) > SLOW_BYTES:
            raise DataError(
                f"{where} is too large for this form of {image.format}, {width:,} × {height:,}; "
                "save it as PNG"
            )
        if image.tile[0][0] == "ppm_plain" and data.count(b"#") > SLOW_REMARKS:
            raise DataError(f"{where} has more than {SLOW_REMARKS} remarks; save it as PNG")


def _require_few_pieces(data: bytes, where: str) -> None:
    """Refuse a TIFF of very many or very large strips or tiles, before they are listed."""
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
        return  # Pillow says what is wrong with it
    sides = {322: 1, 323: 1}
    for tag, kind, number, value in entries:
        if tag in (273, 279, 324, 325) and number > MOST_PIECES:
            raise DataError(f"{where} is a TIFF of {number:,} pieces; save it anew")
        if tag in sides:
            width = "H" if kind == 3 else "I"
            (sides[tag],) = struct.unpack_from(order + width, value)
    if sides[322] * sides[323] > MOST_PIXELS:
        raise DataError(f"{where} is a TIFF of too large tiles; save it anew")


def _upright(image: Image.Image) -> Image.Image:
    try:
        turn = TURNS.get(image.getexif().get(ExifTags.Base.Orientation, 1))
    except Exception:  # broken EXIF says nothing, and the image may be whole
        return image
    return image if turn is None else image.transpose(turn)


def _in_bytes(image: Image.Image) -> Pixels:
    values = np.asarray(image)
    if values.dtype.kind == "u":
        return _FROM_16_BITS[values]
    if image.mode == "I" and image.format in ("PNG", "PPM"):  # which have at most 16 bits
        return _FROM_16_BITS[values.clip(0, 65535)]
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    ends = (1.0, 255.0, 65535.0) if image.mode == "F" else (255.0, 65535.0)
    if low >= 0 and high <= ends[-1]:
        low, high = 0.0, next(end for end in ends if high <= end)
    scale = np.float32(255 / max(high - low, 1e-30))
    with np.errstate(all="ignore"):
        scaled = values.astype(np.float32) * scale
        scaled -= low * scale
    return np.rint(np.nan_to_num(scaled, copy=False).clip(0, 255)).astype(np.uint8)


_FROM_16_BITS = np.rint(np.arange(65536) / 257).astype(np.uint8)


def _kind(data: bytes, signatures: tuple[tuple[int, bytes, str], ...]) -> str:
    for place, beginning, name in signatures:
        if data.startswith(beginning, place):
            return name
    return ""


def _builtin(where: str) -> Image.Image:
    from saccade.data import builtin

    return to_rgb(builtin.image(where))


class _Crumbs(BytesIO):
    """The bytes of a file, to be read in a bounded number of steps.

    A file of millions of tiny parts would keep a parser busy for minutes.
    """

    STEPS = 5_000

    def __init__(self, data: bytes, where: str) -> None:
        super().__init__(data)
        self._where, self._left = where, self.STEPS

    def allow(self, more: int) -> None:
        """So many steps from now on, besides the usual number."""
        self._left = self.STEPS + more

    def read(self, size: int | None = -1, /) -> bytes:
        """The next bytes."""
        self._left -= 1
        if self._left < 0:
            raise DataError(f"{self._where} consists of too many small parts; save it anew")
        return super().read(size)


class _Quiet:
    """Pillow's warnings are off while any thread is inside.

    Each thread with its own `warnings.catch_warnings` would put back the filters of another.
    """

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0
        self._caught = warnings.catch_warnings()

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._caught = warnings.catch_warnings()
                self._caught.__enter__()
                warnings.filterwarnings("ignore", module=r"PIL\.")
            self._inside += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._caught.__exit__(None, None, None)


_quiet = _Quiet()
