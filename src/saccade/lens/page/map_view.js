import {
  brush,
  colour,
  copied,
  deed,
  drawn,
  make,
  moved,
  quoted,
  saved,
  shortened,
  written,
} from "./dom.js";
import { clamped, greatest, shown, strength } from "./numbers.js";

const MAP = {
  cell: { least: 3, readable: 14, most: 30 }, // pixels
  readable: 64, // up to this many columns, a map scrolls rather than losing its labels
  label: { font: 12, width: 120, cell: 10 },
  figure: 22, // pixels of a cell in a saved figure
  side: 8192, // pixels that every browser allows for the side of a canvas
};

// colours of saved figures: as on white paper, in light and dark pages
const PAPER = { sheet: "#ffffff", ink: "#1d2126", looks: "#2563c9" };

/** A map of all weights, which shows the number under the pointer. */
export class MapView {
  constructor(wrote, read, pointer) {
    this.wrote = wrote;
    this.read = read;
    this.pointer = pointer;
    this.cell = null;
    this.matrix = null;
    this.layout = { left: 0, top: 0, cell: MAP.cell.least };
    this.canvas = make("canvas", {
      tabindex: 0,
      role: "application",
      "aria-label": "Attention map; use the arrow keys to move between weights",
    });
    this.box = make("div", { class: "map" }, this.canvas);
    this.number = make("output", { class: "number" });
    this.uniform = make("span");
    const scale = make("span", { class: "scale" }, this.uniform, make("i"), "1");
    const deeds = make(
      "p",
      { class: "deeds" },
      deed("Save as SVG", () => saved(this.svg(), "attention.svg", "image/svg+xml")),
      deed("Copy as SVG", () => copied(this.svg())),
    );
    const beside = make("p", { class: "beside" }, this.number, scale);
    this.element = make("div", {}, beside, this.box, deeds);
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.box);
  }

  listen() {
    const { canvas } = this;
    const over = (event) => this.enter(this.cellUnder(event));
    canvas.addEventListener("pointermove", over);
    canvas.addEventListener("pointerdown", over);
    canvas.addEventListener("pointerleave", ({ pointerType }) => {
      if (pointerType !== "touch") this.leave(); // after a touch, the number stays
    });
    canvas.addEventListener("focus", () => {
      if (canvas.matches(":focus-visible")) this.enter(this.cell ?? [0, 0]);
    });
    canvas.addEventListener("blur", () => this.leave());
    canvas.addEventListener("keydown", (event) => {
      if (!this.matrix) return;
      const cell = moved(event.key, this.cell ?? [0, 0], [this.matrix.rows, this.matrix.columns]);
      if (!cell) return;
      event.preventDefault();
      this.enter(cell);
    });
  }

  set(matrix) {
    this.matrix = matrix;
    this.uniform.textContent = `uniform ${shown(1 / Math.max(1, matrix.columns))}`;
    this.tell();
    this.draw();
  }

  enter(cell) {
    if (!cell || !this.matrix?.values.length) return;
    this.cell = cell;
    this.tell();
    this.pointer.over(cell[0]);
  }

  leave() {
    this.cell = null;
    this.tell();
    this.pointer.leave();
  }

  mark(selection) {
    this.marked = selection;
    this.draw();
  }

  tell() {
    if (!this.cell) {
      this.number.replaceChildren("rows attend to columns");
      return;
    }
    const [row, column] = this.cell;
    const [from, to] = [this.wrote.labels[row], this.read.labels[column]].map(quoted);
    const number = make("strong", {}, shown(this.matrix.at(row, column)));
    this.number.replaceChildren(from, " → ", to, "  ", number);
  }

  cellUnder(event) {
    const box = this.canvas.getBoundingClientRect();
    const { left, top, cell } = this.layout;
    const column = Math.floor((event.clientX - box.left - left) / cell);
    const row = Math.floor((event.clientY - box.top - top) / cell);
    const { rows, columns } = this.matrix;
    return row >= 0 && row < rows && column >= 0 && column < columns ? [row, column] : null;
  }

  draw() {
    if (!this.matrix?.values.length || !this.box.clientWidth) return;
    const paper = brush(this.canvas);
    const font = `${MAP.label.font}px ${getComputedStyle(this.box).fontFamily}`;
    paper.font = font;
    this.layout = this.arranged(paper);
    const { left, top, cell } = this.layout;
    const [width, height] = [left + cell * this.matrix.columns, top + cell * this.matrix.rows];
    const fine = Math.min(devicePixelRatio, MAP.side / Math.max(width, height));
    this.canvas.width = Math.ceil(width * fine);
    this.canvas.height = Math.ceil(height * fine);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    paper.scale(fine, fine);
    paper.font = font;
    this.drawWeights(paper);
    if (cell >= MAP.label.cell) this.drawLabels(paper);
    this.drawMarks(paper);
  }

  /** Return where the weights start and how large a cell is. */
  arranged(paper) {
    const { rows, columns } = this.matrix;
    const [left, top] = [roomFor(paper, this.wrote), roomFor(paper, this.read)];
    const { least, readable, most } = MAP.cell;
    const smallest = columns <= MAP.readable ? readable : least;
    const cell = clamped(Math.floor((this.box.clientWidth - left) / columns), smallest, most);
    if (cell >= MAP.label.cell) return { left, top, cell };
    return { left: 0, top: 0, cell: Math.min(cell, MAP.side / Math.max(rows, columns)) };
  }

  drawWeights(paper) {
    const { rows, columns, values } = this.matrix;
    const { left, top, cell } = this.layout;
    const pixels = new ImageData(columns, rows);
    values.forEach((weight, i) => {
      pixels.data[4 * i + 3] = 255 * strength(weight, columns);
    });
    const sheet = make("canvas", { width: columns, height: rows });
    const ink = brush(sheet);
    ink.putImageData(pixels, 0, 0);
    ink.globalCompositeOperation = "source-in";
    ink.fillStyle = colour(this.box, "--looks");
    ink.fillRect(0, 0, columns, rows);
    paper.fillStyle = colour(this.box, "--sheet");
    paper.fillRect(left, top, cell * columns, cell * rows);
    paper.imageSmoothingEnabled = false;
    paper.drawImage(sheet, left, top, cell * columns, cell * rows);
  }

  drawLabels(paper) {
    const { left, top, cell } = this.layout;
    paper.fillStyle = colour(this.box, "--ink");
    paper.textBaseline = "middle";
    paper.textAlign = "right";
    this.wrote.labels.forEach((label, row) => {
      paper.fillText(fitting(paper, label), left - 6, top + (row + 0.5) * cell);
    });
    paper.textAlign = "left";
    this.read.labels.forEach((label, column) => {
      paper.save();
      paper.translate(left + (column + 0.5) * cell, top - 6);
      paper.rotate(-Math.PI / 2);
      paper.fillText(fitting(paper, label), 0, 0);
      paper.restore();
    });
  }

  /** Return the map with all labels as SVG. */
  svg() {
    const { rows, columns } = this.matrix;
    const cell = MAP.figure;
    const paper = brush(make("canvas"));
    paper.font = `${MAP.label.font}px sans-serif`;
    const [left, top] = [roomFor(paper, this.wrote), roomFor(paper, this.read)];
    const [width, height] = [left + columns * cell + 1, top + rows * cell + 1];
    const figure = drawn(
      "svg",
      {
        viewBox: `0 0 ${width} ${height}`,
        width,
        height,
        "font-family": "sans-serif",
        "font-size": MAP.label.font,
        fill: PAPER.ink,
      },
      drawn("title", {}, "Attention weights, shaded relative to uniform attention"),
      drawn("rect", { width, height, fill: PAPER.sheet }),
      this.svgWeights(left, top, cell),
      drawn("rect", {
        x: left,
        y: top,
        width: columns * cell,
        height: rows * cell,
        fill: "none",
        stroke: PAPER.ink,
        "stroke-opacity": 0.3,
      }),
      ...this.svgLabels(paper, left, top, cell),
    );
    return new XMLSerializer().serializeToString(figure);
  }

  svgWeights(left, top, cell) {
    const cells = drawn("g", { fill: PAPER.looks });
    this.matrix.values.forEach((weight, i) => {
      const opacity = strength(weight, this.matrix.columns).toFixed(3);
      if (Number(opacity) === 0) return;
      const x = left + (i % this.matrix.columns) * cell;
      const y = top + Math.floor(i / this.matrix.columns) * cell;
      const title = drawn("title", {}, shown(weight));
      cells.append(
        drawn("rect", { x, y, width: cell, height: cell, "fill-opacity": opacity }, title),
      );
    });
    return cells;
  }

  svgLabels(paper, left, top, cell) {
    const middle = { "dominant-baseline": "central" };
    const label = (text) => written(fitting(paper, text));
    const rows = this.wrote.labels.map((text, row) => {
      const place = { x: left - 6, y: top + (row + 0.5) * cell, "text-anchor": "end" };
      return drawn("text", { ...place, ...middle }, label(text));
    });
    const columns = this.read.labels.map((text, column) => {
      const turned = `translate(${left + (column + 0.5) * cell} ${top - 6}) rotate(-90)`;
      return drawn("text", { transform: turned, ...middle }, label(text));
    });
    return [...rows, ...columns];
  }

  drawMarks(paper) {
    const { left, top, cell } = this.layout;
    const { rows, columns } = this.matrix;
    paper.strokeStyle = colour(this.box, "--ink");
    if (this.marked?.side === "wrote") {
      paper.strokeRect(left + 0.5, top + this.marked.index * cell, columns * cell - 1, cell);
    }
    if (this.marked?.side === "read") {
      paper.strokeRect(left + this.marked.index * cell, top + 0.5, cell, rows * cell - 1);
    }
    if (this.cell) {
      paper.lineWidth = 2;
      paper.strokeRect(left + this.cell[1] * cell, top + this.cell[0] * cell, cell, cell);
    }
  }
}

/** Return the pixels that the labels of a side need. */
function roomFor(paper, { labels }) {
  const widths = labels.map((label) => paper.measureText(label).width);
  return Math.ceil(Math.min(MAP.label.width, greatest(widths))) + 10;
}

/** Return as much of a label as there is room for. */
function fitting(paper, label) {
  let text = label;
  for (let longest = 24; paper.measureText(text).width > MAP.label.width; longest--) {
    text = shortened(label, longest);
  }
  return text;
}
