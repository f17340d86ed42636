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
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_the_main_parts_have_examples():
    names = modules_with_examples()
    for part in ("multihead", "attend", "masks", "watch", "scores", "rotary", "translator", "beam"):
        assert any(name.endswith(f".{part}") for name in names), part
