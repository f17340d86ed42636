"""Sequences of vectors: arrays (steps, width) in .npy and .npz files, in zip files, or in JSON.

    clips/17.npy              an array of numpy
    clips.npz/17, 17.npz      the array `17` of an .npz file; its only array
    clips.zip/17.npy          a file inside a zip
    builtin:tones/17          generated vectors

Files are mapped, not loaded, so a long recording costs what is read of it. Headers are parsed here
and numbers are copied as they are: pickled objects are never loaded.
"""

import base64
import os
import zipfile
from collections.abc import Callable
from io import BufferedIOBase, BytesIO
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from saccade.data import builtin
from saccade.data.corpus import INLINE
from saccade.data.sources.archives import NPZ, locate, open_zip, read_bytes
from saccade.data.sources.text_files import unreadable
from saccade.errors import DataError

Vectors: TypeAlias = npt.NDArray[np.float32]
"""Vectors (steps, width)."""

BROKEN = ";broken,"
"""The mark after the reason why the vectors that a table holds are broken."""
WIDEST = 65_536
"""The maximum number of numbers per vector; a larger array is probably transposed."""
EXPECTED = "an array of numbers with the shape (steps, width)"
Header: TypeAlias = tuple[tuple[int, ...], bool, np.dtype[Any]]
"""The shape of an array, whether it is in Fortran's order, and the type of its numbers."""
HEADERS: dict[tuple[int, int], Callable[[Any], Header]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def read_vectors(where: str | Path, most: int | None = None) -> Vectors:
    """Read a sequence of vectors.

    Args:
        where: A file, `clips.npz/name`, `clips.zip/name.npy`, the name of built-in vectors, or the
            text of vectors that a table holds.
        most: The maximum number of steps to read; all by default.

    Raises:
        DataError: The file does not exist, is damaged, or does not hold finite numbers with the
            shape (steps, width).
    """
    return checked(open_vectors(where), shown_name(str(where)), most)


def open_vectors(where: str | Path) -> npt.NDArray[Any]:
    """Return the array that `read_vectors` reads, mapped if it is a file and not checked yet."""
    name = str(where)
    if is_inline(name):
        shown, _, text = name.partition(INLINE)
        return decode_array(base64.b64decode(text), shown)
    if name.startswith(builtin.PREFIX):
        return builtin.vectors(name)
    file, inner = locate(name)
    if inner and file.lower().endswith(NPZ) and not inner.endswith(".npy"):
        inner += ".npy"
    if inner:
        return decode_array(read_bytes(f"{file}/{inner}"), name)
    try:
        size = os.stat(file).st_size
        with open(file, "rb") as stream:
            if stream.read(2) == b"PK":
                return decode_array(_only_array(file), name)
            stream.seek(0)
            shape, fortran, dtype = _header(stream, size, name)
            start = stream.tell()
        if not np.prod(shape, dtype=object):  # an empty file cannot be mapped
            return np.empty(shape, dtype)
        return np.memmap(file, dtype, "r", start, shape, "F" if fortran else "C")
    except DataError:
        raise
    except FileNotFoundError as error:
        raise DataError(f"{name} does not exist; check the path") from error
    except (OSError, ValueError) as error:  # ValueError: an impossible file name
        raise unreadable(name, error) from error


def decode_array(data: bytes, where: str) -> npt.NDArray[Any]:
    """Return the array of a .npy or .npz file, not checked yet; `where` names it in errors."""
    if data.startswith(b"PK"):
        with BytesIO(data) as stream:
            data = _only_member(stream, where)
    stream = BytesIO(data)
    shape, fortran, dtype = _header(stream, len(data), where)
    values = np.frombuffer(data, dtype, int(np.prod(shape)), stream.tell())
    return values.reshape(shape, order="F" if fortran else "C")


def vectors_from_lists(value: object, where: str, most: int | None = None) -> Vectors:
    """Return a list of equally long lists of numbers, as JSON has them, as vectors."""
    if not isinstance(value, list) or not all(isinstance(vector, list) for vector in value):
        raise DataError(
            f"{where}: expected a list of vectors, each a list of numbers. "
            "Write [[0.1, 0.2], [0.3, 0.4]] for two steps of width 2"
        )
    for step, vector in enumerate(value):
        if len(vector) != len(value[0]):
            raise DataError(
                f"{where}: the vectors are ragged: step {step} has {len(vector)} numbers, step 0 "
                f"has {len(value[0])}. Give all vectors of a sequence the same width"
            )
        if any(type(number) not in (int, float, bool) for number in vector):
            raise DataError(
                f"{where}: step {step} must hold numbers only, without null and text. "
                "Replace missing values by numbers"
            )
    try:
        array = np.array(value, np.float64).reshape(len(value), -1 if value and value[0] else 0)
    except OverflowError:
        raise DataError(
            f"{where}: a number is too large; "
            "float32 holds numbers up to 3.4e38. Scale the numbers down"
        ) from None
    return checked(array, where, most)


def inline(value: list[object], where: str) -> str:
    """Return vectors that a table holds as the text of a row; read them with `read_vectors`.

    Vectors that cannot be used become a text that `FileFinder` raises as an error.
    """
    try:
        vectors = vectors_from_lists(value, where)
    except DataError as error:
        return f"{error}{BROKEN}"
    file = BytesIO()
    np.save(file, vectors, allow_pickle=False)
    steps, width = vectors.shape
    return f"{steps} × {width} vectors{INLINE}{base64.b64encode(file.getvalue()).decode()}"


def is_inline(name: str) -> bool:
    """Return whether the text of a row holds the vectors themselves."""
    return INLINE in name


def shown_name(name: str) -> str:
    """Return a name of vectors for people, without the vectors themselves."""
    return name.partition(INLINE)[0]


def checked(array: npt.NDArray[Any], where: str, most: int | None = None) -> Vectors:
    """Return the first `most` steps of an array as vectors, if it is a sequence of vectors."""
    if array.dtype.kind not in "biuf":
        raise DataError(f"{where} holds {array.dtype}; expected {EXPECTED}")
    if array.ndim != 2:
        advice = ". One number per step is array[:, None]" if array.ndim == 1 else ""
        raise DataError(f"{where} has the shape {array.shape}; expected {EXPECTED}{advice}")
    if not array.size:
        raise DataError(f"{where} is empty: its shape is {array.shape}; expected {EXPECTED}")
    if array.shape[1] > WIDEST:
        raise DataError(
            f"{where} has vectors of {array.shape[1]:,} numbers, more than {WIDEST:,}; if the axes "
            "are exchanged, transpose it to (steps, width)"
        )
    with np.errstate(over="ignore"):
        vectors = np.ascontiguousarray(array[:most], np.float32)
    if not np.isfinite(vectors).all():
        step, place = np.argwhere(~np.isfinite(vectors))[0].tolist()
        count = int((~np.isfinite(vectors)).sum())
        raise DataError(
            f"{where}: step {step}, number {place} is {vectors[step, place]}; {count:,} of "
            f"{vectors.size:,} numbers are NaN or infinite. Replace them by finite numbers"
        )
    return vectors


def wrong_width(name: str, width: int, usual: int) -> str:
    """Return the problem of vectors whose width differs from that of the others."""
    return (
        f"{shown_name(name)} has vectors of {width} numbers; expected {usual}. Compute all files "
        "in the same way"
    )


def _header(stream: BufferedIOBase, size: int, where: str) -> Header:
    """Return shape, order and type of the array in a .npy file, whose numbers follow."""
    try:
        version = np.lib.format.read_magic(stream)
        if version not in HEADERS:
            raise ValueError(f"version {version}")
        shape, fortran, dtype = HEADERS[version](stream)
    except (ValueError, EOFError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise DataError(f"{where} is not a .npy file; expected {EXPECTED}") from error
    if dtype.hasobject:
        raise DataError(
            f"{where} holds pickled Python objects, which are never loaded because they can run "
            f"code; save {EXPECTED}, one file per sequence"
        )
    announced = int(np.prod(shape, dtype=object)) * dtype.itemsize
    if announced > size - stream.tell():
        raise DataError(
            f"{where} is incomplete: it announces {announced:,} bytes of numbers and holds "
            f"{size - stream.tell():,}; copy or save it again"
        )
    return shape, fortran, dtype


def _only_array(file: str) -> bytes:
    """Return the bytes of the only array of an .npz file."""
    names = open_zip(file).names
    return open_zip(file).read(_only(names, file))


def _only_member(stream: BytesIO, where: str) -> bytes:
    """Return the bytes of the only array of an .npz file that is in memory."""
    try:
        with zipfile.ZipFile(stream) as archive:
            info = archive.getinfo(_only(archive.namelist(), where))
            if info.file_size > MOST_UNPACKED:
                raise DataError(
                    f"{where} unpacks to {info.file_size:,} bytes, which is too large; "
                    "save it as .npy files, one per sequence"
                )
            return archive.read(info)
    except DataError:
        raise
    except Exception as error:  # each kind of damage has its own errors
        raise DataError(f"{where} is not a complete .npz file: {error}; save it again") from error


MOST_UNPACKED = 200_000_000
"""The maximum number of bytes of an array inside a file."""


def _only(names: tuple[str, ...] | list[str], where: str) -> str:
    arrays = [name for name in names if name.endswith(".npy")]
    if len(arrays) != 1:
        keys = ", ".join(name.removesuffix(".npy") for name in arrays[:5]) or "none"
        first = arrays[0].removesuffix(".npy") if arrays else "NAME"
        raise DataError(
            f"{where} holds {len(arrays)} arrays ({keys}); expected one. Name the array, as in "
            f"{where}/{first}"
        )
    return arrays[0]
