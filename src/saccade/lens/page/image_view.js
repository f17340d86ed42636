import { brush, make, moved } from "./dom.js";
import { between, blended, clamped, strength } from "./numbers.js";

const IMAGE_PIXELS = 480; // the longer side of an image as it is drawn
const MOST_SLENDER = 4; // largest ratio of an image's sides; an image beyond it is stretched

// colours of weights over an image, from 0 to the largest: viridis, as in figures of the lens
const COLOURS = blended(
  [
    [68, 1, 84],
    [71, 45, 123],
    [59, 82, 139],
    [44, 114, 142],
    [33, 145, 140],
    [40, 174, 128],
    [94, 201, 98],
    [173, 220, 48],
    [253, 231, 37],
  ],
  256,
);

/** An image whose cells can be selected with pointer and arrow keys, and covered by colours. */
export class ImageView {
  constructor(units, name, pointer, bitmap) {
    this.units = units;
    this.pointer = pointer;
    this.grid = units.side.grid;
    this.marked = null;
    this.values = null;
    const [rows, columns] = this.grid;
    this.canvas = make("canvas", {
      tabindex: 0,
      role: "application",
      "aria-label": `${name}: image of ${rows} × ${columns} cells; use the arrow keys to move`,
    });
    this.element = make("div", { class: "image" }, this.canvas);
    if (units.first) this.element.append(this.classToken());
    const { paper, plain } = placed(this.canvas, bitmap, IMAGE_PIXELS);
    this.paper = paper;
    this.plain = plain;
    this.listen();
  }

  classToken() {
    this.button = make("button", { type: "button" }, this.units.labels[0]);
    this.button.addEventListener("pointerenter", () => this.pointer.over(0));
    this.button.addEventListener("pointerleave", () => this.pointer.leave());
    this.button.addEventListener("focus", () => this.pointer.over(0));
    this.button.addEventListener("blur", () => this.pointer.leave());
    this.button.addEventListener("click", () => this.pointer.pin(0));
    return make("div", { class: "text" }, this.button);
  }

  listen() {
    const { canvas, pointer } = this;
    canvas.addEventListener("pointermove", (event) => pointer.over(this.cellUnder(event)));
    canvas.addEventListener("pointerleave", () => pointer.leave());
    canvas.addEventListener("click", (event) => pointer.pin(this.cellUnder(event)));
    canvas.addEventListener("focus", () => {
      if (canvas.matches(":focus-visible")) this.enter(this.cell ?? [0, 0]);
    });
    canvas.addEventListener("blur", () => pointer.leave());
    canvas.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") pointer.pin(this.unit(this.cell ?? [0, 0]));
      else this.walk(event);
    });
  }

  walk(event) {
    const cell = moved(event.key, this.cell ?? [0, 0], this.grid);
    if (!cell) return;
    event.preventDefault();
    this.enter(cell);
  }

  enter(cell) {
    this.cell = cell;
    this.pointer.over(this.unit(cell));
  }

  unit([row, column]) {
    return this.units.first + row * this.grid[1] + column;
  }

  cellUnder(event) {
    const box = this.canvas.getBoundingClientRect();
    const [rows, columns] = this.grid;
    const row = Math.floor(((event.clientY - box.top) / box.height) * rows);
    const column = Math.floor(((event.clientX - box.left) / box.width) * columns);
    return this.unit([clamped(row, 0, rows - 1), clamped(column, 0, columns - 1)]);
  }

  shade(values) {
    const weight = values ? strength(values[0], values.length) : 0;
    this.button?.style.setProperty("--weight", String(weight));
    this.values = values;
    this.draw();
  }

  mark(index, pinned) {
    this.marked = index;
    this.button?.classList.toggle("marked", index === 0);
    this.button?.setAttribute("aria-pressed", String(pinned && index === 0));
  }

  cover(covered) {
    this.covered = covered;
    this.draw();
  }

  draw() {
    const cells = this.covered && this.values ? this.values.slice(this.units.first) : null;
    this.paper.putImageData(cells ? coveredBy(this.plain, cells, this.grid) : this.plain, 0, 0);
    if (this.marked !== null && this.marked >= this.units.first) this.outline();
  }

  outline() {
    const [rows, columns] = this.grid;
    const cell = this.marked - this.units.first;
    const [width, height] = [this.canvas.width / columns, this.canvas.height / rows];
    const [left, top] = [(cell % columns) * width, Math.floor(cell / columns) * height];
    for (const [edge, line] of Object.entries({ black: 4, white: 2 })) {
      this.paper.strokeStyle = edge;
      this.paper.lineWidth = line;
      this.paper.strokeRect(left + 2, top + 2, width - 4, height - 4);
    }
  }
}

/** Draw an image into a canvas with sides of at most so many pixels.
    @param {HTMLCanvasElement} canvas
    @param {ImageBitmap} bitmap
    @param {number} pixels */
export function placed(canvas, bitmap, pixels) {
  const paper = brush(canvas, { willReadFrequently: true });
  const slender = clamped(bitmap.height / bitmap.width, 1 / MOST_SLENDER, MOST_SLENDER);
  canvas.width = Math.round(pixels / Math.max(slender, 1));
  canvas.height = Math.round(pixels * Math.min(slender, 1));
  const { width, height } = canvas;
  paper.imageSmoothingEnabled = bitmap.width > width; // pixels of small images stay visible
  paper.drawImage(bitmap, 0, 0, width, height);
  return { paper, plain: paper.getImageData(0, 0, width, height) };
}

/** Return the image in grey, so that its colours are not taken for weights, under theirs. */
export function coveredBy(plain, cells, grid) {
  const covered = new ImageData(plain.width, plain.height);
  const [from, into] = [plain.data, covered.data];
  const heats = cells.map((weight) => strength(weight, cells.length));
  const [across, down] = [between(plain.width, grid[1]), between(plain.height, grid[0])];
  for (let y = 0, at = 0; y < plain.height; y++) {
    for (let x = 0; x < plain.width; x++, at += 4) {
      const heat = softened(heats, grid[1], across[x], down[y]);
      const paint = COLOURS[Math.round(heat * (COLOURS.length - 1))];
      const grey = 13 + 0.65 * (0.299 * from[at] + 0.587 * from[at + 1] + 0.114 * from[at + 2]);
      const cover = 0.45 + 0.3 * heat;
      for (let part = 0; part < 3; part++) {
        into[at + part] = (1 - cover) * grey + cover * paint[part];
      }
      into[at + 3] = 255;
    }
  }
  return covered;
}

function softened(cells, columns, [left, right, toRight], [top, bottom, down]) {
  const [above, below] = [top * columns, bottom * columns];
  const upper = cells[above + left] * (1 - toRight) + cells[above + right] * toRight;
  const lower = cells[below + left] * (1 - toRight) + cells[below + right] * toRight;
  return upper * (1 - down) + lower * down;
}
