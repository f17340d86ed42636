"""Writes docs/pictures: what pages look like, with models trained on built-in data.

    saccade compare rnn rnn-attention transformer-tiny --data builtin:phrases --out runs/compared \
        --minutes 3
    python docs/make_pictures.py runs/compared [CHROMIUM]

The comparison's page, and the lens's page of a sentence as its Transformer read it, as PNG files.
CHROMIUM is the program, if it is not on the path.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

import saccade
from saccade.lens.page import page

PICTURES = Path(__file__).parent / "pictures"
SENTENCE = "the little white cat does not see the old houses"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def shot(browser: Browser, file: Path, name: str, *, width: int, height: int) -> None:
    """A picture of the top of a page."""
    tab = browser.new_page(viewport={"width": width, "height": height})
    tab.goto(file.resolve().as_uri())
    tab.wait_for_load_state("networkidle")
    if tab.locator("#view").count():
        tab.wait_for_selector('#view[aria-busy="false"]')
    tab.screenshot(path=PICTURES / name)
    tab.close()


def main() -> None:
    compared = Path(sys.argv[1])
    chromium = sys.argv[2] if len(sys.argv) > 2 else shutil.which("chromium")
    PICTURES.mkdir(exist_ok=True)
    run = next(compared.glob("**/transformer-tiny*/**/model.safetensors")).parent
    [answer] = saccade.load(run).predict([SENTENCE], attention=True)
    with sync_playwright() as play, tempfile.TemporaryDirectory() as folder:
        browser = play.chromium.launch(executable_path=chromium, args=FLAGS)
        lens = Path(folder) / "lens.html"
        lens.write_text(page(answer.attention, title=answer.text), encoding="utf-8")
        shot(browser, lens, "lens.png", width=1100, height=760)
        shot(browser, compared / "compare.html", "compare.png", width=1100, height=1500)
        browser.close()


if __name__ == "__main__":
    main()
