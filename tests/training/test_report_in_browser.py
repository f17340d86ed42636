"""The report of a real training in Chromium: its first screen, its height and its size."""

import pytest

from saccade.training import session
from saccade.training.console import Console
from tests.tiny_recipes import small

PATIENCE = 120_000  # milliseconds, for busy machines
FIRST_SCREEN = 600  # pixels
TALLEST = 2500  # pixels of a classifier's report at a width of 1400, unfolded
LARGEST = 1_500_000  # bytes


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The report of a small classifier, trained on built-in data."""
    folder = tmp_path_factory.mktemp("report")
    recipe = folder / "recipe.toml"
    changes = ("training.max_steps=24", "training.validate_every=4", "training.validate_items=60")
    recipe.write_text(small("bert-mini", *changes).to_toml())
    session.train(recipe, data="builtin:mood", out=folder / "run", console=Console(quiet=True))
    return folder / "run" / "report.html"


@pytest.fixture
def tab(browser, report):
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    context.set_default_timeout(PATIENCE)
    tab = context.new_page()
    complaints = []
    tab.on("console", lambda message: complaints.append(message.text))
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.goto(report.as_uri())
    tab.wait_for_selector("#film output")
    yield tab
    context.close()
    assert complaints == []


def bottom(tab, selector):
    box = tab.locator(selector).first.bounding_box()
    return box["y"] + box["height"]


def test_the_first_screen_holds_result_interval_baseline_verdict_and_cost(tab):
    card = '[aria-label="Result"]'
    assert "95 % interval" in tab.locator(f"{card} .result").inner_text()
    assert "baseline" in tab.locator(f"{card} .lead").inner_text()
    assert "training time" in tab.locator(f"{card} .facts").inner_text()
    for part in (f"{card} .result", f"{card} .lead", f"{card} .facts", '[aria-label="Baselines"]'):
        assert bottom(tab, part) <= FIRST_SCREEN


def test_the_report_of_a_classifier_is_short_and_small(tab, report):
    assert tab.evaluate("document.documentElement.scrollHeight") <= TALLEST
    assert report.stat().st_size <= LARGEST
    parts = tab.locator("main section").evaluate_all("(all) => all.map((one) => one.ariaLabel)")
    for part in ("Film of learning", "Confusions", "Trust", "Mistakes", "Samples"):
        assert part in parts
    assert tab.locator("details[open]").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_report_of_a_run_has_no_accessibility_violations(tab, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    tab.emulate_media(color_scheme=scheme)
    tab.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    violations = axe.run(tab)
    assert violations.violations_count == 0, violations.generate_report()
    tab.set_viewport_size({"width": 390, "height": 844})
    assert tab.evaluate("document.documentElement.scrollWidth <= 390")
