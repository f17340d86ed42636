"""The pages of the documentation, and the code in them."""

import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
WRITTEN = sorted(DOCS.rglob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *WRITTEN]
TUTORIALS = [page for page in sorted((DOCS / "tutorials").glob("*.md")) if page.stem != "index"]
PYTHON = [
    ROOT / "README.md",
    *TUTORIALS,
    *sorted((DOCS / "how-to").glob("*.md")),
    DOCS / "explanation" / "attention.md",
    DOCS / "explanation" / "models.md",
]
"""Pages whose Python blocks form one program each, run on tiny models."""
LECTURES = DOCS / "explanation" / "lectures.md"
ELSEWHERE = ("# needs", "# only")
"""Beginnings of blocks that need other packages or folders, and are tested where those are."""


def blocks(page: Path, language: str) -> list[str]:
    """Return the code of a page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def commands(page: Path) -> list[str]:
    """Return every `saccade …` that a page tells the reader to type."""
    lines = [
        line for block in blocks(page, "sh") for line in block.replace("\\\n", " ").splitlines()
    ]
    parts = [part.strip() for line in lines for part in line.split(" #")[0].split("|")]
    return [part.split(" > ")[0] for part in parts if part.startswith("saccade ")]


def name_of(page: Path) -> str:
    """Return the path of a page from the root, for the names of tests."""
    return page.relative_to(ROOT).as_posix()


def generator(name: str) -> ModuleType:
    """Return a script of docs/ as a module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(DOCS))
        return import_module(name)
