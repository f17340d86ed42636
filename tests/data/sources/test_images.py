"""Images of every kind become RGB; damaged and hostile ones raise quickly and are named."""

import gzip
import io
import itertools
import os
import struct
import subprocess
import sys
import threading
import time
import warnings
import zipfile
import zlib

import numpy as np
import pytest
from PIL import Image, ImageFile

from saccade.data import builtin
from saccade.data.sources import archives, images
from saccade.data.sources.archives import digest_of_files, locate
from saccade.data.sources.images import image_size, read_image, resized, to_rgb
from saccade.errors import DataError, ShapeError

WIDTH, HEIGHT = 23, 17
ENDINGS = {
    "PNG": "png",
    "JPEG": "jpg",
    "GIF": "gif",
    "BMP": "bmp",
    "WEBP": "webp",
    "TIFF": "tif",
    "PPM": "ppm",
}
LOSSLESS = {"PNG", "BMP", "TIFF", "PPM"}


def picture(mode="RGB", size=(WIDTH, HEIGHT)):
    """Return a gradient with four different corners."""
    width, height = size
    y, x = np.mgrid[:height, :width]
    red, green = x * 255 // max(width - 1, 1), y * 255 // max(height - 1, 1)
    rgb = np.stack([red, green, 255 - red], -1).astype(np.uint8)
    image = Image.fromarray(rgb)
    if mode == "I;16":
        return Image.fromarray((red * 257).astype(np.uint16))
    if mode == "I":
        return Image.fromarray(red.astype(np.int32) * 257)
    if mode == "F":
        return Image.fromarray((red / 255).astype(np.float32))
    if mode == "LA":
        return image.convert("L").convert("LA")
    return image.convert(mode)


def packed(image, kind, **options):
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def read_quickly(where):
    """Read an image in less than 2 s of CPU time."""
    start = time.thread_time()
    try:
        return read_image(where)
    finally:
        assert time.thread_time() - start < 2


def error_of(where):
    """Return the error message of a file, which must name it."""
    with pytest.raises(DataError) as caught:
        read_quickly(where)
    message = str(caught.value)
    assert os.path.basename(str(where)) in message
    assert "\n" not in message
    return message


def read_or_none(path):
    """Return the image in RGB, or None if it raises an error with its name."""
    try:
        image = read_quickly(path)
    except DataError as error:
        assert path.name in str(error)  # noqa: PT017
        return None
    assert image.mode == "RGB"
    return image


def corners(image):
    right, bottom = image.width - 1, image.height - 1
    return [image.getpixel(place) for place in ((0, 0), (right, 0), (0, bottom), (right, bottom))]


# valid images

MODES = ["1", "L", "P", "LA", "RGB", "RGBA", "CMYK", "YCbCr", "I;16", "I", "F"]


def saved():
    """Yield every mode in every format that can hold it; older Pillows write some wrongly."""
    for kind, mode in itertools.product(ENDINGS, MODES):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                data = packed(picture(mode), kind)
                Image.open(io.BytesIO(data)).load()
            except (OSError, KeyError, ValueError):
                continue
        yield kind, mode, data


SAVED = list(saved())


def test_every_mode_and_format_is_covered():
    assert len(SAVED) > 40
    assert {kind for kind, _, _ in SAVED} == set(ENDINGS)
    assert {mode for _, mode, _ in SAVED} == set(MODES)


@pytest.mark.parametrize(
    ("kind", "mode", "data"), SAVED, ids=[f"{kind}-{mode}" for kind, mode, _ in SAVED]
)
def test_every_mode_of_every_format_becomes_rgb(tmp_path, kind, mode, data):
    path = tmp_path / f"x.{ENDINGS[kind]}"
    path.write_bytes(data)
    image = read_quickly(path)
    assert (image.mode, image.size, image.info) == ("RGB", (WIDTH, HEIGHT), {})
    if mode in ("I;16", "I", "F"):
        if kind not in LOSSLESS:  # Pillow clips when it writes these
            return
        expected = Image.merge("RGB", [picture("RGB").getchannel("R")] * 3)
    else:
        expected = picture(mode).convert("RGB")
    difference = np.abs(np.asarray(image, int) - np.asarray(expected, int))
    if mode in ("P", "1"):
        assert difference.mean() < 30
    else:
        assert difference.max() <= (1 if kind in LOSSLESS else 60)
    again = read_quickly(str(path))
    assert again.tobytes() == image.tobytes()


