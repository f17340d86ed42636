"""Griffe extension: lines of `name   description` in a docstring become a list.

Module docstrings name their parts that way, and option classes their keys. Without this the lines
would run together in the generated reference.
"""

import re
from typing import Any

from griffe import Extension, Object

ENTRY = re.compile(r"(?P<name>\S(?:.*?\S)??) {2,}(?P<text>\S.*)")


class AlignedLists(Extension):
    """Rewrites the docstring of every object before it is rendered."""

    def on_object(self, *, obj: Object, **options: Any) -> None:
        """Rewrite one docstring."""
        if obj.docstring is not None:
            obj.docstring.value = listed(obj.docstring.value)


def listed(docstring: str) -> str:
    """Return a docstring with its aligned lines as a Markdown list.

    Only unindented paragraphs in which every line is an entry, or continues one, are changed.
    """
    paragraphs = docstring.split("\n\n")
    return "\n\n".join(_list(paragraph) or paragraph for paragraph in paragraphs)


def _list(paragraph: str) -> str | None:
    entries: list[tuple[str, str]] = []
    for line in paragraph.split("\n"):
        if entry := ENTRY.fullmatch(line):
            entries.append((entry["name"], entry["text"]))
        elif entries and line.startswith("  "):
            name, text = entries[-1]
            entries[-1] = (name, f"{text} {line.strip()}")
        else:
            return None
    return "\n".join(f"- `{name}`: {text}" for name, text in entries)
