"""Predictions as notebooks show them: HTML without scripts, in the colours of the notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

MOST = 5
"""Labels of an answer that are shown."""
ROWS = 50
"""Answers of a list that are shown."""
_BAR = (
    "display:inline-block;height:.6em;border-radius:.3em;background:#2a6fd0;vertical-align:middle"
)
_QUIET = "opacity:.7;font-size:.9em"


def text_html(text: str, confidence: float | None) -> str:
    """Return a text with its confidence."""
    shown = f'<span dir="auto">{escape(text)}</span>' if text.strip() else "<i>(empty text)</i>"
    if confidence is None:
        return shown
    return f'{shown} <span style="{_QUIET}">confidence {100 * confidence:.0f} %</span>'


def labels_html(probabilities: Mapping[str, float]) -> str:
    """Return the most probable labels with bars."""
    best = sorted(probabilities.items(), key=lambda one: -one[1])
    rows = [
        f'<tr><td style="text-align:left"><bdi>{escape(label)}</bdi></td>'
        f'<td style="text-align:left"><span style="{_BAR};width:{8 * value:.2f}em"></span> '
        f"{100 * value:.1f} %</td></tr>"
        for label, value in best[:MOST]
    ]
    more = len(best) - MOST
    note = f'<p style="{_QUIET}">and {more} less likely</p>' if more > 0 else ""
    return f"<table>{''.join(rows)}</table>{note}"


def list_html(shown: Sequence[str]) -> str:
    """Return answers as the rows of a table."""
    rows = [
        f'<tr><td style="{_QUIET}">{number}</td><td style="text-align:left">{one}</td></tr>'
        for number, one in enumerate(shown[:ROWS])
    ]
    more = len(shown) - ROWS
    note = f'<p style="{_QUIET}">and {more} more</p>' if more > 0 else ""
    return f"<table>{''.join(rows)}</table>{note}"