@pytest.mark.parametrize("turn", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_images_are_rotated_by_their_exif_orientation(tmp_path, kind, turn):
    """The corners of the file end up in the order of `upright`."""
    exif = Image.Exif()
    exif[0x0112] = turn
    path = tmp_path / f"x.{ENDINGS[kind]}"
    options = {"quality": 95} if kind == "JPEG" else {"lossless": True} if kind == "WEBP" else {}
    path.write_bytes(packed(picture(), kind, exif=exif, **options))
    image = read_quickly(path)
    upright = {
        1: [0, 1, 2, 3],
        2: [1, 0, 3, 2],
        3: [3, 2, 1, 0],
        4: [2, 3, 0, 1],
        5: [0, 2, 1, 3],
        6: [2, 0, 3, 1],
        7: [3, 1, 2, 0],
        8: [1, 3, 0, 2],
    }[turn]
    assert image.size == ((WIDTH, HEIGHT) if turn < 5 else (HEIGHT, WIDTH))
    expected = [corners(picture())[i] for i in upright]
    assert np.abs(np.array(corners(image)) - np.array(expected)).max() < 60
    assert image.getexif().get(0x0112) is None


@pytest.mark.parametrize("value", [0, 9, 65535])
def test_an_invalid_exif_orientation_is_ignored(tmp_path, value):
    exif = Image.Exif()
    exif[0x0112] = value
    (tmp_path / "x.jpg").write_bytes(packed(picture(), "JPEG", exif=exif))
    assert read_quickly(tmp_path / "x.jpg").size == (WIDTH, HEIGHT)


@pytest.mark.parametrize(
    "exif", [b"Exif\0\0", b"Exif\0\0garbage", b"Exif\0\0II*\0\xff\xff\xff\xff", b"\0" * 100]
)
def test_damaged_exif_data_is_ignored(tmp_path, exif):
    (tmp_path / "x.jpg").write_bytes(packed(picture(), "JPEG", exif=exif))
    assert read_quickly(tmp_path / "x.jpg").size == (WIDTH, HEIGHT)


def test_16_bit_values_are_scaled_not_clipped(tmp_path):
    values = np.array([[0, 128, 129, 257, 32768, 65535]], np.uint16)
    for kind in ("PNG", "TIFF", "PPM"):
        path = tmp_path / f"x.{ENDINGS[kind]}"
        path.write_bytes(packed(Image.fromarray(values), kind))
        assert np.asarray(read_image(path))[0, :, 1].tolist() == [0, 0, 1, 1, 128, 255]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array([[0, 0.5, 1]], np.float32), [0, 128, 255]),
        (np.array([[0, 2, 255]], np.float32), [0, 2, 255]),
        (np.array([[0, 257, 65535]], np.float32), [0, 1, 255]),
        (np.array([[-1, 0, 1]], np.float32), [0, 128, 255]),
        (np.array([[0, 1e6, 4e6]], np.float32), [0, 64, 255]),
        (np.array([[np.nan, 0.2, np.inf]], np.float32), [0, 51, 255]),
        (np.array([[np.nan, np.inf, -np.inf]], np.float32), [0, 255, 0]),
        (np.array([[-3e38, 0, 3e38]], np.float32), [0, 128, 255]),
        (np.array([[1e10, 1e10, 1e10]], np.float32), [0, 0, 0]),
        (np.array([[0, 1, 255]], np.int32), [0, 1, 255]),
        (np.array([[0, 257, 65535]], np.int32), [0, 1, 255]),
        (np.array([[-(2**31), 0, 2**31 - 1]], np.int32), [0, 128, 255]),
    ],
)
def test_deep_grey_is_scaled_from_the_smallest_fitting_range(tmp_path, values, expected):
    (tmp_path / "x.tif").write_bytes(packed(Image.fromarray(values), "TIFF"))
    assert np.asarray(read_image(tmp_path / "x.tif"))[0, :, 0].tolist() == expected


def test_dark_16_bits_stay_dark(tmp_path):
    (tmp_path / "x.pgm").write_bytes(b"P5 2 1 65535\n\0\0\0\xff")
    assert np.asarray(read_image(tmp_path / "x.pgm"))[0, :, 0].tolist() == [0, 1]
    (tmp_path / "x.pgm").write_bytes(b"P5 3 1 1023\n\0\0\x02\0\x03\xff")
    assert np.asarray(read_image(tmp_path / "x.pgm"))[0, :, 0].tolist() == [0, 128, 255]


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_transparent_parts_are_white(tmp_path, mode):
    image = Image.new("RGBA", (3, 1), (200, 0, 0, 0))
    image.putpixel((1, 0), (0, 0, 0, 255))
    image.putpixel((2, 0), (100, 100, 100, 128))
    stream = packed(image.convert("RGBA") if mode == "RGBA" else image.convert(mode), "PNG")
    (tmp_path / "x.png").write_bytes(stream)
    pixels = np.asarray(read_image(tmp_path / "x.png"))[0]
    assert pixels[0].tolist() == [255, 255, 255]
    assert pixels[1].tolist() == [0, 0, 0]
    if mode == "RGBA":
        assert pixels[2].tolist() == [177, 177, 177]  # (128 · 100 + 127 · 255) / 255


def test_a_transparent_colour_becomes_white(tmp_path):
    for mode, clear in (("RGB", (255, 0, 0)), ("L", 76)):
        image = Image.new("RGB", (2, 1), (255, 0, 0)).convert(mode)
        image.putpixel((1, 0), (0, 0, 255) if mode == "RGB" else 3)
        (tmp_path / "x.png").write_bytes(packed(image, "PNG", transparency=clear))
        pixels = np.asarray(read_image(tmp_path / "x.png"))[0].tolist()
        assert pixels == [[255] * 3, [0, 0, 255] if mode == "RGB" else [3] * 3]


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG", "TIFF"])
def test_the_first_frame_of_an_animation_is_read(tmp_path, kind):
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "lime", "blue")]
    path = tmp_path / f"x.{ENDINGS[kind]}"
    path.write_bytes(packed(frames[0], kind, save_all=True, append_images=frames[1:]))
    red, green, blue = read_image(path).getpixel((4, 4))
    assert red > 240
    assert green < 10
    assert blue < 10


