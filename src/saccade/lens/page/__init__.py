"""The lens's page: one HTML file that shows attention records and needs nothing else.

page(record)                                  one record
page([record, ...])                           several, of which one is chosen
page({"rnn": record, "transformer": record})  models side by side, also with lists of records

view.js     the view: `show(element, inputs)`, which other pages can import
view.css    how it looks
packed      weights and images in few letters
document    the frame of this and of all other pages: shell.html, with the style page.css

What users wrote stands in the page as JSON that cannot end its element, and is shown as text only.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from saccade.errors import FigureError
from saccade.lens.page.document import document, own_file
from saccade.lens.page.packed import packed, picture
from saccade.lens.record import AttentionRecord
from saccade.lens.sides import AnySide, ImageSide, side_json

__all__ = ["Records", "View", "page", "page_of", "view_inputs", "view_model", "view_of"]

Some = AttentionRecord | Sequence[AttentionRecord]
Records = Some | Mapping[str, Some]
"""One record or several, or those of each model by its name."""

_ELEMENT = """<div id="view" class="lens">
<noscript>This page draws its records with JavaScript.</noscript></div>
<script type="application/json" id="inputs">{inputs}</script>"""
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


@dataclass(frozen=True)
class View:
    """The view as a part of a page: an element for its body, the style and the script it needs."""

    element: str
    style: str
    script: str


def view_of(inputs: Sequence[Sequence[dict[str, Any]]]) -> View:
    """The view of what `view_inputs` gave; a page can have one."""
    if not inputs:
        raise FigureError("a page shows at least one record; none was given")
    given = json.dumps(inputs, allow_nan=False).translate(_ESCAPED)
    return View(
        element=_ELEMENT.format(inputs=given),
        style=own_file("view.css"),
        script=own_file("view.js") + _START,
    )


def page_of(inputs: Sequence[Sequence[dict[str, Any]]], *, title: str = "Attention") -> str:
    """A whole page with what `view_inputs` gave."""
    view = view_of(inputs)
    return document(title, view.element, style=view.style, script=view.script)


def _side(side: AnySide) -> dict[str, Any]:
    found = side_json(side, image=False)
    return {**found, "image": picture(side)} if isinstance(side, ImageSide) else found
