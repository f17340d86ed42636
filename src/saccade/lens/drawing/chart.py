"""Chart: a matplotlib figure without a display, which keeps the numbers it shows.

`chart.save("map.png")` writes the picture and, beside it, its numbers as `map.json`.
"""

import base64
import io
import logging
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from saccade.errors import FigureError
from saccade.lens.drawing.fonts import UNKNOWN, shaped_wrongly, undrawable
from saccade.lens.formatting import readable_json

Theme = Literal["light", "dark"]

PICTURES = (".png", ".svg", ".pdf")

log = logging.getLogger(__name__)

# the date is left out, so that the same numbers give the same file
_UNDATED: dict[str, dict[str, Any]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
# letters stay letters in an SVG, so a viewer shows scripts that no font here has
# images stay apart, each as fine as it is, not joined into one
_VECTORS: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "saccade",
    "image.composite_image": False,
}
# each text of an SVG runs as its own first letter does, whatever the page around it
_EACH_ITS_DIRECTION = (
    b'<style type="text/css">',
    b'<style type="text/css">text{unicode-bidi: plaintext} ',
)

# what is written and drawn, and what is behind it: on a dark page, the page's own colours
_GROUNDS: dict[Theme, tuple[str, str]] = {
    "light": ("black", "white"),
    "dark": ("#e4e6e9", "#1b1f23"),
}
COLOURS = ("#2a78d6", "#d9771c", "#1a9a6c", "#c2559d", "#8a6fd1", "#a08a1a", "#4aa8c9", "#8a8a8a")
"""Of bars and lines: told apart also by those who see no red or green, light and dark alike."""


class Chart(Figure):
    """A matplotlib Figure that knows the numbers it shows.

    `painters` give what is inside of its axes the colours of a theme; without one it keeps its own.
    """

    numbers: dict[str, Any]
    painters: list[Callable[[Theme], None]]

    def __init__(self, numbers: dict[str, Any], **options: Any) -> None:
        super().__init__(**{"layout": "constrained", **options})
        FigureCanvasAgg(self)
        self.numbers = numbers
        self.painters = []

    def save(self, path: str | Path, *, dpi: int = 150, theme: Theme = "light") -> Path:
        """Write the picture (.png, .svg, .pdf by its suffix) and its numbers beside it (.json)."""
        path = Path(path)
        if path.suffix not in PICTURES:
            raise FigureError(
                f"a picture's name ends in one of {', '.join(PICTURES)}; got {str(path)!r}"
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.picture(path.suffix, dpi=dpi, theme=theme))
        path.with_suffix(".json").write_text(readable_json(self.numbers), encoding="utf-8")
        return path

    def picture(self, suffix: str, *, dpi: int = 150, theme: Theme = "light") -> bytes:
        """The picture as a file of this kind would hold it, for a light or a dark page.

        Letters that no installed font has are kept in an SVG, whose viewer draws them; elsewhere
        � stands for each, and a warning names them.
        """
        self._paint(theme)
        file = io.BytesIO()
        letters = nullcontext() if suffix == ".svg" else self._drawable()
        with warnings.catch_warnings(), mpl.rc_context(_VECTORS), letters:
            warnings.filterwarnings("ignore", r"Glyph .* missing from", UserWarning)
            self.savefig(file, format=suffix[1:], dpi=dpi, metadata=_UNDATED.get(suffix))
        written = file.getvalue()
        return written.replace(*_EACH_ITS_DIRECTION, 1) if suffix == ".svg" else written

    def address(self, *, theme: Theme = "light") -> str:
        """The picture as an image's address on a page: nothing inside it can act on that page."""
        picture = base64.b64encode(self.picture(".svg", theme=theme)).decode()
        return f"data:image/svg+xml;base64,{picture}"

    def _paint(self, theme: Theme) -> None:
        """Colour what stands outside of axes, then, if it has painters, what is inside."""
        if theme not in _GROUNDS:
            raise FigureError(f"a picture's theme is one of {', '.join(_GROUNDS)}; got {theme!r}")
        ink, ground = _GROUNDS[theme]
        self.set_facecolor(ground)
        for text in self._captions():
            text.set_color(ink)
        for axes in self.axes:
            axes.tick_params(colors=ink)
            for spine in axes.spines.values():
                spine.set_edgecolor(ink)
        for paint in self.painters:
            paint(theme)

    def _captions(self) -> Iterator[Text]:
        """Titles and what is written beside axes, not on them."""
        yield from self.texts  # the title, too
        for axes in self.axes:
            yield from (axes.title, axes.xaxis.label, axes.yaxis.label)

    def _axis_labels(self) -> Iterator[tuple[Axis, list[str]]]:
        for axes in self.axes:
            for axis in (axes.xaxis, axes.yaxis):
                yield axis, [label.get_text() for label in axis.get_ticklabels()]

    @contextmanager
    def _drawable(self) -> Iterator[None]:
        """Within the block, � for each letter that no font has."""
        captions = [(text, text.get_text()) for text in self._captions()]
        labels = list(self._axis_labels())
        texts = [words for _, words in captions] + ["".join(names) for _, names in labels]
        missing = undrawable(texts)
        _tell(texts, missing)
        labels = [(axis, names) for axis, names in labels if not missing.isdisjoint("".join(names))]
        unknown = str.maketrans(dict.fromkeys(missing, UNKNOWN))
        _write(captions, labels, lambda words: words.translate(unknown))
        try:
            yield
        finally:
            _write(captions, labels, str)


def _tell(texts: list[str], missing: frozenset[str]) -> None:
    if missing:
        log.warning(
            "no installed font has %d of the letters (%s), so %s stands for each: "
            "save as .svg, or install a font that has them, such as Noto Sans",
            len(missing),
            "".join(sorted(missing)[:12]),
            UNKNOWN,
        )
    if shaped_wrongly(texts):
        log.warning(
            "matplotlib %s cannot order or join the letters of some labels: "
            "save as .svg, or install matplotlib 3.11 or newer",
            mpl.__version__,
        )


def _write(
    captions: list[tuple[Text, str]],
    labels: list[tuple[Axis, list[str]]],
    spelled: Callable[[str], str],
) -> None:
    for text, words in captions:
        text.set_text(spelled(words))
    for axis, names in labels:
        axis.set_ticklabels([spelled(name) for name in names])


def in_rows(panels: int, slender: float) -> tuple[int, int]:
    """Rows and columns for panels so much higher than wide: a sheet wider than high, its last row
    as full as can be.
    """
    rows = math.ceil(panels / max(3, round(math.sqrt(2 * panels * slender))))
    return rows, math.ceil(panels / rows)
