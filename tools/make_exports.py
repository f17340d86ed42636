"""Write src/saccade/recipes/exports.json: the formats that each built-in recipe exports to.

    python tools/make_exports.py

Each recipe is built at a small size, and every format is asked whether it can express it.
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
FILE = ROOT / "src" / "saccade" / "recipes" / "exports.json"


def content() -> str:
    """Return the text of the file."""
    from saccade.interop.export import formats_of
    from tests.tiny_recipes import NAMES, tiny

    return json.dumps({name: formats_of(tiny(name).task) for name in NAMES}, indent=1) + "\n"


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    FILE.write_text(content(), encoding="utf-8")