ODD = {
    "1x1.png": packed(picture(size=(1, 1)), "PNG"),
    "tall.png": packed(picture(size=(1, 5000)), "PNG"),
    "wide.jpg": packed(picture(size=(5000, 1)), "JPEG"),
    "wide.gif": packed(picture(size=(5000, 1)), "GIF"),
    "progressive.jpg": packed(picture(), "JPEG", progressive=True),
    "grey.jpg": packed(picture("L"), "JPEG"),
    "cmyk.jpg": packed(picture("CMYK"), "JPEG"),
    "interlaced.gif": packed(picture(), "GIF", interlace=1),
    "lossless.webp": packed(picture("RGBA"), "WEBP", lossless=True),
    "profile.png": packed(picture(), "PNG", icc_profile=b"nonsense"),
    "profile.jpg": packed(picture(), "JPEG", icc_profile=b"nonsense" * 20_000),
    "packed.tif": packed(picture(), "TIFF", compression="tiff_lzw"),
    "deflated.tif": packed(picture(), "TIFF", compression="tiff_adobe_deflate"),
    "jpeg.tif": packed(picture(), "TIFF", compression="jpeg"),
    "big.tif": packed(picture(), "TIFF", big_tiff=True),
    "plain.pgm": b"P2\n# a remark\n3 2\n15\n0 1 2\n13 14 15\n",
    "plain.ppm": b"P3 1 1 255 1 2 3",
    "plain.pbm": b"P1 3 1\n1 0 1\n",
    "bits.pbm": b"P4 3 1\n\xa0",
    "odd.ppm": b"P6 1 1 100\n\0\x32\x64",
    "real.pnm": b"Pf\n1 1\n-1.0\n" + struct.pack("<f", 0.5),
    "wrong-ending.png": packed(picture(), "JPEG"),
    "no-ending": packed(picture(), "PNG"),
    "more-behind.png": packed(picture(), "PNG") + b"more",
    "more-behind.jpg": packed(picture(), "JPEG") + b"more",
    "Ünïcode ☃.png": packed(picture(), "PNG"),
}


@pytest.mark.parametrize("name", ODD)
def test_unusual_images_are_read(tmp_path, name):
    (tmp_path / name).write_bytes(ODD[name])
    assert read_quickly(tmp_path / name).mode == "RGB"


def interlaced_png():
    """Return two by two pixels in Adam7; three of its seven passes have pixels here."""
    rows = [b"\0\x0a\x14\x1e", b"\0\x28\x32\x3c", b"\0\x46\x50\x5a\x64\x6e\x78"]
    return png([(b"IHDR", struct.pack(">IIBBBBB", 2, 2, 8, 2, 0, 0, 1)), idat(b"".join(rows))])


def test_interlaced_images_are_decoded(tmp_path):
    (tmp_path / "x.png").write_bytes(interlaced_png())
    pixels = np.asarray(read_quickly(tmp_path / "x.png"))
    assert pixels.reshape(4, 3)[:, 0].tolist() == [10, 40, 70, 100]


# invalid images


def png(chunks, end=True):
    chunks = [*chunks, (b"IEND", b"")] if end else chunks
    parts = [b"\x89PNG\r\n\x1a\n"]
    for name, data in chunks:
        parts += [struct.pack(">I", len(data)), name, data]
        parts += [struct.pack(">I", zlib.crc32(name + data))]
    return b"".join(parts)


def header(width, height, depth=8, colour=2):
    return (b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))


def idat(data):
    return (b"IDAT", zlib.compress(data))


def bmp(width, height, data=b"", packing=0, bits=24):
    info = struct.pack("<IiiHHIIiiII", 40, width, height, 1, bits, packing, len(data), 0, 0, 0, 0)
    palette = bytes(1024) if bits == 8 else b""
    start = 14 + len(info) + len(palette)
    return struct.pack("<2sIHHI", b"BM", start + len(data), 0, 0, start) + info + palette + data


def tiff(*entries, rest=b""):
    body = b"".join(struct.pack("<HHII", *entry) for entry in sorted(entries))
    return b"II*\0" + struct.pack("<IH", 8, len(entries)) + body + struct.pack("<I", 0) + rest


def jpeg_size(width, height):
    """Return a small JPEG that announces another size."""
    data = bytearray(packed(picture(), "JPEG"))
    place = data.index(b"\xff\xc0")
    data[place + 5 : place + 9] = struct.pack(">HH", height, width)
    return bytes(data)


def webp_size(width, height):
    data = bytearray(packed(picture("RGBA"), "WEBP", lossless=True))
    place = data.index(b"VP8L") + 9
    bits = (width - 1) | (height - 1) << 14 | 1 << 28
    data[place : place + 4] = struct.pack("<I", bits)
    return bytes(data)


def many_scans(count):
    """Return a progressive JPEG whose last scan is repeated."""
    data = packed(picture(size=(1000, 1000)), "JPEG", progressive=True)
    last = data.rindex(b"\xff\xda")
    return data[:-2] + data[last:-2] * count + data[-2:]


def gif(blocks, size=(4, 4)):
    """Return a GIF with a comment in this many small blocks before the image."""
    intact = packed(picture(size=size), "GIF")
    place = intact.index(b"\x2c", 13 + 3 * 2 ** ((intact[10] & 7) + 1))
    return intact[:place] + b"\x21\xfe" + b"\x01x" * blocks + b"\0" + intact[place:]


