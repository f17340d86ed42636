"""Draw docs/pictures/architecture.svg: packages by layer, paths of a batch and a prediction.

    python docs/make_architecture.py

The layers are those that import-linter checks, so the picture changes when pyproject.toml does.
"""

import tomllib
from html import escape
from pathlib import Path

DOCS = Path(__file__).parent
PICTURE = DOCS / "pictures" / "architecture.svg"
ROOMS = {
    "cli": "one file per verb",
    "serve": "HTTP API and page",
    "compare": "recipes on equal terms",
    "engines": "eager, CTranslate2",
    "inspection": "data, and what training costs",
    "training": "recipe, loop, run folder",
    "interop": "Hugging Face, ONNX, CTranslate2",
    "tasks": "model + data + metrics; one file per task",
    "decoding": "beam, sampling",
    "lens": "records, figures, measures",
    "data": "files to batches",
    "metrics": "scores with intervals",
    "models": "assembly of encoders and decoders",
    "encoders": "input to Memory",
    "decoders": "tokens + Memory to logits",
    "layers": "norms, feed-forward, embeddings, cells",
    "positions": "one file per encoding",
    "text": "tokenizers",
    "attention": "scores, masks, Attend, heads, watch",
}
GROUND = "config · interfaces · errors · shapes · files · cancellation"
BATCH = (
    "file",
    "row",
    "token ids",
    "length bucket",
    "padded batch",
    "task.forward",
    "encoder → Memory",
    "decoder → logits",
    "Loss(total, count)",
    "training loop",
)
PREDICTION = (
    "inputs",
    "prepare → examples",
    "sorted batches",
    "engine: encoder once",
    "Stepper, token by token",
    "answer: text, score",
    "force + watch",
    "AttentionRecord",
    "figure or page",
)
WIDTH, MARGIN, ROW, GAP = 960, 20, 46, 8
STYLE = """
  text { font-family: system-ui, sans-serif; fill: #1c1c1c; }
  .name { font-size: 15px; font-weight: 600; }
  .note { font-size: 12px; fill: #555; }
  .title { font-size: 16px; font-weight: 600; }
  .room { fill: #eef3fc; stroke: #2560c4; }
  .ground { fill: #f1f1ee; stroke: #777; }
  .step { fill: #fff6e6; stroke: #b36b00; }
  .arrow { stroke: #777; stroke-width: 1.5; fill: none; marker-end: url(#head); }
  @media (prefers-color-scheme: dark) {
    text { fill: #eee; } .note { fill: #bbb; }
    .room { fill: #1d2b45; stroke: #7ea6ee; } .ground { fill: #333; stroke: #999; }
    .step { fill: #40311a; stroke: #e0a243; } .arrow { stroke: #aaa; }
  }
"""


def layers() -> list[list[str]]:
    """Return the packages of each layer, from the top down, as import-linter checks them."""
    settings = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))
    for contract in settings["tool"]["importlinter"]["contracts"]:
        if contract["type"] == "layers":
            return [[name.strip() for name in row.split("|")] for row in contract["layers"]]
    raise SystemExit("pyproject.toml has no contract of layers in [tool.importlinter]")


def picture() -> str:
    """Return the SVG."""
    shapes: list[str] = []
    y = MARGIN + 16
    shapes.append(_text(MARGIN, y, "Packages: imports go down only", "title"))
    y += 12
    for names in layers():
        width = (WIDTH - 2 * MARGIN - GAP * (len(names) - 1)) / len(names)
        for column, name in enumerate(names):
            x = MARGIN + column * (width + GAP)
            shapes.append(_box(x, y, width, ROW - GAP, "room"))
            shapes.append(
                f'<text x="{x + 10:.0f}" y="{y + 24:.0f}"><tspan class="name">{name}</tspan>'
                f'<tspan class="note" dx="10">{escape(ROOMS[name])}</tspan></text>'
            )
        y += ROW
    shapes.append(_box(MARGIN, y, WIDTH - 2 * MARGIN, ROW - GAP, "ground"))
    shapes.append(_text(MARGIN + 10, y + 24, GROUND, "note"))
    y += ROW + 26
    for title, steps in (("Path of a batch", BATCH), ("Path of a prediction", PREDICTION)):
        shapes.append(_text(MARGIN, y, title, "title"))
        y = _chain(shapes, steps, y + 12) + 34
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y - 20}" role="img" '
        'aria-label="Packages of Saccade by layer, path of a batch, path of a prediction">\n'
        f"<style>{STYLE}</style>\n"
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#777"/></marker></defs>\n'
        + "\n".join(shapes)
        + "\n</svg>\n"
    )


def _chain(shapes: list[str], steps: tuple[str, ...], y: int) -> int:
    """Draw boxes joined by arrows, five to a row, and return the bottom."""
    per_row, space = 5, 22
    width = (WIDTH - 2 * MARGIN - space * (per_row - 1)) / per_row
    height = ROW - GAP
    for number, step in enumerate(steps):
        row, column = divmod(number, per_row)
        x, top = MARGIN + column * (width + space), y + row * (ROW + 10)
        shapes.append(_box(x, top, width, height, "step"))
        centre = x + width / 2
        shapes.append(
            f'<text x="{centre:.0f}" y="{top + 24}" class="note" text-anchor="middle">'
            f"{escape(step)}</text>"
        )
        if number + 1 == len(steps):
            continue
        if column + 1 < per_row:
            path = f"M{x + width:.0f},{top + height / 2:.0f} h{space - 2}"
        else:
            first, middle = MARGIN + width / 2, top + height + 10
            path = f"M{centre:.0f},{top + height} V{middle} H{first:.0f} V{top + ROW + 8}"
        shapes.append(f'<path class="arrow" d="{path}"/>')
    return y + ((len(steps) - 1) // per_row) * (ROW + 10) + height


def _box(x: float, y: float, width: float, height: float, kind: str) -> str:
    return (
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{height:.0f}" rx="6" '
        f'class="{kind}"/>'
    )


def _text(x: float, y: float, words: str, kind: str) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" class="{kind}">{escape(words)}</text>'


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
    print(f"wrote {PICTURE}")
