"""Markdown extension: `$formula$` and `$$formula$$` in LaTeX become MathML when the site is built.

Browsers draw MathML themselves, so a page with formulas needs no script and no network.
"""

import re
import xml.etree.ElementTree as ET
from typing import Any

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.blockprocessors import BlockProcessor
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor

INLINE = r"(?<![\\$\w])\$(?!\s)([^$\n]+?)(?<![\s\\])\$(?![\w$])"
BLOCK = re.compile(r"^\$\$\s*(.+?)\s*\$\$\s*$", re.DOTALL)
BEFORE_ESCAPES = 185
"""Priority among inline patterns: after code (190), before backslashes (180)."""
BEFORE_PARAGRAPHS = 25


class InlineFormula(InlineProcessor):
    """`$a + b$` inside a line."""

    def handleMatch(  # type: ignore[override]  # noqa: N802
        self, m: re.Match[str], data: str
    ) -> tuple[str, int, int]:
        """Return the MathML of a match, kept from further processing, and its span."""
        return self.md.htmlStash.store(convert(m[1])), m.start(0), m.end(0)


class BlockFormula(BlockProcessor):
    """`$$ … $$` in a paragraph of its own."""

    def test(self, parent: ET.Element, block: str) -> bool:
        """Return whether a paragraph is a formula."""
        return BLOCK.match(block.strip()) is not None

    def run(self, parent: ET.Element, blocks: list[str]) -> None:
        """Replace the first of the paragraphs by its MathML."""
        match = BLOCK.match(blocks.pop(0).strip())
        assert match is not None
        formula = ET.SubElement(parent, "div", {"class": "formula"})
        formula.text = self.parser.md.htmlStash.store(convert(match[1], display="block"))


class Formulas(Extension):
    """Both kinds of formula."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        """Register the two processors."""
        md.inlinePatterns.register(InlineFormula(INLINE, md), "formula", BEFORE_ESCAPES)
        md.parser.blockprocessors.register(
            BlockFormula(md.parser), "formula_block", BEFORE_PARAGRAPHS
        )


def makeExtension(**options: Any) -> Formulas:  # noqa: N802
    """Return the extension; Markdown calls this by its name."""
    return Formulas(**options)
