"""Write docs/pictures: screenshots of the pages, with models trained on built-in data.

    saccade compare rnn rnn-attention transformer-tiny --data builtin:phrases --out runs/compared \
        --minutes 2.3 --threads 1
    python docs/make_pictures.py runs/compared

Each page is shown at 1400 and at 390 pixels, light and dark:

report-WIDTH-THEME.png    the report of the Transformer
compare-WIDTH-THEME.png   the page of the comparison
lens-WIDTH-THEME.png      the page of `predict --attention` for one sentence
page-WIDTH-THEME.png      the page of `serve` with all three models, for the same sentence

Pictures have 256 colours, which keeps each below 100 kB. It needs playwright and Chromium.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from urllib.parse import urlencode

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

import saccade
from saccade.lens.page import page

PICTURES = Path(__file__).parent / "pictures"
SENTENCE = "the happy child does not like these birds in front of the garden"
BEST, OTHERS = "transformer-tiny", ("rnn-attention",)
"""The run whose pages are shown, and those that the served page compares it with."""
HEIGHTS = {1400: 1000, 390: 844}
"""Heights of the pictures, by their widths."""
COLOURS = 256
WORD = 2
"""The index of the word of the answer that is selected."""


def main() -> None:
    """Take all pictures of the comparison given on the command line, or only those of some pages.

    The further arguments are names of pages, such as `report`.
    """
    compared, wanted = Path(sys.argv[1]), sys.argv[2:]
    runs = {path.name.removesuffix("-0"): path for path in sorted((compared / "runs").iterdir())}
    PICTURES.mkdir(exist_ok=True)
    with (
        sync_playwright() as playwright,
        tempfile.TemporaryDirectory() as folder,
        serving(runs) as address,
    ):
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        [answer] = saccade.load(runs[BEST]).predict([SENTENCE], attention=True)
        lens = Path(folder) / "look.html"
        lens.write_text(page(answer.attention, title=SENTENCE), encoding="utf-8")
        chosen = [("model", BEST), *(("with", name) for name in OTHERS), ("text", SENTENCE)]
        pages = {
            "report": (runs[BEST] / "report.html").resolve().as_uri(),
            "compare": (compared / "compare.html").resolve().as_uri(),
            "lens": lens.as_uri(),
            "page": f"{address}/#{urlencode(chosen)}",
        }
        for name, place in pages.items():
            if wanted and name not in wanted:
                continue
            for width in HEIGHTS:
                for theme in ("light", "dark"):
                    tab = opened(browser, place, width, theme)
                    if name in ("lens", "page"):
                        point(tab)
                    save(tab.screenshot(), PICTURES / f"{name}-{width}-{theme}.png")
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
    tab.get_by_label("Output").first.locator("button").nth(WORD).click()
    tab.mouse.move(0, 0)
    tab.evaluate("scrollTo(0, 0)")


def save(picture: bytes, path: Path) -> None:
    """Write a picture with few colours."""
    image = Image.open(BytesIO(picture)).convert("RGB")
    few = image.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


@contextmanager
def serving(runs: dict[str, Path]) -> Iterator[str]:
    """Serve the runs and yield the address."""
    models = [f"{name}={run}" for name, run in runs.items()]
    command = [sys.executable, "-m", "saccade", "serve", *models, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip().rpartition(" ")[2]
        finally:
            process.terminate()


if __name__ == "__main__":
    main()
