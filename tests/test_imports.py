"""The imports between modules of the package form no cycle.

Imports under TYPE_CHECKING and inside functions count, too: a cycle of them is still two modules
that cannot be understood without each other.
"""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import saccade

ROOT = Path(saccade.__file__).parent


def modules() -> dict[str, Path]:
    """Return the file of each module of the package."""
    paths = {
        ".".join(path.relative_to(ROOT.parent).with_suffix("").parts): path
        for path in ROOT.rglob("*.py")
    }
    return {name.removesuffix(".__init__"): path for name, path in paths.items()}


def imports(path: Path, known: set[str]) -> set[str]:
    """Return the modules of the package that a file imports, anywhere in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                member = f"{node.module}.{alias.name}"
                names.add(member if member in known else node.module)
    return names & known


def test_imports_form_no_cycle():
    files = modules()
    graph = {name: imports(path, set(files)) - {name} for name, path in files.items()}
    assert len(graph) > 200
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        cycle = " imports ".join(reversed(error.args[1]))
        raise AssertionError(f"a cycle of imports: {cycle}") from None
