"""Examples that a run folder keeps: to try a model with, and to compare engines by."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from io import BytesIO

from saccade.data.corpus import Item
from saccade.data.sources.images import read_image
from saccade.errors import SaccadeError
from saccade.tasks import Task, TextInput

PICTURES = 4
"""Images that are kept."""
LONGEST_SIDE = 256
"""Pixels of an image that is kept; larger ones are reduced."""
LOSSLESS = 96
"""Pixels up to which an image is kept as PNG."""


def examples_of(task: Task, items: Sequence[Item]) -> list[Item]:
    """Return the items that a run folder keeps: texts, or images as small data URIs.

    Args:
        task: the task of the run.
        items: validation items.
    """
    reads = task.describe().reads
    if isinstance(reads, TextInput):
        return list(items)
    return list(_pictures(items)) if reads.kind == "image" else []


def _pictures(items: Sequence[Item]) -> Iterator[Item]:
    """Yield evenly spread items with their images inside."""
    for item in items[:: -(-len(items) // PICTURES) or 1]:
        with suppress(SaccadeError):  # a file that is gone since
            yield replace(item, inputs=(data_uri(item.inputs[0]),))


def data_uri(where: str) -> str:
    """Return a data URI of an image file, reduced if it is large."""
    image = read_image(where)
    image.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
    kind = "PNG" if max(image.size) <= LOSSLESS else "JPEG"
    file = BytesIO()
    image.save(file, kind)
    return f"data:image/{kind.lower()};base64,{base64.b64encode(file.getvalue()).decode()}"
