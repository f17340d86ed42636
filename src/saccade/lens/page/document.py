"""The templates of every page: one file that loads nothing and runs no script but its own.

frame.html   what all pages have in common, with the style page.css
parts.html   macros: the attention view, pictures, matrices, tables

A page has the scripts that it needs as one: `bundle` joins a module with those it imports.
"""

import base64
import hashlib
import re
from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

_TEMPLATES = Environment(
    loader=PackageLoader("saccade", ""),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def document(template: str, **values: object) -> str:
    """Render a template of the package as a complete page.

    Values are escaped. No value can run a script or change the style of the page: its content
    security policy allows the script and the style of the templates only.

    Args:
        template: the path of the template in the package, such as "training/report.html".
        values: the variables of the template.
    """
    page = _TEMPLATES.get_template(template).render({"inputs": "", "film": "", **values})
    return page.encode(errors="replace").decode()  # a lone surrogate cannot be encoded as UTF-8


def own_file(name: str) -> Markup:
    """Return the text of a file in this folder."""
    return Markup(resources.files(__package__).joinpath(name).read_text(encoding="utf-8"))


_IMPORT = re.compile(r'^import \{[^{}]*\} from "\./([\w.]+)";\n', re.MULTILINE)


def bundle(*names: str) -> Markup:
    """Return modules of this folder, and all that they import, as one script.

    Names at the top level of the modules must differ, since the script has one scope.
    """
    joined: dict[str, str] = {}

    def add(name: str) -> None:
        if name in joined:
            return
        joined[name] = ""  # modules may import each other; each is added once
        text = str(own_file(name))
        for imported in _IMPORT.findall(text):
            add(imported)
        del joined[name]
        joined[name] = re.sub(r"^export ", "", _IMPORT.sub("", text), flags=re.MULTILINE)

    for name in names:
        add(name)
    return Markup("\n".join(joined.values()))


def shown(value: object) -> str:
    """Return a value of a table as text: floats with four digits, None as nothing."""
    match value:
        case None:
            return ""
        case float():
            return f"{value:.4g}"
        case _:
            return str(value)


def _digest(content: str) -> Markup:
    """Return the source expression by which a content security policy allows this content."""
    digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
    return Markup(f"'sha256-{digest}'")


_TEMPLATES.globals |= {"file": own_file, "bundle": bundle, "digest": _digest, "shown": shown}
