"""Write the table and the sections of docs/explanation/claims.md from the claims and results.

    python docs/make_claims.py

The claims are the files of examples/claims; `make claims` writes their results into docs/claims.
"""

import ast
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
CLAIMS, RESULTS = DOCS.parent / "examples" / "claims", DOCS / "claims"
PAGE = DOCS / "explanation" / "claims.md"
BEGIN, END = "<!-- claims: begin -->\n", "<!-- claims: end -->\n"

sys.path.insert(0, str(CLAIMS))
from statement import Statement  # noqa: E402


@dataclass(frozen=True)
class Entry:
    """A claim, and its result if it was measured."""

    file: Path
    statement: Statement
    result: dict[str, Any] | None

    @classmethod
    def read(cls, file: Path, folder: Path) -> "Entry":
        """Read a claim from its file, and its result from a folder.

        Raises:
            SystemExit: if the result is of a rehearsal, or was judged by another rule.
        """
        docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
        statement = Statement.parse(docstring)
        path = folder / f"{file.stem}.json"
        if not path.exists():
            return cls(file, statement, None)
        result = json.loads(path.read_text(encoding="utf-8"))
        if result["rehearsal"]:
            raise SystemExit(f"{path} is a rehearsal: run {file.name} without --quick")
        if result["rule"] != statement.rule:
            raise SystemExit(f"{path} was judged by another rule: run {file.name} again")
        return cls(file, statement, result)

    def row(self) -> str:
        """Return the row of the table."""
        key, claim = self.statement.key, self.statement.claim
        verdict = "not measured yet" if self.result is None else f"**{self.result['verdict']}**"
        figures = "" if self.result is None else self.result["figures"]
        return f"| [{key}](#{key.lower()}) | {claim} | {verdict} | {figures} |\n"

    def section(self) -> str:
        """Return the section with the complete claim and its plot."""
        claim = self.statement
        parts = [f"## {claim.key}", f"*{claim.claim}*", claim.source, claim.measured, claim.rule]
        command = f"`python examples/claims/{self.file.name}`"
        if self.result is None:
            parts.append(f"Not measured yet: {command}.")
        else:
            result, machine = self.result, self.result["machine"]
            parts += [
                f"**{result['verdict'].capitalize()}**: {result['figures']}.",
                f"{command}: {result['seconds']:.0f} s ({machine['processor']}, threads: "
                f"{machine['threads']}, torch {machine['torch']}).",
                f"![{claim.key}](../claims/{self.file.stem}.svg)",
            ]
        return "\n\n".join(parts) + "\n\n"


def entries(folder: Path = RESULTS) -> Iterator[Entry]:
    """Yield every claim, in order."""
    for file in sorted(CLAIMS.glob("k*.py")):
        yield Entry.read(file, folder)


def page(folder: Path = RESULTS) -> str:
    """Return the page with a new table and new sections."""
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    claims = list(entries(folder))
    table = "\n| | claim | verdict | figures |\n|---|---|---|---|\n"
    content = table + "".join(entry.row() for entry in claims) + "\n"
    content += "".join(entry.section() for entry in claims)
    return before + BEGIN + content + END + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
