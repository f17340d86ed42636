"""Chart: a matplotlib figure without a display, which keeps the numbers it shows.

`chart.save("map.png")` writes the picture and, beside it, its numbers as `map.json`.
"""

import io
import unicodedata
import warnings
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager

from saccade.errors import FigureError
from saccade.lens.written import readable_json

Theme = Literal["light", "dark"]

PICTURES = (".png", ".svg", ".pdf")
LONGEST_LABEL = 60  # characters; what is longer is shown without its middle
LONGEST_SIDE = 40.0  # inches for the cells of a map; more of them are drawn smaller

# fonts with East Asian letters, which matplotlib's own lacks; those that are installed are used
_FURTHER_FONTS = (
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "WenQuanYi Zen Hei",
    "Droid Sans Fallback",
    "Hiragino Sans GB",
    "Microsoft YaHei",
    "Arial Unicode MS",
)

# the date is left out, so that the same numbers give the same file
_UNDATED: dict[str, dict[str, Any]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
# letters stay letters in an SVG, so a viewer shows scripts that matplotlib's own font lacks
# images stay apart, each as fine as it is, not joined into one
_VECTORS: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "saccade",
    "image.composite_image": False,
}


# what is written and drawn, and what is behind it
_COLOURS: dict[Theme, tuple[str, str]] = {
    "light": ("black", "white"),
    "dark": ("#e6e6e6", "#181818"),
}


class Chart(Figure):
    """A matplotlib Figure that knows the numbers it shows."""

    numbers: dict[str, Any]

    def __init__(self, numbers: dict[str, Any], **options: Any) -> None:
        super().__init__(layout="constrained", **options)
        FigureCanvasAgg(self)
        self.numbers = numbers

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
        """The picture as a file of this kind would hold it, for a light or a dark page."""
        self._paint(theme)
        file = io.BytesIO()
        with warnings.catch_warnings(), mpl.rc_context(_VECTORS):
            # a letter that no installed font has is drawn as a box; its label keeps it
            warnings.filterwarnings("ignore", r"Glyph .* missing from", UserWarning)
            self.savefig(file, format=suffix[1:], dpi=dpi, metadata=_UNDATED.get(suffix))
        return file.getvalue()

    def _paint(self, theme: Theme) -> None:
        """Colour all that stands outside of maps and images."""
        if theme not in _COLOURS:
            raise FigureError(f"a picture's theme is one of {', '.join(_COLOURS)}; got {theme!r}")
        ink, ground = _COLOURS[theme]
        self.set_facecolor(ground)
        for text in self.texts:  # the title, too
            text.set_color(ink)
        for axes in self.axes:
            axes.tick_params(colors=ink)
            for text in (axes.title, axes.xaxis.label, axes.yaxis.label):
                text.set_color(ink)
            for spine in axes.spines.values():
                spine.set_edgecolor(ink)


def families() -> list[str]:
    """The fonts of labels: matplotlib's own, then those for other scripts."""
    installed = {font.name for font in fontManager.ttflist}
    return [*mpl.rcParams["font.family"], *(name for name in _FURTHER_FONTS if name in installed)]


def short(label: str, longest: int = LONGEST_LABEL) -> str:
    """A label on one line, without its middle if it is very long."""
    if len(label) > longest:
        label = label[: longest // 2] + "…" + label[1 - longest // 2 :]
    return plain(label.replace("\n", "↵"))


def plain(text: str) -> str:
    """A text that matplotlib shows as it stands: `$` would start a formula."""
    return "".join(map(_visible, text)).replace("$", r"\$")


def _visible(letter: str) -> str:
    """Control characters, halves of surrogate pairs and empty code points fit in no picture."""
    strange = unicodedata.category(letter) in {"Cc", "Cs", "Cn"} and letter != "\n"
    return "\ufffd" if strange else letter


def width(label: str) -> int:
    """In letters; those of East Asian scripts are twice as wide."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in label)