HUGE_TIFF = tiff(
    (256, 4, 1, 60_000), (257, 4, 1, 60_000), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1),
    (273, 4, 1, 8), (277, 3, 1, 1), (278, 4, 1, 60_000), (279, 4, 1, 100),
)  # fmt: skip
TILED_TIFF = tiff(
    (256, 4, 1, 64), (257, 4, 1, 64), (258, 3, 1, 8), (259, 3, 1, 8), (262, 3, 1, 1),
    (277, 3, 1, 1), (322, 4, 1, 60_000), (323, 4, 1, 60_000), (324, 4, 1, 8), (325, 4, 1, 100),
)  # fmt: skip
MANY_TIFF = tiff(
    (256, 4, 1, 5000), (257, 4, 1, 5000), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1),
    (273, 4, 3_000_000, 200), (277, 3, 1, 1), (278, 4, 1, 1), (279, 4, 3_000_000, 200),
    rest=bytes(1000),
)  # fmt: skip
BAD = {
    "nothing.png": b"",
    "one-byte.jpg": b"\xff",
    "text.png": b"I am a text that was renamed\n",
    "page.jpg": b"<!DOCTYPE html><html><body>404</body></html>",
    "drawing.png": b"<svg xmlns='http://www.w3.org/2000/svg'/>",
    "noise.png": bytes(range(256)) * 40,
    "zeros.png": bytes(10_000),
    "document.tif": b"%PDF-1.7 ...",
    "phone.jpg": b"\0\0\0\x18ftypheic\0\0\0\0" + bytes(100),
    "new.jpg": b"\0\0\0\x18ftypavif\0\0\0\0" + bytes(100),
    "icon.png": b"\0\0\1\0\1\0" + bytes(100),
    "layers.png": b"8BPS" + bytes(100),
    "archive.png": b"PK\x03\x04" + bytes(100),
    "signature.png": b"\x89PNG\r\n\x1a\n",
    "signature.jpg": b"\xff\xd8\xff",
    "signature.gif": b"GIF89a",
    "signature.webp": b"RIFF\x10\0\0\0WEBPVP8 ",
    "signature.tif": b"II*\0",
    "signature.bmp": b"BM",
    "signature.ppm": b"P6",
    "beyond.tif": b"II*\0\xff\xff\xff\xff",
    "loop.tif": b"II*\0\x08\0\0\0\0\0\x08\0\0\0",
    "no-pixels.png": png([header(0, 5), idat(b"")]),
    "no-pixels.gif": b"GIF89a\0\0\0\0\0\0\0;",
    "no-pixels.bmp": bmp(0, 0),
    "no-pixels.pgm": b"P5 0 5 255\n",
    "no-data.png": png([header(4, 4)]),
    "no-end.png": png([header(4, 4), idat(bytes(20))], end=False),
    "wrong-sum.png": packed(picture(), "PNG").replace(b"IHDR", b"IHDS"),
    "no-header.png": png([idat(bytes(100))]),
    "wrong-depth.png": png([header(4, 4, depth=7), idat(bytes(100))]),
    "huge.png": png([header(60_000, 60_000), idat(bytes(1000))]),
    "hugest.png": png([header(2**31 - 1, 2**31 - 1), idat(bytes(1000))]),
    "beyond-warning.png": png([header(10_000, 10_000), idat(bytes(1000))]),  # Pillow only warns
    "long.png": png([header(200_000, 1), idat(bytes(600_001))]),
    "bomb.png": png([header(60_000, 60_000, 1, 0), idat(bytes(2_000_000))]),
    "text-bomb.png": png([header(4, 4), (b"zTXt", b"k\0\0" + zlib.compress(bytes(10**7)))]),
    "many-chunks.png": png([header(4, 4), *[(b"tEXt", b"k\0v")] * 50_000, idat(bytes(52))]),
    "many-empty.png": png([header(4, 4), *[(b"IDAT", b"")] * 50_000, idat(bytes(52))]),
    "huge.jpg": jpeg_size(60_000, 60_000),
    "lies.jpg": jpeg_size(7000, 7000),
    "scans.jpg": many_scans(1000),
    "fill.jpg": b"\xff\xd8" + b"\xff" * 1_000_000,
    "fill-more.jpg": b"\xff\xd8" + b"\xff\0" * 1_000_000,
    "segments.jpg": b"\xff\xd8" + b"\xff\xfe\0\x02" * 500_000,
    "huge.gif": b"GIF89a" + struct.pack("<HH", 60_000, 60_000) + b"\0\0\0;",
    "huge-frame.gif": b"GIF89a\x04\0\x04\0\0\0\0,\0\0\0\0\xff\xff\xff\xff\0\x08\x01\0\0;",
    "remarks.gif": gif(600_000),
    "huge.bmp": bmp(60_000, 60_000),
    "negative.bmp": bmp(-4, -4, bytes(100)),
    "least.bmp": bmp(4, -(2**31), bytes(100)),
    "runs.bmp": bmp(7000, 7000, b"\x01\x00\x00\x00" * 7000, packing=1, bits=8),
    "huge.webp": webp_size(16_000, 16_000),
    "lies.webp": webp_size(5000, 5000),
    "huge.tif": HUGE_TIFF,
    "tiles.tif": TILED_TIFF,
    "pieces.tif": MANY_TIFF,
    "huge.ppm": b"P6 60000 60000 255\n" + bytes(100),
    "digits.ppm": b"P6 " + b"9" * 100 + b" 1 255\n",
    "negative.ppm": b"P6 -3 -3 255\n" + bytes(27),
    "remark.ppm": b"P6 #" + b"x" * 1_000_000 + b"\n1 1 255\n123",
    "remarks.pgm": b"P2 9 9 255\n" + b"#\n" * 500_000,
    "plain.pgm": b"P2 3000 3000 255\n" + b"1 " * 1000,
    "odd.pgm": b"P5 3000 3000 100\n" + bytes(1000),
    "unknown.ppm": b"P9 1 1 255\n123",
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_raises_on_bad_images_and_names_them(tmp_path, name):
    (tmp_path / name).write_bytes(BAD[name])
    assert name in error_of(tmp_path / name)


def test_bad_images_do_not_fill_the_memory(tmp_path):
    """All of them are read in another process."""
    for name, data in BAD.items():
        (tmp_path / name).write_bytes(data)
    code = """
import sys
from pathlib import Path
from saccade.data.sources.images import read_image
from saccade.errors import DataError
from tests.memory import peak_mib
before = peak_mib()
for path in sorted(Path(sys.argv[1]).iterdir()):
    try:
        read_image(path)
    except DataError:
        continue
    raise AssertionError(path)
print(peak_mib() - before)
"""
    command = [sys.executable, "-W", "error", "-c", code, str(tmp_path)]
    message = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert float(message) < 400, message


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing.png", "is empty (0 bytes)"),
        ("text.png", "not an image in a known format but something else; use PNG, JPEG,"),
        ("phone.jpg", "but HEIC or a video"),
        ("new.jpg", "but AVIF"),
        ("archive.png", "but a zip (an image inside it is named photos.zip/name.jpg)"),
        ("signature.png", "begins like PNG but is damaged"),
        ("huge.png", "is too large; an image may have 50,000,000 pixels"),
        ("beyond-warning.png", "is too large: 10,000 × 10,000"),
        ("long.png", "100,000 on a side"),
        ("scans.jpg", "a JPEG of too many scans, 1010"),
        ("lies.jpg", "bytes cannot hold a JPEG of 7,000 × 7,000 pixels"),
        ("many-chunks.png", "too many small chunks"),
        ("many-empty.png", "too many small chunks"),
        ("remarks.gif", "too many small chunks"),
        ("fill.jpg", "too many small chunks"),
        ("pieces.tif", "a TIFF of 3,000,000 tiles"),
        ("tiles.tif", "a TIFF of too large tiles"),
        ("odd.pgm", "too large for this form of PPM"),
        ("runs.bmp", "too large for this form of BMP"),
        ("remarks.pgm", "more than 100 comments"),
    ],
)
def test_error_describes_the_fault_of_an_image(tmp_path, name, message):
    (tmp_path / name).write_bytes(BAD[name])
    assert message in error_of(tmp_path / name)


