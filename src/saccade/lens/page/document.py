"""The frame of every page: one file that fetches nothing and runs no script but its own."""

import base64
import hashlib
from html import escape
from importlib import resources
from string import Template


def document(title: str, body: str, *, style: str = "", script: str = "") -> str:
    """A whole page with this body, light or dark as the reader likes it.

    `style` is added to that of all pages; `script` is a module. Nothing else can act on the page,
    whatever its body holds: neither scripts nor styles, not even in attributes.
    """
    style = own_file("page.css") + style
    policy = ["default-src 'none'", "img-src data:", "base-uri 'none'", "form-action 'none'"]
    policy.append(f"style-src {_digest(style)}")
    if script:
        policy.append(f"script-src {_digest(script)}")
    page = Template(own_file("shell.html")).substitute(
        title=escape(title),
        policy="; ".join(policy),
        style=style,
        body=body,
        script=f'<script type="module">{script}</script>\n' if script else "",
    )
    return page.encode(errors="replace").decode()  # half a surrogate pair fits in no file


def own_file(name: str) -> str:
    """A file beside this one."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _digest(content: str) -> str:
    """As a policy names what it allows."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
