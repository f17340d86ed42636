"""The examples in docstrings of the lens."""

import doctest
import importlib
import pkgutil

import pytest

from saccade import lens

MODULES = [
    module.name for module in pkgutil.walk_packages(lens.__path__, prefix=f"{lens.__name__}.")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