def test_error_begins_with_the_row_that_names_the_image(tmp_path):
    with pytest.raises(DataError, match=r"^t\.tsv:7: .*x\.png does not exist"):
        read_image(tmp_path / "x.png", named="t.tsv:7")


@pytest.mark.parametrize("kind", ENDINGS)
def test_truncated_images_raise_or_decode(tmp_path, kind):
    intact = packed(picture(), kind)
    path = tmp_path / f"x.{ENDINGS[kind]}"
    path.write_bytes(intact)
    full = read_image(path).tobytes()
    count = 0
    for length in sorted({*range(1, 40, 2), *range(40, len(intact), 61), len(intact) - 1}):
        path.write_bytes(intact[:length])
        pixels = read_or_none(path)
        assert pixels is None or pixels.tobytes() == full, length
        count += pixels is None
    assert count >= 20
    assert ImageFile.LOAD_TRUNCATED_IMAGES is False


@pytest.mark.parametrize("kind", ENDINGS)
def test_changed_bytes_never_crash(tmp_path, kind):
    intact = packed(picture(), kind)
    path = tmp_path / f"x.{ENDINGS[kind]}"
    generator = np.random.default_rng(3)
    for _ in range(40):
        data = bytearray(intact)
        for place in generator.integers(len(data), size=3):
            data[place] = generator.integers(256)
        path.write_bytes(bytes(data))
        pixels = read_or_none(path)
        assert pixels is None or (pixels.mode == "RGB" and min(pixels.size) > 0)


def test_raises_on_paths_that_are_not_files(tmp_path):
    (tmp_path / "folder.png").mkdir()
    assert "is a folder" in error_of(tmp_path / "folder.png")
    (tmp_path / "nowhere.png").symlink_to(tmp_path / "gone.png")
    assert "does not exist" in error_of(tmp_path / "nowhere.png")
    (tmp_path / "round.png").symlink_to(tmp_path / "round.png")
    assert "cannot be read" in error_of(tmp_path / "round.png")
    os.mkfifo(tmp_path / "pipe.png")
    assert "neither a file nor a folder" in error_of(tmp_path / "pipe.png")
    assert "does not exist" in error_of(tmp_path / "missing.png")
    assert "does not exist" in error_of(tmp_path / "missing" / "x.png")
    error_of(tmp_path / ("x" * 300))
    (tmp_path / "t.txt").write_text("text")
    error_of(tmp_path / "t.txt" / "x.png")
    for name in ("", "a\0b", "\ud800.png"):
        with pytest.raises(DataError):
            read_image(name)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_raises_on_a_file_without_read_permission(tmp_path):
    (tmp_path / "x.png").write_bytes(ODD["1x1.png"])
    (tmp_path / "x.png").chmod(0)
    assert "Permission denied" in error_of(tmp_path / "x.png")


