"""Fixtures of all tests: a fixed seed, and a browser for pages."""

import random
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
import torch

from tests import type_checks

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NO_BROWSER = "Chromium is not installed"


def _isolate_type_checks() -> None:
    """Give type checks a random generator of their own.

    A check of a list looks at one item, chosen by Python's global generator. The threads of a
    server run such checks at any time, and Hypothesis raises if the state of the global generator
    changes while it generates data. Must run before the first check is compiled.
    """
    try:
        from beartype._check.code import codemain as checks
    except ImportError:  # older versions
        from beartype._check.code import codemake as checks
    assert checks.getrandbits is random.getrandbits
    checks.getrandbits = random.Random(0).getrandbits


_isolate_type_checks()
type_checks.install()


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)
    type_checks.new_test()


@pytest.fixture(scope="module")  # while it is open, nothing else can run an event loop
def browser() -> Iterator["Browser"]:
    """The Chromium of this machine."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip(NO_BROWSER)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path)
        yield opened
        opened.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print one line if tests of pages were skipped."""
    skipped = terminalreporter.stats.get("skipped", [])
    pages = sum(NO_BROWSER in str(report.longrepr) for report in skipped)
    if pages:
        terminalreporter.write_line(f"{pages} tests of pages were skipped: {NO_BROWSER}")
