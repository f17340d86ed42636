"""Writes docs/pictures/page.png: the page with a sentence, its translation and where it looked.

    python docs/make_page_picture.py RUN [SENTENCE]

RUN is a translator trained on builtin:phrases. Needs playwright and Chromium.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import sync_playwright

PICTURE = Path(__file__).parent / "pictures" / "page.png"
SENTENCE = "the black cat does not see my little house"
SIZE = {"width": 1280, "height": 800}
WORD = 2
"""Of the answer: the one that is pointed at."""


@contextmanager
def serving(run: str) -> Iterator[str]:
    """The address at which the run is served, under the name en-fr."""
    command = [sys.executable, "-m", "saccade", "serve", f"en-fr={run}", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip().rpartition(" ")[2]
        process.terminate()


def photograph(url: str, sentence: str) -> None:
    """Type the sentence, point at a word of the answer, and keep what is seen."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        tab = browser.new_page(viewport=SIZE, device_scale_factor=2)
        tab.goto(url)
        tab.get_by_label("Text", exact=True).fill(sentence)
        tab.wait_for_selector("#looked:not([hidden]) .map canvas")
        tab.get_by_label("Show", exact=True).select_option("words")
        tab.get_by_label("Wrote").locator("button").nth(WORD).click()
        tab.mouse.move(0, 0)
        PICTURE.parent.mkdir(exist_ok=True)
        tab.screenshot(path=PICTURE, full_page=True)
        browser.close()


if __name__ == "__main__":
    with serving(sys.argv[1]) as address:
        photograph(address, " ".join(sys.argv[2:]) or SENTENCE)
    print(f"written: {PICTURE}")