def test_raises_on_large_files(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MOST_BYTES", 50)
    (tmp_path / "x.png").write_bytes(packed(picture(), "PNG"))
    assert "such a file may have at most 50" in error_of(tmp_path / "x.png")


def test_memory_for_the_largest_image_is_limited(tmp_path):
    """With a smaller limit: 2 236 by 2 236 pixels of one transparent colour."""
    row = b"\0" + bytes([9, 99, 199, 100]) * 2236
    (tmp_path / "x.png").write_bytes(png([header(2236, 2236, 8, 6), idat(row * 2236)]))
    code = """
import sys
from saccade.data.sources import images
from tests.memory import peak_mib
images.MOST_PIXELS = 5_000_000
before = peak_mib()
image = images.read_image(sys.argv[1])
assert image.size == (2236, 2236)
assert image.getpixel((2235, 2235)) == (159, 194, 233)
print(peak_mib() - before)
"""
    command = [sys.executable, "-c", code, str(tmp_path / "x.png")]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert float(output) < 16 * 5, output  # MiB: 16 bytes per pixel


def test_warnings_are_silenced_in_threads_and_filters_restored(tmp_path):
    exif = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\xff\xff\xff\0\x01\0\0\0"
    (tmp_path / "x.jpg").write_bytes(packed(picture(), "JPEG", exif=exif))
    (tmp_path / "y.png").write_bytes(BAD["beyond-warning.png"])
    (tmp_path / "z.tif").write_bytes(packed(picture(), "TIFF")[:-30])
    paths = sorted(tmp_path.iterdir()) * 4
    filters, escaped = list(warnings.filters), []

    def read():
        for path in paths:
            try:
                read_image(path)
            except DataError:
                continue
            except BaseException as error:
                escaped.append(error)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not escaped
    assert warnings.filters == filters


# zips


def zipped(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as stream:
        for name, data in members.items():
            stream.writestr(name, data)
    return path


def test_images_in_a_zip_are_read(tmp_path):
    data = packed(picture(), "PNG")
    zipped(tmp_path / "photos.ZIP", {"a.png": data, "deep/er/b.png": data, "deep/": b""})
    for name in ("a.png", "deep/er/b.png"):
        assert read_quickly(tmp_path / "photos.ZIP" / name).tobytes() == picture().tobytes()
        assert read_quickly(f"{tmp_path}/photos.ZIP/{name}").tobytes() == picture().tobytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["photos.ZIP"]


@pytest.mark.parametrize("packing", [zipfile.ZIP_STORED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_every_compression_of_a_zip_is_read(tmp_path, packing):
    with zipfile.ZipFile(tmp_path / "p.zip", "w", packing) as stream:
        stream.writestr("a.png", packed(picture(), "PNG"))
    assert read_quickly(tmp_path / "p.zip" / "a.png").size == (WIDTH, HEIGHT)


def test_a_folder_may_be_named_like_a_zip(tmp_path):
    (tmp_path / "p.zip").mkdir()
    (tmp_path / "p.zip" / "a.png").write_bytes(ODD["1x1.png"])
    assert read_quickly(tmp_path / "p.zip" / "a.png").size == (1, 1)
    assert "does not exist" in error_of(tmp_path / "p.zip" / "b.png")


def test_raises_on_missing_or_escaping_zip_members(tmp_path):
    data = ODD["1x1.png"]
    inner = zipped(tmp_path / "inner.zip", {"a.png": data}).read_bytes()
    names = {
        "a.png": data,
        "../out.png": data,
        "/top.png": data,
        "inner.zip": inner,
        "d/b.png": b"",
    }
    zipped(tmp_path / "p.zip", names)
    base = f"{tmp_path}/p.zip/"
    assert "contains no b.png" in error_of(base + "b.png")
    assert "contains no d;" in error_of(base + "d")
    assert "a zip inside a zip is not read" in error_of(base + "inner.zip/a.png")
    assert "must not begin with / or contain .." in error_of(base + "../out.png")
    assert "must not begin with / or contain .." in error_of(base + "/top.png")
    assert "contains no top.png" in error_of(base + "top.png")
    assert "is empty" in error_of(base + "d/b.png")
    assert "but a zip" in error_of(tmp_path / "p.zip")


def test_raises_on_an_encrypted_zip_member(tmp_path):
    path = zipped(tmp_path / "p.zip", {"a.png": ODD["1x1.png"]})
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\x03\x04") + 6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(bytes(data))
    assert "is encrypted" in error_of(path / "a.png")


def test_raises_on_zip_bombs(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MOST_BYTES", 10**6)
    path = tmp_path / "p.zip"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as stream,
        stream.open("a.png", "w") as file,
    ):
        for _ in range(20):
            file.write(bytes(10**6))
    assert path.stat().st_size < 50_000
    assert "20,000,000 bytes; such a file may have at most" in error_of(path / "a.png")
    data = bytearray(path.read_bytes())  # it announces a wrong size
    place = data.index(b"PK\x01\x02") + 24
    data[place : place + 4] = struct.pack("<I", 1000)
    path.write_bytes(bytes(data))
    assert "cannot be unpacked" in error_of(path / "a.png")


@pytest.mark.parametrize("harm", ["cut", "flip", "text", "method"])
def test_raises_on_a_damaged_zip(tmp_path, harm):
    path = zipped(tmp_path / "p.zip", {"a.png": packed(picture(), "PNG")})
    data = bytearray(path.read_bytes())
    if harm == "cut":
        data = data[: len(data) // 2]
    elif harm == "flip":
        data[100] ^= 255
    elif harm == "method":
        for mark, place in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
            data[data.index(mark) + place] = 77
    else:
        data = bytearray(b"no zip")
    path.write_bytes(bytes(data))
    with pytest.raises(DataError, match=r"p\.zip"):
        read_quickly(path / "a.png")


def test_a_zip_that_changes_is_read_again(tmp_path):
    path = zipped(tmp_path / "p.zip", {"a.png": ODD["1x1.png"]})
    assert read_quickly(path / "a.png").size == (1, 1)
    path.unlink()
    zipped(path, {"a.png": packed(picture(), "PNG"), "b.png": b""})
    assert read_quickly(path / "a.png").size == (WIDTH, HEIGHT)


def test_threads_can_read_one_zip(tmp_path):
    members = {f"{i}.png": packed(Image.new("RGB", (5, 5), (i, i, i)), "PNG") for i in range(20)}
    path, wrong = zipped(tmp_path / "p.zip", members), []

    def read():
        for i in range(20):
            if read_image(path / f"{i}.png").getpixel((2, 2)) != (i, i, i):
                wrong.append(i)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# IDX


def idx(values, axes=None):
    head = struct.pack(f">BBBB{values.ndim}I", 0, 0, 8, axes or values.ndim, *values.shape)
    return head + values.astype(np.uint8).tobytes()


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_images_in_idx_files_are_read(tmp_path, ending):
    values = np.arange(2 * 3 * 5).reshape(2, 3, 5)
    path = tmp_path / f"train-images-idx3-ubyte{ending}"
    path.write_bytes(gzip.compress(idx(values)) if ending else idx(values))
    image = read_quickly(path / "1")
    assert (image.mode, image.size) == ("RGB", (5, 3))
    assert np.asarray(image)[..., 2].tolist() == values[1].tolist()
    for number in ("2", "-1", "x", "1.png", "٣", "9" * 30):
        assert "its images are 0 to 1" in error_of(path / number)


def test_raises_on_damaged_idx_files(tmp_path):
    path = tmp_path / "x-idx3-ubyte"
    intact = idx(np.zeros((2, 3, 5)))
    huge = struct.pack(">BBBBIII", 0, 0, 8, 3, 60_000, 60_000, 2)
    no_pixels = struct.pack(">BBBBIII", 0, 0, 8, 3, 1, 0, 0)
    for data, message in (
        (intact[:-1], "holds only 29"),
        (intact + b"x", "holds more"),
        (intact[:10], "not an IDX file"),
        (b"", "not an IDX file"),
        (idx(np.zeros((2, 3))), "not an IDX file of bytes with 3 axes"),
        (huge, "the limit is 1,073,741,824"),
        (no_pixels, "no pixels"),
    ):
        path.unlink(missing_ok=True)
        path.write_bytes(data)
        with pytest.raises(DataError, match="x-idx3-ubyte") as caught:
            read_quickly(path / "0")
        assert message in str(caught.value)
    packed_path = tmp_path / "y-idx3-ubyte.gz"
    packed_path.write_bytes(gzip.compress(intact)[:-12])
    with pytest.raises(DataError, match=r"y-idx3-ubyte\.gz is damaged"):
        read_quickly(packed_path / "0")


# built-in images


def test_built_in_images_are_read_by_name():
    image = read_image("builtin:shapes/3")
    assert (image.mode, image.size) == ("RGB", (64, 64))
    for name in ("builtin:shapes/x", "builtin:copy/1", "builtin:nothing/1", "builtin:"):
        with pytest.raises(DataError, match="builtin:"):
            read_image(name)


# sizes


def test_squash_crop_and_pad_by_hand():
    """The image is twice as wide as high, with a black left and a white right half."""
    image = Image.new("RGB", (40, 20), "white")
    image.paste("black", (0, 0, 20, 20))
    squashed = resized(image, (10, 10))
    assert squashed.shape == (10, 10, 3)
    assert squashed.dtype == np.uint8
    assert squashed[5, [0, 3, 6, 9], 0].tolist() == [0, 0, 255, 255]
    cropped = resized(image, (10, 10), "crop")
    assert cropped[5, [0, 3, 6, 9], 0].tolist() == [0, 0, 255, 255]
    padded = resized(Image.new("RGB", (40, 20), "white"), (10, 10), "pad")
    assert padded[:, 5, 0].tolist() == [0, 0, 255, 255, 255, 255, 255, 0, 0, 0]
    tall = resized(Image.new("RGB", (20, 40), "white"), (8, 8), "pad")
    assert tall[4, :, 0].tolist() == [0, 0, 255, 255, 255, 255, 0, 0]


def test_crop_takes_the_middle():
    values = np.zeros((10, 30, 3), np.uint8)
    values[:, 10:20] = 255
    assert resized(Image.fromarray(values), (10, 10), "crop").min() == 255
    assert resized(Image.fromarray(values.swapaxes(0, 1)), (10, 10), "crop").min() == 255


@pytest.mark.parametrize("how", ["squash", "crop", "pad"])
@pytest.mark.parametrize("size", [(1, 1), (7, 31), (64, 48)])
def test_every_image_is_resized_to_the_requested_size(how, size):
    for shape in ((1, 1), (1, 5000), (5000, 1), (23, 17)):
        for grey in (False, True):
            pixels = resized(picture(size=shape), size, how, grey=grey)
            assert pixels.shape == (*size, 1 if grey else 3)


def test_resizing_to_the_same_size_changes_nothing():
    image = picture()
    for how in ("squash", "crop", "pad"):
        assert resized(image, (HEIGHT, WIDTH), how).tobytes() == image.tobytes()
    grey = resized(image, (HEIGHT, WIDTH), grey=True)
    assert grey.tobytes() == image.convert("L").tobytes()


def test_downscaling_averages():
    board = np.indices((64, 64)).sum(0) % 2 * 255
    pixels = resized(Image.fromarray(board.astype(np.uint8)), (8, 8))
    assert np.abs(pixels.astype(int) - 128).max() < 12


def test_an_image_of_another_mode_is_resized_in_rgb():
    assert resized(picture("RGBA"), (4, 4)).shape == (4, 4, 3)
    assert to_rgb(picture("CMYK")).mode == "RGB"


def test_raises_on_a_size_without_pixels():
    with pytest.raises(ShapeError, match="at least one pixel on each side"):
        resized(picture(), (0, 5))


# digests


def test_digest_of_files_depends_on_contents_and_order_not_on_paths(tmp_path):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        for i in range(30):
            (tmp_path / folder / f"{folder}{i}").write_bytes(bytes([i]) * 9)
    names = [[f"{tmp_path}/{folder}/{folder}{i}" for i in range(30)] for folder in ("one", "two")]
    assert digest_of_files(names[0]) == digest_of_files(names[1], workers=1)
    assert digest_of_files(names[0]) != digest_of_files(names[0][::-1])
    assert digest_of_files(names[0]) != digest_of_files(names[0][:-1])
    before = digest_of_files(names[0])
    (tmp_path / "one" / "one7").write_bytes(b"\x08" * 9)
    assert digest_of_files(names[0]) != before
    with pytest.raises(DataError, match="gone"):
        digest_of_files([f"{tmp_path}/gone"])


def test_digest_of_images_in_zips_and_of_built_in_images(tmp_path, monkeypatch):
    path = zipped(tmp_path / "p.zip", {"a.png": b"a", "b.png": b"b"})
    first = digest_of_files([f"{path}/a.png", f"{path}/b.png"])
    assert first != digest_of_files([f"{path}/b.png", f"{path}/a.png"])
    other = zipped(tmp_path / "q.zip", {"a.png": b"a", "b.png": b"c"})
    assert first != digest_of_files([f"{other}/a.png", f"{other}/b.png"])
    drawn = digest_of_files(["builtin:shapes/1"])
    assert drawn != digest_of_files(["builtin:shapes/2"])
    monkeypatch.setattr(builtin, "code_digest", lambda: "other code")
    assert digest_of_files(["builtin:shapes/1"]) != drawn


def test_unchanged_files_are_hashed_once(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_bytes(b"a")
    monkeypatch.setattr(archives, "SETTLED", 0)
    read = []
    real = archives.file_digest
    monkeypatch.setattr(archives, "file_digest", lambda path: read.append(path) or real(path))
    first = digest_of_files([str(path)])
    assert digest_of_files([str(path)]) == first
    assert len(read) == 1
    path.unlink()
    path.write_bytes(b"bb")
    assert digest_of_files([str(path)]) != first


def test_locate_separates_file_and_inner_name(tmp_path):
    zipped(tmp_path / "p.zip", {})
    assert locate(f"{tmp_path}/p.zip/a/b.png") == (f"{tmp_path}/p.zip", "a/b.png")
    assert locate(f"{tmp_path}/q.zip/a.png") == (f"{tmp_path}/q.zip/a.png", "")
    assert locate("a.png") == ("a.png", "")


def test_there_are_more_than_120_kinds_of_files():
    assert len(BAD) + len(ODD) + len(SAVED) > 120
    assert images.MOST_PIXELS == 50_000_000


@pytest.mark.parametrize("kind", ENDINGS)
def test_image_size_does_not_decode(monkeypatch, kind):
    file = io.BytesIO()
    picture().save(file, kind)
    monkeypatch.setattr(Image.Image, "load", None)
    monkeypatch.setattr(ImageFile.ImageFile, "load", None)
    assert image_size(file.getvalue(), "input 1") == (WIDTH, HEIGHT)


@pytest.mark.parametrize("data", [b"", b"no image", b"\x89PNG\r\n\x1a\nno"])
def test_raises_on_the_size_of_invalid_images(data):
    with pytest.raises(DataError, match=r"^input 1 "):
        image_size(data, "input 1")
