"""Tests of the package: its public names, the README, and what an import must not do."""

import ast
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

import saccade
from saccade import errors

ROOT = Path(__file__).parents[1]


def test_links_of_the_readme_exist():
    import re

    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (ROOT / target).exists(), target


def test_importing_the_package_does_not_import_torch():
    code = "import sys, saccade; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(("before", "after"), [(None, "1"), ("0", "0")])
def test_huge_pages_are_enabled_unless_the_variable_is_set(before, after):
    name = "THP_MEM_ALLOC_ENABLE"
    code = f"import os, saccade; print(os.environ[{name!r}])"
    environment = {key: value for key, value in os.environ.items() if key != name}
    environment |= {} if before is None else {name: before}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == after


def test_importing_uses_no_network():
    code = """
import socket
def refuse(*args, **kwargs): raise OSError("no network here")
socket.socket.connect = refuse
socket.getaddrinfo = refuse
import saccade.attention, saccade.positions, saccade.lens.drawing.figures
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_public_names_of_the_package():
    assert set(dir(saccade)) >= {"watch", "SaccadeError", "__version__"}
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = saccade.nothing


def test_every_error_is_a_saccade_error_in_the_tree():
    tree = errors.__doc__
    kinds = [e for e in vars(errors).values() if isinstance(e, type)]
    assert all(issubclass(kind, saccade.SaccadeError) for kind in kinds)
    assert all(kind.__name__ in tree for kind in kinds)
    assert str(errors.WatchError("as it stands")) == "as it stands"


def test_public_classes_have_unique_names():
    places = defaultdict(list)
    for path in Path(saccade.__file__).parent.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(path.name)
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
