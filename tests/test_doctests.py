"""The examples in docstrings run and print what they show."""

import doctest
import importlib
from pathlib import Path

import pytest

import saccade

ROOT = Path(saccade.__file__).parent


def modules_with_examples() -> list[str]:
    """Return the names of all modules whose text contains an example."""
    files = [path for path in ROOT.rglob("*.py") if ">>> " in path.read_text(encoding="utf-8")]
    names = [".".join(path.relative_to(ROOT.parent).with_suffix("").parts) for path in files]
    return sorted(name.removesuffix(".__init__") for name in names)


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_of_a_module_run(name):
    results = doctest.testmod(importlib.import_module(name))
    assert results.attempted > 0
    assert results.failed == 0
