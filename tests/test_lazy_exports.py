"""Names that packages export without importing torch."""

import importlib
import subprocess
import sys

import pytest

LAZY = ("saccade.decoding", "saccade.tasks", "saccade.interop.ctranslate2")


@pytest.mark.parametrize("name", LAZY)
def test_every_exported_name_can_be_imported(name):
    package = importlib.import_module(name)
    for exported in package.__all__:
        assert getattr(package, exported) is not package
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'nothing'"):
        package.nothing  # noqa: B018


def test_the_packages_need_no_torch():
    names = [*LAZY, "saccade.engines", "saccade.serve.app", "saccade.serve.server", "saccade.cli"]
    code = f"import sys; sys.modules['torch'] = None\nimport {', '.join(names)}"
    subprocess.run([sys.executable, "-c", code], check=True)
