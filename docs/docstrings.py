"""Griffe extension: prepares the docstrings for the generated reference.

Lines of `name   description`, as module docstrings and option classes have them, become a list;
they would run together otherwise. `Example:` becomes `Examples:`, the name of the section that
Griffe renders as a session of the interpreter.
"""

import re
from typing import Any

from griffe import Extension, Object

ENTRY = re.compile(r"(?P<name>\S(?:.*?\S)??) {2,}(?P<text>\S.*)")


class Docstrings(Extension):
    """Rewrites the docstring of every object before it is rendered."""

    def on_object(self, *, obj: Object, **options: Any) -> None:
        """Rewrite one docstring."""
        if obj.docstring is not None:
            obj.docstring.value = rewritten(obj.docstring.value)


def rewritten(docstring: str) -> str:
    """Return a docstring with its aligned lines as a Markdown list, and `Examples:` by that name.

    Only unindented paragraphs in which every line is an entry, or continues one, become a list.
    """
    docstring = re.sub(r"^Example:$", "Examples:", docstring, flags=re.MULTILINE)
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
