"""Write docs/pictures: screenshots of the pages, with models trained on built-in data.

    saccade compare rnn rnn-attention transformer-tiny --data builtin:phrases --out runs/compared \
        --minutes 3
    python docs/make_pictures.py runs/compared

compare.png   the page of that comparison
lens.png      the page of `predict --attention` for one sentence and its Transformer
page.png      the page of `serve`, with the same sentence typed in

It needs playwright and Chromium.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

import saccade
from saccade.lens.page import page

PICTURES = Path(__file__).parent / "pictures"
SENTENCE = "the happy child does not like these birds in front of the garden"
MODEL = "transformer-tiny"
WORD = 2
"""The index of the word of the answer that is selected."""


def main() -> None:
    """Take all pictures of the comparison in the folder given on the command line."""
    compared = Path(sys.argv[1])
    run = next(compared.glob(f"**/{MODEL}*/**/model.safetensors")).parent
    PICTURES.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        comparison(browser, compared / "compare.html")
        lens(browser, run)
        with serving(run) as address:
            served(browser, address)
        browser.close()


def comparison(browser: Browser, file: Path) -> None:
    """Take a picture of the top of a comparison's page."""
    tab = opened(browser, file.resolve().as_uri(), height=1500)
    tab.screenshot(path=PICTURES / "compare.png")


def lens(browser: Browser, run: Path) -> None:
    """Take a picture of the page of one record."""
    [answer] = saccade.load(run).predict([SENTENCE], attention=True)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "look.html"
        file.write_text(page(answer.attention, title=SENTENCE), encoding="utf-8")
        tab = opened(browser, file.as_uri(), height=900)
        tab.wait_for_selector('#view[aria-busy="false"]')
        point(tab)
        tab.screenshot(path=PICTURES / "lens.png")


def served(browser: Browser, address: str) -> None:
    """Take a picture of the server's page with the sentence typed in."""
    tab = opened(browser, address, height=1080)
    tab.get_by_label("Text", exact=True).fill(SENTENCE)
    tab.wait_for_selector("#looked:not([hidden]) .map canvas")
    point(tab)
    tab.screenshot(path=PICTURES / "page.png")


def opened(browser: Browser, address: str, *, height: int) -> Page:
    """Open a page and wait until it is loaded."""
    tab = browser.new_page(viewport={"width": 1180, "height": height})
    tab.goto(address)
    tab.wait_for_load_state("networkidle")
    return tab


def point(tab: Page) -> None:
    """Select a word of the answer."""
    tab.get_by_label("Show", exact=True).select_option("words")
    tab.get_by_label("Output").locator("button").nth(WORD).click()
    tab.mouse.move(0, 0)


@contextmanager
def serving(run: Path) -> Iterator[str]:
    """Serve the run under the name en-fr and yield its address."""
    command = [sys.executable, "-m", "saccade", "serve", f"en-fr={run}", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip().rpartition(" ")[2]
        finally:
            process.terminate()


if __name__ == "__main__":
    main()
