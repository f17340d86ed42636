"""The templates of every page: one file that fetches nothing and runs no script but its own.

frame.html   what all pages have in common, with the style page.css
parts.html   macros: the attention view, pictures, legends, tables
"""

import base64
import hashlib
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

_TEMPLATES = Environment(
    loader=PackageLoader("saccade", ""),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def document(template: str, **values: Any) -> str:
    """Render a template of the package, such as "training/report.html", as a complete page.

    Values are escaped. Nothing in them can act on the page: its policy allows the script and the
    style of the templates only, and no style in attributes.
    """
    page = _TEMPLATES.get_template(template).render({"inputs": "", "colours": (), **values})
    return page.encode(errors="replace").decode()  # half a surrogate pair fits in no file


def own_file(name: str) -> Markup:
    """Return the text of a file beside this one."""
    return Markup(resources.files(__package__).joinpath(name).read_text(encoding="utf-8"))


def shown(value: Any) -> str:
    """Return a value of a table as text."""
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _digest(content: str) -> Markup:
    """Return the source expression by which a policy allows this content."""
    digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
    return Markup(f"'sha256-{digest}'")


_TEMPLATES.globals |= {"file": own_file, "digest": _digest, "shown": shown}
