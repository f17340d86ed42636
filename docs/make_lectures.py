"""Run docs/explanation/lectures.md and draw its pictures into docs/pictures/lectures.

    python docs/make_lectures.py

Pictures of trained models come from commands that the page shows: map.svg, circle.png, words.png
and where.png.
"""

import os
import re
import shutil
import tempfile
from pathlib import Path

DOCS = Path(__file__).parent
PAGE = DOCS / "explanation" / "lectures.md"
PICTURES = DOCS / "pictures" / "lectures"


def main() -> None:
    """Run the page in an empty folder and keep the pictures it draws."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        run(PAGE)
        PICTURES.mkdir(exist_ok=True)
        for picture in Path(folder).glob("*.svg"):
            shutil.copy(picture, PICTURES)
            print(f"wrote {PICTURES / picture.name}")


def run(page: Path) -> None:
    """Run the Python blocks of a page as one program, in the current folder."""
    text = page.read_text(encoding="utf-8")
    names: dict[str, object] = {}
    for block in re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        line = text[: block.start()].count("\n") + 1
        code = "\n" * line + block[1]  # errors name the line of the page
        exec(compile(code, page.name, "exec"), names)


if __name__ == "__main__":
    main()
