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


def scored_html(
    text: str, confidence: float | None, tokens: Sequence[tuple[str, float, str, float]]
) -> str:
    """Return a given output with the probability of each token, and what would be more probable.

    Args:
        text: The output.
        confidence: Its confidence.
        tokens: Each token with its probability, and the most probable token with its own.
    """
    cells = [
        f'<td style="text-align:center;{_shade(1 - p)}"><bdi>{escape(token)}</bdi>'
        f'<br><span style="{_QUIET}">{100 * p:.1f} %</span></td>'
        for token, p, _, _ in tokens
    ]
    others = [
        f'<td style="text-align:center;{_QUIET}">'
        + ("" if best == token else f"<bdi>{escape(best)}</bdi><br>{100 * p:.1f} %")
        + "</td>"
        for token, _, best, p in tokens
    ]
    table = (
        '<div style="overflow-x:auto"><table>'
        f'<tr><th scope="row">given</th>{"".join(cells)}</tr>'
        f'<tr><th scope="row">instead of</th>{"".join(others)}</tr></table></div>'
    )
    return text_html(text, confidence) + (table if tokens else "")


def _shade(doubt: float) -> str:
    return f"background:rgba(201,101,15,{0.45 * doubt:.2f})"


def list_html(shown: Sequence[str]) -> str:
    """Return answers as the rows of a table."""
    rows = [
        f'<tr><td style="{_QUIET}">{number}</td><td style="text-align:left">{one}</td></tr>'
        for number, one in enumerate(shown[:ROWS])
    ]
    more = len(shown) - ROWS
    note = f'<p style="{_QUIET}">and {more} more</p>' if more > 0 else ""
    return f"<table>{''.join(rows)}</table>{note}"
