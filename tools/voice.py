"""Check the project's English: patterns that docs/decisions and reviews agreed to avoid.

Docstrings, comments and string literals of the package, its tests, examples and benchmarks are
checked, and every Markdown page. Each pattern has a plain replacement. Functions of the Python
API with many parameters must list them.

    python tools/voice.py            # exit code 1 if a pattern occurs
    python tools/voice.py --counts   # occurrences per pattern
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).parents[1]

PROSE = {
    r"\banew\b": "again",
    r"\bbesides\b": "also; in addition",
    r"(?<!there )\bis no (?!longer|more|such|need|way|reason|limit)[a-z]+\b": "is not a valid …",
    r"\b(is|are) (told|said)\b(?! to)": "name who reports it: prints, logs, reports",
    r"\b(a|one) (line|file|folder|row|class) each\b": "one line per …",
    r"\b(a|one) (line|file|folder|class) a (line|file|folder|class)\b": "one … per …",
    r"\bnobody (waits|asks)\b": "name the case",
    r"\bgo(es)? on with\b": "resume; continue",
}
DOCSTRING = {
    r"^(What|Who|Whose|Of|That) ": "begin with a verb in the imperative, or a noun phrase",
}
REFERENCE = re.compile(r"src/saccade/(?!cli/)([a-z0-9]\w*/)*[a-z0-9]\w*\.py$")
"""Modules of the Python API in the documentation."""
MANY = 4
"""Public functions with at least this many parameters list them under Args:."""
LOCALS = {"found", "told", "said", "asked", "made", "each", "those"}
SKIP = ("docs/claims/", "tests/training/format_", "CHANGELOG.md")


def main() -> int:
    """Print each occurrence with its place and a better wording."""
    counts: Counter[str] = Counter()
    for name in _tracked("*.py", "*.md"):
        if name.startswith(SKIP) or name == "tools/voice.py":
            continue
        text = (ROOT / name).read_text(encoding="utf-8")
        places = _markdown(text) if name.endswith(".md") else _python(text)
        if REFERENCE.match(name):
            places = chain(places, _arguments(text))
        for line, pattern, advice in places:
            counts[pattern] += 1
            if "--counts" not in sys.argv:
                print(f"{name}:{line}: {pattern} — {advice}")
    if "--counts" in sys.argv:
        for pattern, count in counts.most_common():
            print(f"{count:5} {pattern}")
    return 1 if counts else 0


def _tracked(*patterns: str) -> list[str]:
    listing = subprocess.run(
        ["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [name for name in listing.stdout.splitlines() if (ROOT / name).is_file()]


def _markdown(text: str) -> Iterator[tuple[int, str, str]]:
    in_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            in_code = not in_code
        elif not in_code:
            yield from ((number, *hit) for hit in _prose(line))


def _python(text: str) -> Iterator[tuple[int, str, str]]:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node) or ""
            for pattern, advice in DOCSTRING.items():
                if re.search(pattern, docstring):
                    yield getattr(node, "lineno", 1), pattern, advice
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in LOCALS:
            yield node.lineno, f"local {node.id}", "name the thing"
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in {tokenize.STRING, tokenize.COMMENT}:
            for offset, line in enumerate(token.string.splitlines()):
                yield from ((token.start[0] + offset, *hit) for hit in _prose(line))


def _arguments(text: str) -> Iterator[tuple[int, str, str]]:
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            many = len(node.args.posonlyargs + node.args.args + node.args.kwonlyargs) >= MANY
            if many and "Args:" not in (ast.get_docstring(node) or ""):
                yield node.lineno, f"{MANY} parameters", "list them under Args:"


def _prose(line: str) -> Iterator[tuple[str, str]]:
    for pattern, advice in PROSE.items():
        if re.search(pattern, line, re.IGNORECASE):
            yield pattern, advice


if __name__ == "__main__":
    sys.exit(main())
