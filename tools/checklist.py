"""Check that every item of docs/explanation/lectures.md has a place and a test.

Items are rows of the page's tables, `| A1 | item | place |`. A test cites an item by its id in its
name (`test_dot_equals_the_sum_of_products_A1`) or in its docstring; `L1 to L11` there stands for
all of them.

    python tools/checklist.py          # exit code 1 if an item has no test
    python tools/checklist.py --list   # also print the tests of each item
"""

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "explanation" / "lectures.md"
TESTS = ROOT / "tests"
ROW = re.compile(r"^\| \[?([A-M]\d{1,2})\b[^|]*\|([^|]*)\|([^|]*)\|", re.MULTILINE)
ID = re.compile(r"(?<![A-Za-z0-9])([A-M])(\d{1,2})(?![A-Za-z0-9])")
RANGE = re.compile(r"\b([A-M])(\d{1,2}) to \1(\d{1,2})\b")


class Item(NamedTuple):
    """A row of the page: what it is, where it is in Saccade, and the line of the page."""

    key: str
    name: str
    place: str
    line: int


def items(page: str) -> list[Item]:
    """Return the items of a page, in its order."""
    return [
        Item(row[1], row[2].strip(), row[3].strip(), page[: row.start()].count("\n") + 1)
        for row in ROW.finditer(page)
    ]


def cited(text: str) -> set[str]:
    """Return the ids in a name or a docstring."""
    spans = (
        f"{part}{number}"
        for part, first, last in RANGE.findall(text)
        for number in range(int(first), int(last) + 1)
    )
    return {part + number for part, number in ID.findall(text)} | set(spans)


def citations(folder: Path) -> dict[str, list[str]]:
    """Return the tests that cite each id, as `file::name`."""
    tests: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                name = f"{path.relative_to(folder.parent).as_posix()}::{node.name}"
                for key in cited(f"{node.name} {ast.get_docstring(node) or ''}"):
                    tests.setdefault(key, []).append(name)
    return tests


def faults(listed: list[Item], tests: Mapping[str, list[str]]) -> Iterator[str]:
    """Yield what is wrong with each item, with its line."""
    seen: set[str] = set()
    for item in listed:
        where = f"{PAGE.relative_to(ROOT).as_posix()}:{item.line}: {item.key}"
        if item.key in seen:
            yield f"{where} is listed twice; remove one of the rows"
        before = f"{item.key[0]}{int(item.key[1:]) - 1}"
        if int(item.key[1:]) > 1 and before not in seen:
            yield f"{where} comes before {before}; list the items in order, without gaps"
        if not item.name or not item.place:
            yield f"{where} has no text or no place; fill both columns"
        if item.key not in tests:
            yield (
                f"{where} is cited by no test ({item.name}); name it in the docstring of the test "
                "that checks it, or write one"
            )
        seen.add(item.key)


def main() -> int:
    """Print the items without a test, and a summary."""
    listed = items(PAGE.read_text(encoding="utf-8"))
    tests = citations(TESTS)
    if "--list" in sys.argv:
        for item in listed:
            print(f"{item.key}  {item.name}  →  {item.place}")
            print("".join(f"      {name}\n" for name in tests.get(item.key, ())), end="")
    problems = list(faults(listed, tests))
    print("\n".join([*problems, f"{len(listed)} items, {len(problems)} without a place or a test"]))
    return 1 if problems or not listed else 0


if __name__ == "__main__":
    sys.exit(main())
