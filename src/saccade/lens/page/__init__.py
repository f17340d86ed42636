"""The lens's page: one HTML file that shows attention records and needs nothing else.

page(record)                                  one record
page([record, ...])                           several, of which one is chosen
page({"rnn": record, "transformer": record})  models side by side, also with lists of records

shell.html  what is around the view, with a policy by which nothing but its own script can run
view.css    how it looks
view.js     the view: `show(element, inputs)`, which other pages can import
packed      weights and images in few letters

What users wrote stands in the page as JSON that cannot end its element, and is shown as text only.
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from string import Template
from typing import Any

from saccade.errors import FigureError
from saccade.lens.page.packed import packed, picture
from saccade.lens.record import AttentionRecord
from saccade.lens.sides import AnySide, ImageSide, side_json

__all__ = ["Records", "page", "page_of", "view_inputs", "view_model"]

Some = AttentionRecord | Sequence[AttentionRecord]
Records = Some | Mapping[str, Some]
"""One record or several, or those of each model by its name."""

_START = """
show(
  document.getElementById("view"),
  JSON.parse(document.getElementById("inputs").textContent),
);
"""
# so that no text can end the element it stands in, nor begin a comment
_ESCAPED = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&"}


def page(records: Records, *, title: str = "Attention") -> str:
    """A whole page with these records.

    Of several models, the first records stand side by side, then the second ones, and so on: give
    those of the same inputs.
    """
    return page_of(view_inputs(records), title=title)


def view_inputs(records: Records) -> list[list[dict[str, Any]]]:
    """What the view shows, as JSON has it: for each input, how each model looked at it."""
    given = records if isinstance(records, Mapping) else {"": records}
    named = {
        name: [some] if isinstance(some, AttentionRecord) else some for name, some in given.items()
    }
    if len({len(some) for some in named.values()}) > 1:
        counts = ", ".join(f"{name!r} has {len(some)}" for name, some in named.items())
        raise FigureError(
            f"models side by side need as many records each, of the same inputs; {counts}"
        )
    return [
        [view_model(record, name) for name, record in zip(named, row, strict=True)]
        for row in zip(*named.values(), strict=True)
    ]


def view_model(record: AttentionRecord, name: str = "") -> dict[str, Any]:
    """One record as the view reads it, with the name of its model."""
    return {
        "name": name,
        "read": _side(record.read),
        "wrote": None if record.reads_itself else _side(record.wrote),
        "layers": [
            {"name": layer, "heads": len(weights), "weights": packed(weights, layer)}
            for layer, weights in record.weights.items()
        ],
    }


def page_of(inputs: Sequence[Sequence[dict[str, Any]]], *, title: str = "Attention") -> str:
    """A whole page with what `view_inputs` gave."""
    if not inputs:
        raise FigureError("a page shows at least one record; none was given")
    files = resources.files(__name__)
    shell, style, view = (
        files.joinpath(name).read_text(encoding="utf-8")
        for name in ("shell.html", "view.css", "view.js")
    )
    script = view + _START
    return Template(shell).substitute(
        title=escape(title.encode("utf-8", "replace").decode()),
        policy=f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; "
        "base-uri 'none'; form-action 'none'",
        style=style,
        inputs=json.dumps(inputs, allow_nan=False).translate(_ESCAPED),
        script=script,
    )


def _side(side: AnySide) -> dict[str, Any]:
    found = side_json(side, image=False)
    return {**found, "image": picture(side)} if isinstance(side, ImageSide) else found


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
