"""Chart: a matplotlib figure that needs no display and keeps the numbers it shows."""

import base64
import io
import logging
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Literal

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

# without the date, the same numbers give the same file
_UNDATED: dict[str, dict[str, None]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
# the direction of each text of an SVG follows its own first letter, not the page around it
_OWN_DIRECTION = (
    b'<style type="text/css">',
    b'<style type="text/css">text{unicode-bidi: plaintext} ',
)

# ink and background; the dark ones are those of the pages
_GROUNDS: dict[Theme, tuple[str, str]] = {
    "light": ("black", "white"),
    "dark": ("#e4e6e9", "#1b1f23"),
}
COLOURS = ("#2a78d6", "#d9771c", "#1a9a6c", "#c2559d", "#8a6fd1", "#a08a1a", "#4aa8c9", "#8a8a8a")
"""Colours of bars and lines, distinct also for colour-blind readers, on light and dark pages."""


class Chart(Figure):
    """A matplotlib `Figure` that keeps the numbers it shows.

    Args:
        numbers: what the chart shows, as values that JSON can hold.
        figsize: width and height in inches.
        layout: matplotlib's layout engine; "none" for axes placed by hand.

    Attributes:
        painters: functions that give the inside of the axes the colours of a theme; without them
            it keeps its own colours.
    """

    def __init__(
        self,
        numbers: dict[str, object],
        *,
        figsize: tuple[float, float] = (6.4, 4.8),
        layout: Literal["constrained", "none"] = "constrained",
    ) -> None:
        super().__init__(figsize=figsize)
        self.set_layout_engine(layout)
        FigureCanvasAgg(self)
        self.numbers = numbers
        self.painters: list[Callable[[Theme], None]] = []

    def save(self, path: str | Path, *, dpi: int = 150, theme: Theme = "light") -> Path:
        """Write the picture, and beside it the numbers as `.json`.

        Args:
            path: a path that ends in `.png`, `.svg` or `.pdf`.
            dpi: pixels per inch of a PNG.
            theme: "light" or "dark".

        Returns:
            The path of the picture.

        Raises:
            FigureError: if the suffix or the theme is not one of these.
        """
        path = Path(path)
        if path.suffix not in PICTURES:
            raise FigureError(
                f"cannot save a picture as {str(path)!r}; use one of {', '.join(PICTURES)}"
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.picture(path.suffix, dpi=dpi, theme=theme))
        path.with_suffix(".json").write_text(readable_json(self.numbers), encoding="utf-8")
        return path

    def picture(self, suffix: str, *, dpi: int = 150, theme: Theme = "light") -> bytes:
        """Return the picture as the bytes of a file of this kind.

        An SVG keeps letters that no installed font has, since its viewer may have them. In other
        files � stands for each such letter, and a warning names them.

        Args:
            suffix: `.png`, `.svg` or `.pdf`.
            dpi: pixels per inch of a PNG.
            theme: "light" or "dark".
        """
        self._paint(theme)
        file = io.BytesIO()
        letters = nullcontext() if suffix == ".svg" else self._drawable()
        # letters stay letters in an SVG; images stay separate, each in its own resolution
        style = mpl.rc_context(
            {"svg.fonttype": "none", "svg.hashsalt": "saccade", "image.composite_image": False}
        )
        with warnings.catch_warnings(), style, letters:
            warnings.filterwarnings("ignore", r"Glyph .* missing from", UserWarning)
            self.savefig(file, format=suffix[1:], dpi=dpi, metadata=_UNDATED.get(suffix))
        content = file.getvalue()
        return content.replace(*_OWN_DIRECTION, 1) if suffix == ".svg" else content

    def data_url(self, *, theme: Theme = "light") -> str:
        """Return the picture as a data URL for an `img` element, in which no script can run."""
        picture = base64.b64encode(self.picture(".svg", theme=theme)).decode()
        return f"data:image/svg+xml;base64,{picture}"

    def _paint(self, theme: Theme) -> None:
        """Colour everything outside the axes, and what the painters colour inside them."""
        if theme not in _GROUNDS:
            raise FigureError(f"{theme!r} is not a theme; use one of {', '.join(_GROUNDS)}")
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
        """Yield the titles and the labels beside axes."""
        yield from self.texts  # also the title of the figure
        for axes in self.axes:
            yield from (axes.title, axes.xaxis.label, axes.yaxis.label)

    def _axis_labels(self) -> Iterator[tuple[Axis, list[str]]]:
        for axes in self.axes:
            for axis in (axes.xaxis, axes.yaxis):
                yield axis, [label.get_text() for label in axis.get_ticklabels()]

    @contextmanager
    def _drawable(self) -> Iterator[None]:
        """Show � for each letter that no font has, inside a `with` block."""
        captions = [(text, text.get_text()) for text in self._captions()]
        labels = list(self._axis_labels())
        texts = [words for _, words in captions] + ["".join(names) for _, names in labels]
        missing = undrawable(texts)
        _warn(texts, missing)
        labels = [(axis, names) for axis, names in labels if not missing.isdisjoint("".join(names))]
        unknown = str.maketrans(dict.fromkeys(missing, UNKNOWN))
        _write(captions, labels, lambda words: words.translate(unknown))
        try:
            yield
        finally:
            _write(captions, labels, str)


def _warn(texts: list[str], missing: frozenset[str]) -> None:
    if missing:
        log.warning(
            "no installed font has %d of the letters (%s); the picture shows %s instead. "
            "Save it as .svg, or install a font that has them, such as Noto Sans.",
            len(missing),
            "".join(sorted(missing)[:12]),
            UNKNOWN,
        )
    if shaped_wrongly(texts):
        log.warning(
            "matplotlib %s cannot order or join the letters of some labels. "
            "Save the picture as .svg, or install matplotlib 3.11 or newer.",
            mpl.__version__,
        )


def _write(
    captions: list[tuple[Text, str]],
    labels: list[tuple[Axis, list[str]]],
    spell: Callable[[str], str],
) -> None:
    for text, words in captions:
        text.set_text(spell(words))
    for axis, names in labels:
        axis.set_ticklabels([spell(name) for name in names])


def in_rows(panels: int, aspect: float) -> tuple[int, int]:
    """Return the rows and columns of a sheet of panels.

    The sheet is wider than high, and its last row as full as possible.

    Args:
        panels: the number of panels.
        aspect: the height of a panel divided by its width.
    """
    rows = math.ceil(panels / max(3, round(math.sqrt(2 * panels * aspect))))
    return rows, math.ceil(panels / rows)
