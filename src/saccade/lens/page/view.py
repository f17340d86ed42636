"""Attention records as a page shows them.

`view.js` is the view itself: `show(element, inputs)`, which other pages can import; `view.css` is
its style. What users wrote is in the page as JSON that cannot end its element, and is shown as text
only.

Weights are packed into bytes: each is a number of steps, at most 255, so its error is at most half
a step. Each row has its own step: its largest weight / 255, but at least a 16th of the weight that
each key has in a uniform row of 256 keys or more, since finer steps cost space and show nothing.
"""

import base64
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float32
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from saccade.errors import FigureError
from saccade.lens.page.document import document

LEVELS = 255
_FINEST_OF = 256


@runtime_checkable
class ViewableSide(Protocol):
    """A side of a record, as far as the page needs it."""

    def view(self) -> dict[str, object]:
        """Return the side as JSON for the view."""
        ...


@runtime_checkable
class ViewableAlignment(Protocol):
    """The layer and head that words are aligned by."""

    @property
    def layer(self) -> str | None:
        """The name of the layer; None averages all."""
        ...

    @property
    def head(self) -> int | None:
        """The index of the head; None averages all."""
        ...


@runtime_checkable
class Viewable(Protocol):
    """An attention record, as far as the page needs it."""

    @property
    def read(self) -> ViewableSide:
        """The side that was attended to."""
        ...

    @property
    def wrote(self) -> ViewableSide:
        """The side that attended."""
        ...

    @property
    def reads_itself(self) -> bool:
        """Whether this is self-attention."""
        ...

    @property
    def align_by(self) -> ViewableAlignment:
        """The weights that align words best."""
        ...

    @property
    def belief(self) -> str:
        """How far to trust its attention; may be empty."""
        ...

    @property
    def weights(self) -> Mapping[str, np.ndarray]:
        """Weights (heads, tokens written, tokens read) of each layer."""
        ...


OneOrMore = Viewable | Sequence[Viewable]
Records = OneOrMore | Mapping[str, OneOrMore]
"""One record or several, or the record or records of each model by its name."""


def page(records: Records, *, title: str = "Attention") -> str:
    """Return an HTML page with attention records.

    Args:
        records: one record; a list of records, of which the reader chooses one; or a dictionary
            from names of models to their records, which are shown side by side. With several
            models the first records belong to the same input, and so on.
        title: the title of the page.

    Raises:
        FigureError: without any record, or if models have different numbers of records.
    """
    return page_of(view_inputs(records), title=title)


def view_inputs(records: Records) -> list[list[dict[str, object]]]:
    """Return what the view shows, as JSON has it: for each input, the record of each model."""
    by_model = records if isinstance(records, Mapping) else {"": records}
    lists = {
        name: some if isinstance(some, Sequence) else [some] for name, some in by_model.items()
    }
    if len({len(some) for some in lists.values()}) > 1:
        counts = ", ".join(f"{name!r} has {len(some)}" for name, some in lists.items())
        raise FigureError(
            f"models side by side need the same number of records, one per input; {counts}"
        )
    return [
        [view_model(record, name) for name, record in zip(lists, row, strict=True)]
        for row in zip(*lists.values(), strict=True)
    ]


def view_model(
    record: Viewable, name: str = "", scores: Mapping[str, object] | None = None
) -> dict[str, object]:
    """Return one record as the view reads it.

    Args:
        record: the record.
        name: the name of its model.
        scores: of a given output, its `tokens` and `confidence` as `ScoredAnswer.to_dict` has them.
    """
    return {
        "name": name,
        "belief": record.belief,
        **({"scores": scores} if scores else {}),
        "align": {"layer": record.align_by.layer, "head": record.align_by.head},
        "read": record.read.view(),
        "wrote": None if record.reads_itself else record.wrote.view(),
        "layers": [
            {"name": layer, "heads": len(weights), "weights": packed(weights, layer)}
            for layer, weights in record.weights.items()
        ],
    }


def view_json(inputs: Sequence[Sequence[dict[str, object]]]) -> Markup:
    """Return what `view_inputs` gave as JSON that cannot end its element."""
    if not inputs:
        raise FigureError(
            "a page needs at least one record, got none; "
            "pass a record of a prediction with attention"
        )
    return json_of(inputs)


def json_of(value: object) -> Markup:
    """Return a value as JSON that cannot end its element."""
    return htmlsafe_json_dumps(value, allow_nan=False)


def page_of(
    inputs: Sequence[Sequence[dict[str, object]]],
    *,
    title: str = "Attention",
    measures: Mapping[str, Any] | None = None,
) -> str:
    """Return an HTML page with what `view_inputs` gave.

    Args:
        inputs: what `view_inputs` gave.
        title: the title of the page.
        measures: how far to trust the attention: "scores", by name with their "value", "interval"
            and "meaning", and "heads", the rows of a table. The page also holds them as JSON.
    """
    return document(
        "lens/page/view.html",
        title=title,
        inputs=view_json(inputs),
        measures=measures,
        measures_json="" if measures is None else json_of(measures),
    )


def steps(weights: Float32[np.ndarray, "h q k"]) -> Float32[np.ndarray, "h q"]:
    """Return the step of each row."""
    finest = 1 / (16 * max(weights.shape[2], _FINEST_OF))
    return np.maximum(weights.max(2, initial=0.0) / LEVELS, finest).astype("<f4")


def packed(weights: Float32[np.ndarray, "h q k"], name: str) -> str:
    """Return the weights of a layer as base64 of zlib.

    The content is all steps (little-endian float32), then all numbers of steps (bytes), head by
    head and row by row.

    Args:
        weights: the weights.
        name: the name of the layer, for messages.

    Raises:
        FigureError: if a weight is negative.
    """
    if (weights < 0).any():
        raise FigureError(
            f"a page shows weights of at least 0, but layer {name!r} has negative weights; "
            "pass weights after softmax"
        )
    step = steps(weights)
    levels = np.rint(weights / step[:, :, None]).astype(np.uint8)
    # repeats of more than one byte are rare in weights, and searching for them is slow
    deflate = zlib.compressobj(strategy=zlib.Z_RLE)
    content = deflate.compress(step.tobytes()) + deflate.compress(levels.tobytes())
    return base64.b64encode(content + deflate.flush()).decode()
