"""The lens's page: one HTML file that shows attention records and needs nothing else.

page(record)                                  one record
page([record, ...])                           several, of which one is chosen
page({"rnn": record, "transformer": record})  models side by side, also with lists of records

view.js     the view: `show(element, inputs)`, which other pages can import
view.css    how it looks
packed      weights and images in few letters
document    the templates of this and of all other pages: frame.html, parts.html, page.css

What users wrote stands in the page as JSON that cannot end its element, and is shown as text only.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from saccade.errors import FigureError
from saccade.lens.page.document import document
from saccade.lens.page.packed import packed, picture
from saccade.lens.record import AttentionRecord
from saccade.lens.record.sides import AnySide, ImageSide, side_json

__all__ = ["Records", "page", "page_of", "view_inputs", "view_json", "view_model"]

Some = AttentionRecord | Sequence[AttentionRecord]
Records = Some | Mapping[str, Some]
"""One record or several, or those of each model by its name."""


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


def view_json(inputs: Sequence[Sequence[dict[str, Any]]]) -> Markup:
    """Return what `view_inputs` gave as JSON that cannot end its element; a page can have one."""
    if not inputs:
        raise FigureError("a page shows at least one record; none was given")
    return htmlsafe_json_dumps(inputs, allow_nan=False)


def page_of(inputs: Sequence[Sequence[dict[str, Any]]], *, title: str = "Attention") -> str:
    """A whole page with what `view_inputs` gave."""
    return document("lens/page/view.html", title=title, inputs=view_json(inputs))


def _side(side: AnySide) -> dict[str, Any]:
    found = side_json(side, image=False)
    return {**found, "image": picture(side)} if isinstance(side, ImageSide) else found
