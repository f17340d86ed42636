"""Write docs/pictures: screenshots of the pages, with models trained on built-in data.

    saccade compare rnn rnn-attention transformer-tiny --data builtin:phrases --out runs/compared \
        --minutes 3
    saccade train transformer-tiny --data builtin:phrases --out runs/first --max-steps 800 \
        --set text.source.size=1000
    python docs/make_pictures.py runs/compared runs/first

Each page is shown at 1400 and at 390 pixels, light and dark:

report-WIDTH-THEME.png    the report of the run
compare-WIDTH-THEME.png   the page of the comparison
lens-WIDTH-THEME.png      the page of `predict --attention` for one sentence
page-WIDTH-THEME.png      the page of `serve`, with the same sentence
readme.png                its upper part

It needs playwright and Chromium.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import Browser, Page, sync_playwright

import saccade
from saccade.lens.page import page

PICTURES = Path(__file__).parent / "pictures"
SENTENCE = "the happy child does not like these birds in front of the garden"
HEIGHTS = {1400: 1000, 390: 844}
"""Heights of the pictures, by their widths."""
UPPER = {"x": 0, "y": 0, "width": 1400, "height": 640}
"""The part of the page that the README shows."""
WORD = 2
"""The index of the word of the answer that is selected."""


def main() -> None:
    """Take all pictures of the comparison and the run given on the command line."""
    compared, run = map(Path, sys.argv[1:3])
    PICTURES.mkdir(exist_ok=True)
    with (
        sync_playwright() as playwright,
        tempfile.TemporaryDirectory() as folder,
        serving(run) as address,
    ):
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        [answer] = saccade.load(run).predict([SENTENCE], attention=True)
        lens = Path(folder) / "look.html"
        lens.write_text(page(answer.attention, title=SENTENCE), encoding="utf-8")
        pages = {
            "report": (run / "report.html").resolve().as_uri(),
            "compare": (compared / "compare.html").resolve().as_uri(),
            "lens": lens.as_uri(),
            "page": f"{address}/#{urlencode({'model': 'en-fr', 'text': SENTENCE})}",
        }
        for name, place in pages.items():
            for width in HEIGHTS:
                for theme in ("light", "dark"):
                    tab = opened(browser, place, width, theme)
                    if name in ("lens", "page"):
                        point(tab)
                    tab.screenshot(path=PICTURES / f"{name}-{width}-{theme}.png")
                    if (name, width, theme) == ("page", 1400, "light"):
                        tab.screenshot(path=PICTURES / "readme.png", clip=UPPER)
                    tab.context.close()
        browser.close()


def opened(browser: Browser, address: str, width: int, theme: str) -> Page:
    """Open a page and wait until it is loaded."""
    context = browser.new_context(
        viewport={"width": width, "height": HEIGHTS[width]},
        color_scheme="dark" if theme == "dark" else "light",
    )
    tab = context.new_page()
    tab.goto(address)
    tab.wait_for_load_state("networkidle")
    return tab


def point(tab: Page) -> None:
    """Select a word of the answer."""
    tab.wait_for_selector('#view[aria-busy="false"] .lines path', state="attached")
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
