"""Write the table and the sections of docs/explanation/claims.md from the claims and their results.

    python docs/make_claims.py

The claims are the files of examples/claims, what was found lies in docs/claims (`make claims`).
"""

import ast
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
CLAIMS, FOUND = DOCS.parent / "examples" / "claims", DOCS / "claims"
PAGE = DOCS / "explanation" / "claims.md"
BEGIN, END = "<!-- claims: begin -->\n", "<!-- claims: end -->\n"

sys.path.insert(0, str(CLAIMS))
from told import Told  # noqa: E402


@dataclass(frozen=True)
class Entry:
    """A claim as its file tells it, and what was found of it, if it was measured."""

    file: Path
    told: Told
    found: dict[str, Any] | None

    @classmethod
    def of(cls, file: Path, folder: Path) -> "Entry":
        """A claim by its file, and by its numbers in a folder; a rehearsal is refused."""
        told = Told.of(ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "")
        path = folder / f"{file.stem}.json"
        if not path.exists():
            return cls(file, told, None)
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["rehearsal"]:
            raise SystemExit(f"{path} is of a rehearsal: run {file.name} without --quick")
        if found["rule"] != told.rule:
            raise SystemExit(f"{path} was judged by another rule than {file.name} has: run it")
        return cls(file, told, found)

    def row(self) -> str:
        """Of the table."""
        key, claim = self.told.key, self.told.claim
        verdict = "not measured yet" if self.found is None else f"**{self.found['verdict']}**"
        figures = "" if self.found is None else self.found["figures"]
        return f"| [{key}](#{key.lower()}) | {claim} | {verdict} | {figures} |\n"

    def section(self) -> str:
        """The claim in full, and its plot."""
        told = self.told
        parts = [f"## {told.key}", f"*{told.claim}*", told.source, told.measured, told.rule]
        command = f"`python examples/claims/{self.file.name}`"
        if self.found is None:
            parts.append(f"Not measured yet: {command}.")
        else:
            found, machine = self.found, self.found["machine"]
            verdict = found["verdict"].capitalize()
            parts += [
                f"**{verdict}**: {found['figures']}.",
                f"{command}: {found['seconds']:.0f} s ({machine['processor']}, threads: "
                f"{machine['threads']}, torch {machine['torch']}).",
                f"![{told.key}](../claims/{self.file.stem}.svg)",
            ]
        return "\n\n".join(parts) + "\n\n"


def entries(folder: Path = FOUND) -> Iterator[Entry]:
    """Every claim, in order."""
    for file in sorted(CLAIMS.glob("k*.py")):
        yield Entry.of(file, folder)


def page(folder: Path = FOUND) -> str:
    """The whole page with a new table and new sections."""
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    every = list(entries(folder))
    table = "\n| | claim | verdict | figures |\n|---|---|---|---|\n"
    made = table + "".join(each.row() for each in every) + "\n"
    made += "".join(each.section() for each in every)
    return before + BEGIN + made + END + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
