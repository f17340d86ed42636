/* The view of attention records: show(element, inputs).

`inputs` is what view_inputs in view.py returns: for each input, the record of each model.
`fromRecord(name, record)` converts a record as AttentionRecord.to_json writes it.
A selection is a word or token of one side, { side: "wrote" | "read", index, labels }, or null.

What users wrote becomes text nodes and nothing else. */

const STRONGEST = 8; // entries of a list
const IMAGE_PIXELS = 480; // the longer side of an image as it is drawn
const MOST_SLENDER = 4; // largest ratio of an image's sides; an image beyond it is stretched
const STATUS_TIME = 4000; // milliseconds for which a status message is shown
const MAP = {
  cell: { least: 3, readable: 14, most: 30 }, // pixels
  readable: 64, // up to this many columns, a map scrolls rather than losing its labels
  label: { font: 12, width: 120, cell: 10 },
  figure: 22, // pixels of a cell in a saved figure
  side: 8192, // pixels that every browser allows for the side of a canvas
};
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

// colours of saved figures: as on white paper, in light and dark pages
const PAPER = { sheet: "#ffffff", ink: "#1d2126", looks: "#2563c9" };
const SVG = "http://www.w3.org/2000/svg";

/** @typedef {{ kind: "text", tokens: string[], words: string[], word_of: (number | null)[] }} Text */
/** @typedef {{ kind: "image", grid: [number, number], class_token: boolean, image: string, steps?: boolean }} Picture */
/** @typedef {{ name: string, heads: number, weights: string | Float32Array }} Layer */
/** @typedef {{ name: string, read: Text | Picture, wrote: Text | Picture | null, layers: Layer[] }} Model */
/** @typedef {{ side: any, labels: string[], of: (number | null)[], first?: number }} Units */

const viewers = new WeakMap(); // the newest viewer of each element

/** Show the inputs inside the element and replace its content when they are ready. Earlier choices
    are kept: words or tokens and, if the layers are the same, layer and head. */
export async function show(element, inputs) {
  const viewer = new Viewer(element, inputs, viewers.get(element));
  viewers.set(element, viewer);
  element.setAttribute("aria-busy", "true");
  try {
    await viewer.open(0);
  } catch (error) {
    if (!viewer.isLast) return;
    element.replaceChildren(
      make("p", { role: "alert" }, `This record cannot be shown: ${error.message}`),
    );
  }
  if (viewer.isLast) element.setAttribute("aria-busy", "false");
}

/** Convert a saved record to an entry of `inputs`, with the name of its model. */
export function fromRecord(name, record) {
  const read = sideOf(record.read);
  const wrote = record.wrote.kind === "read" ? read : sideOf(record.wrote);
  const same = JSON.stringify(wrote) === JSON.stringify(read);
  return {
    name,
    read,
    wrote: same && (record.reads_itself ?? true) ? null : wrote,
    layers: Object.entries(record.weights).map(([layer, heads]) => ({
      name: layer,
      heads: heads.length,
      weights: Float32Array.from(heads.flat(2)),
    })),
  };
}

function sideOf({ png, ...side }) {
  return side.kind === "image" ? { ...side, image: png } : side;
}

// numbers

/** A matrix of weights: one row per query, one column per key. */
class Matrix {
  /** @param {number} rows
      @param {number} columns */
  constructor(rows, columns, values = new Float32Array(rows * columns)) {
    this.rows = rows;
    this.columns = columns;
    this.values = values;
  }

  static identity(size) {
    const identity = new Matrix(size, size);
    for (let i = 0; i < size; i++) identity.values[i * size + i] = 1;
    return identity;
  }

  at(row, column) {
    return this.values[row * this.columns + column];
  }

  row(index) {
    return this.values.subarray(index * this.columns, (index + 1) * this.columns);
  }

  column(index) {
    return Float32Array.from({ length: this.rows }, (_, row) => this.at(row, index));
  }

  average() {
    const averages = new Float32Array(this.columns);
    this.values.forEach((weight, i) => {
      averages[i % this.columns] += weight / this.rows;
    });
    return averages;
  }

  times(other) {
    const product = new Matrix(this.rows, other.columns);
    for (let i = 0; i < this.rows; i++) {
      const sum = product.row(i);
      for (let k = 0; k < this.columns; k++) {
        const weight = this.at(i, k);
        if (weight === 0) continue;
        const row = other.row(k);
        for (let j = 0; j < sum.length; j++) sum[j] += weight * row[j];
      }
    }
    return product;
  }
}

function greatest(values) {
  return values.reduce((a, b) => Math.max(a, b), 0);
}

function shown(number) {
  return number.toFixed(3);
}

async function inflated(base64) {
  const stream = new Blob([bytesOf(base64)]).stream();
  return new Response(stream.pipeThrough(new DecompressionStream("deflate"))).arrayBuffer();
}

function bytesOf(base64) {
  const letters = atob(base64);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = letters.charCodeAt(i);
  return bytes;
}

/** Return whether weights are packed, as `packed` in view.py packs them. */
function isPacked(weights) {
  return typeof weights === "string";
}

/** The weights of one model; each layer is unpacked when it is first needed. */
class Layers {
  /** @param {Layer[]} layers
      @param {number} rows
      @param {number} columns */
  constructor(layers, rows, columns) {
    this.layers = layers;
    this.rows = rows;
    this.columns = columns;
    this.unpacked = new Map();
  }

  /** Return the weights of a layer ("mean", "rollout" or a number) and head (a number or null). */
  of({ layer, head }) {
    if (layer === "rollout") return this.rollout(head);
    return layer === "mean" ? this.meanOfAll(head) : this.mean(layer, head);
  }

  /** Return the smallest and the largest number of heads of the chosen layers. */
  heads(layer) {
    const layers = typeof layer === "number" ? [this.layers[layer]] : this.layers;
    const counts = layers.map(({ heads }) => heads);
    return { least: Math.min(...counts), most: Math.max(...counts) };
  }

  async mean(layer, head) {
    const mean = new Matrix(this.rows, this.columns);
    await this.add(mean, layer, head, 1);
    return mean;
  }

  async meanOfAll(head) {
    const mean = new Matrix(this.rows, this.columns);
    for (const layer of this.layers.keys()) {
      await this.add(mean, layer, head, 1 / this.layers.length);
    }
    return mean;
  }

  /** Attention rollout, as in record/rollout.py: half of each token bypasses each layer. */
  async rollout(head) {
    let rolled = Matrix.identity(this.rows);
    for (const layer of this.layers.keys()) {
      const mixed = await this.mean(layer, head);
      for (let i = 0; i < mixed.rows; i++) {
        const row = mixed.row(i);
        row[i] += 1;
        const sum = row.reduce((a, b) => a + b, 0);
        for (let j = 0; j < row.length; j++) row[j] /= sum;
      }
      rolled = mixed.times(rolled);
    }
    return rolled;
  }

  async add(sum, layer, head, factor) {
    const { steps, levels } = await this.unpack(layer);
    const heads = head === null ? [...Array(this.layers[layer].heads).keys()] : [head];
    for (const one of heads) {
      for (let row = 0; row < this.rows; row++) {
        const step = (steps[one * this.rows + row] * factor) / heads.length;
        const from = (one * this.rows + row) * this.columns;
        const into = sum.row(row);
        for (let j = 0; j < this.columns; j++) into[j] += levels[from + j] * step;
      }
    }
  }

  async unpack(layer) {
    const { weights, heads } = this.layers[layer];
    const rows = heads * this.rows;
    if (!isPacked(weights)) return { steps: new Float32Array(rows).fill(1), levels: weights };
    if (!this.unpacked.has(layer)) {
      const buffer = await inflated(weights);
      const steps = new Float32Array(buffer, 0, rows);
      this.unpacked.set(layer, { steps, levels: new Uint8Array(buffer, steps.byteLength) });
    }
    return this.unpacked.get(layer);
  }
}

// sides

/** Return the units of a side that can be selected, its words or its tokens, and the unit of each
    token. The words of an image are its cells, its tokens the class token and the cells.
    @param {Text | Picture} side
    @param {boolean} words
    @returns {Units} */
function unitsOf(side, words) {
  if (side.kind === "text") {
    const { tokens } = side;
    if (words) return { side, labels: side.words.map(visible), of: side.word_of };
    return { side, labels: tokens.map(visible), of: [...tokens.keys()] };
  }
  const [rows, columns] = side.grid;
  const cells = Array.from({ length: rows * columns }, (_, cell) => cell);
  const name = (cell) =>
    side.steps ? `step ${cell}` : `cell ${Math.floor(cell / columns)},${cell % columns}`;
  const names = cells.map(name);
  if (!side.class_token) return { side, labels: names, of: cells, first: 0 };
  if (words) return { side, labels: names, of: [null, ...cells], first: 0 };
  return { side, labels: ["class token", ...names], of: [0, ...cells.map((c) => c + 1)], first: 1 };
}

/** Return weights between units: summed over the tokens of a key, averaged over those of a query.
    @param {Matrix} matrix
    @param {Units} wrote
    @param {Units} read */
function pooled(matrix, wrote, read) {
  const result = new Matrix(wrote.labels.length, read.labels.length);
  const pieces = new Float32Array(result.rows);
  for (const unit of wrote.of) if (unit !== null) pieces[unit]++;
  wrote.of.forEach((unit, i) => {
    if (unit === null) return;
    const [into, row] = [result.row(unit), matrix.row(i)];
    read.of.forEach((other, j) => {
      if (other !== null) into[other] += row[j] / pieces[unit];
    });
  });
  return result;
}

/** Return a text on one line, with visible signs for invisible characters. */
export function visible(text) {
  if (text.trim() === "") return text.replace(/ /g, "␣").replace(/\s/g, "↵") || "∅";
  return text.replace(/[\r\n\u2028\u2029]/g, "↵").replace(/\p{Cc}/gu, (letter) => {
    const code = letter.charCodeAt(0);
    return code < 32 ? String.fromCharCode(0x2400 + code) : "\ufffd";
  });
}

function shortened(text, longest) {
  const letters = [...text];
  return letters.length > longest ? `${letters.slice(0, longest - 1).join("")}…` : text;
}

/** Return a line that identifies an input.
    @param {Model} model */
function summary({ read, wrote }) {
  const [from, to] = [read, wrote].map((side) => {
    if (side === null) return "";
    if (side.kind === "image") return side.steps ? "vectors" : "image";
    return shortened(side.words.map(visible).join(" "), 40);
  });
  return to ? `${from} → ${to}` : from;
}

// the document

/** Return an element with these attributes and children; strings become text nodes.
    @template {keyof HTMLElementTagNameMap} Tag
    @param {Tag} tag
    @param {Record<string, any>} attributes
    @param {...(Node | string)} children */
export function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** Return the drawing context of a canvas.
    @param {HTMLCanvasElement} canvas
    @param {CanvasRenderingContext2DSettings} [settings] */
export function brush(canvas, settings) {
  const paper = canvas.getContext("2d", settings);
  if (!paper) throw new Error("this browser cannot draw on a canvas");
  return paper;
}

/** Return a user's text for use inside a sentence, isolated from its text direction. */
function quoted(text) {
  return make("bdi", {}, text);
}

function colour(node, name) {
  return getComputedStyle(node).getPropertyValue(name);
}

/** Return a labelled select; `options` are pairs [value, text]. */
function choice(label, options, chosen, changed) {
  const select = make("select", { "aria-label": label });
  for (const [value, text] of options) select.append(make("option", { value, dir: "auto" }, text));
  select.value = chosen;
  select.disabled = options.length < 2;
  select.addEventListener("change", () => changed(select.value));
  return make("label", { class: "choice" }, make("span", {}, label), select);
}

function tick(label, ticked, changed) {
  const box = make("input", { type: "checkbox" });
  box.checked = ticked;
  box.addEventListener("change", () => changed(box.checked));
  return make("label", { class: "tick" }, box, label);
}

/** Return a button that runs `act` and shows its result, or its error, beside it. */
export function deed(label, act) {
  const status = make("span", { role: "status" });
  const button = make("button", { type: "button" }, label);
  button.addEventListener("click", async () => {
    status.textContent = await Promise.resolve()
      .then(act)
      .catch((error) => error.message);
    setTimeout(() => (status.textContent = ""), STATUS_TIME);
  });
  return make("span", { class: "deed" }, button, status);
}

/** Copy a text to the clipboard. */
export async function copied(text) {
  if (navigator.clipboard) await navigator.clipboard.writeText(text);
  else copiedBySelection(text); // pages from other machines without TLS have no clipboard
  return "copied";
}

function copiedBySelection(text) {
  const field = make("textarea", { "aria-hidden": "true", class: "unseen" });
  const focused = document.activeElement;
  field.value = text;
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  if (focused instanceof HTMLElement) focused.focus();
  if (!done) throw new Error("this browser does not allow pages to copy text");
}

/** Download a text as a file. */
export function saved(text, name, type) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), STATUS_TIME);
  return "saved";
}

/** Return the cell that an arrow key moves to on a grid, or null for other keys. */
function moved(key, [row, column], [rows, columns]) {
  const places = {
    ArrowUp: [row - 1, column],
    ArrowDown: [row + 1, column],
    ArrowLeft: [row, column - 1],
    ArrowRight: [row, column + 1],
    Home: [row, 0],
    End: [row, columns - 1],
  };
  if (!(key in places)) return null;
  const [down, across] = places[key];
  return [clamped(down, 0, rows - 1), clamped(across, 0, columns - 1)];
}

function clamped(number, least, most) {
  return Math.max(least, Math.min(most, number));
}

/** A text whose words can be selected with pointer and arrow keys, and shaded. */
class TextView {
  constructor(units, name, pointer) {
    this.pointer = pointer;
    this.buttons = units.labels.map((label) => make("button", { type: "button" }, label));
    for (const button of this.buttons) button.tabIndex = -1;
    if (this.buttons.length) this.buttons[0].tabIndex = 0;
    this.element = make(
      "div",
      { class: "text", dir: "auto", role: "toolbar", "aria-label": name },
      ...this.buttons,
    );
    this.listen();
  }

  listen() {
    const on = (kind, react) =>
      this.element.addEventListener(kind, (event) => {
        const index = this.buttons.indexOf(event.target);
        if (index >= 0) react(index, event);
      });
    on("pointerover", (index) => this.pointer.over(index));
    on("focusin", (index) => this.enter(index));
    on("focusout", () => this.pointer.leave());
    on("click", (index) => this.pointer.pin(index));
    on("keydown", (index, event) => this.walk(index, event));
    this.element.addEventListener("pointerleave", () => this.pointer.leave());
  }

  enter(index) {
    for (const button of this.buttons) button.tabIndex = -1;
    this.buttons[index].tabIndex = 0;
    this.pointer.over(index);
  }

  walk(index, event) {
    const onward = getComputedStyle(this.element).direction === "rtl" ? -1 : 1;
    const places = {
      ArrowRight: () => index + onward,
      ArrowLeft: () => index - onward,
      ArrowDown: () => this.inNextLine(index, 1),
      ArrowUp: () => this.inNextLine(index, -1),
      Home: () => 0,
      End: () => this.buttons.length - 1,
    };
    if (!(event.key in places)) return;
    event.preventDefault();
    this.buttons[places[event.key]()]?.focus();
  }

  /** Return the nearest button in the line below (1) or above (-1). */
  inNextLine(index, way) {
    const boxes = this.buttons.map((button) => button.getBoundingClientRect());
    const middle = (box) => (box.left + box.right) / 2;
    const lines = boxes.map((box) => box.top).filter((top) => way * (top - boxes[index].top) > 1);
    const line = way > 0 ? Math.min(...lines) : Math.max(...lines);
    const away = (i) => Math.abs(middle(boxes[i]) - middle(boxes[index]));
    const there = [...boxes.keys()].filter((i) => Math.abs(boxes[i].top - line) <= 1);
    return there.sort((one, other) => away(one) - away(other))[0];
  }

  /** Shade the words by these values, or remove the shading. */
  shade(values) {
    const most = values ? greatest(values) : 0;
    this.buttons.forEach((button, i) => {
      button.style.setProperty("--weight", String(most ? values[i] / most : 0));
    });
  }

  mark(index, pinned) {
    this.buttons.forEach((button, i) => {
      button.classList.toggle("marked", i === index);
      button.setAttribute("aria-pressed", String(pinned && i === index));
    });
  }
}

/** An image whose cells can be selected with pointer and arrow keys, and covered by colours. */
class ImageView {
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
    this.paper = brush(this.canvas, { willReadFrequently: true });
    this.plain = this.place(bitmap);
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

  place(bitmap) {
    const slender = clamped(bitmap.height / bitmap.width, 1 / MOST_SLENDER, MOST_SLENDER);
    this.canvas.width = Math.round(IMAGE_PIXELS / Math.max(slender, 1));
    this.canvas.height = Math.round(IMAGE_PIXELS * Math.min(slender, 1));
    const { width, height } = this.canvas;
    this.paper.imageSmoothingEnabled = bitmap.width > width; // pixels of small images stay visible
    this.paper.drawImage(bitmap, 0, 0, width, height);
    return this.paper.getImageData(0, 0, width, height);
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
    const most = values?.length ? greatest(values) : 0;
    this.button?.style.setProperty("--weight", String(most ? values[0] / most : 0));
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

/** Return the image in grey, so that its colours are not taken for weights, under theirs. */
function coveredBy(plain, cells, grid) {
  const covered = new ImageData(plain.width, plain.height);
  const [from, into] = [plain.data, covered.data];
  const most = greatest(cells) || 1;
  const [across, down] = [between(plain.width, grid[1]), between(plain.height, grid[0])];
  for (let y = 0, at = 0; y < plain.height; y++) {
    for (let x = 0; x < plain.width; x++, at += 4) {
      const heat = softened(cells, grid[1], across[x], down[y]) / most;
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

/** Return this number of colours, interpolated evenly between the given ones. */
function blended(colours, number) {
  return between(number, colours.length).map(([first, second, fraction]) =>
    colours[first].map((part, i) => part * (1 - fraction) + colours[second][i] * fraction),
  );
}

/** Return for each pixel the two cells whose centres it lies between, and the weight of the second.
    @returns {[number, number, number][]} */
function between(pixels, cells) {
  return Array.from({ length: pixels }, (_, pixel) => {
    const place = clamped(((pixel + 0.5) / pixels) * cells - 0.5, 0, cells - 1);
    const first = Math.floor(place);
    return [first, Math.min(first + 1, cells - 1), place - first];
  });
}

function softened(cells, columns, [left, right, toRight], [top, bottom, down]) {
  const [above, below] = [top * columns, bottom * columns];
  const upper = cells[above + left] * (1 - toRight) + cells[above + right] * toRight;
  const lower = cells[below + left] * (1 - toRight) + cells[below + right] * toRight;
  return upper * (1 - down) + lower * down;
}

/** A map of all weights, which shows the number under the pointer. */
class MapView {
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
    this.most = make("span");
    const scale = make("span", { class: "scale" }, "0", make("i"), this.most);
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
      const cell = moved(event.key, this.cell ?? [0, 0], [this.matrix.rows, this.matrix.columns]);
      if (!cell) return;
      event.preventDefault();
      this.enter(cell);
    });
  }

  set(matrix) {
    this.matrix = matrix;
    this.scale = greatest(matrix.values);
    this.most.textContent = shown(this.scale);
    this.tell();
    this.draw();
  }

  enter(cell) {
    if (!cell || !this.matrix.values.length) return;
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
    const strength = 255 / (this.scale || 1);
    values.forEach((weight, i) => {
      pixels.data[4 * i + 3] = weight * strength;
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
      drawn("title", {}, `Attention weights from 0 to ${shown(this.scale)}`),
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
      const strength = (weight / (this.scale || 1)).toFixed(3);
      if (Number(strength) === 0) return;
      const x = left + (i % this.matrix.columns) * cell;
      const y = top + Math.floor(i / this.matrix.columns) * cell;
      const title = drawn("title", {}, shown(weight));
      cells.append(
        drawn("rect", { x, y, width: cell, height: cell, "fill-opacity": strength }, title),
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

/** Return an SVG element. */
function drawn(tag, attributes, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** Return a text without characters that XML does not allow. */
function written(text) {
  return text.replace(/[\p{Cs}\ufffe\uffff]/gu, "\ufffd");
}

/** Return as much of a label as there is room for. */
function fitting(paper, label) {
  let text = label;
  for (let longest = 24; paper.measureText(text).width > MAP.label.width; longest--) {
    text = shortened(label, longest);
  }
  return text;
}

/** What the selected unit attends to most, or what attends to it: a sentence and a list. */
class StrongestView {
  constructor() {
    this.summary = make("p", { class: "said", role: "status" });
    this.list = make("ol");
    this.element = make("div", { class: "strongest" }, this.summary, this.list);
  }

  show(selection, selected, values, labels) {
    const order = [...values.keys()].sort((one, other) => values[other] - values[one]);
    const best = order.filter((i) => values[i] > 0).slice(0, STRONGEST);
    this.element.classList.toggle("seen", selection?.side === "read");
    this.summarise(selection, selected, best.length ? quoted(labels[best[0]]) : null);
    this.list.replaceChildren(...best.map((i) => this.item(labels[i], values[i], values[best[0]])));
  }

  summarise(selection, selected, strongest) {
    const name = selection && quoted(selected);
    let sentence = ["On average, ", strongest, " gets most attention"];
    if (selection?.side === "wrote") {
      sentence = strongest ? [name, " attends most to ", strongest] : [name, " attends to nothing"];
    } else if (selection) {
      const from = strongest ? ["gets most attention from ", strongest] : ["gets no attention"];
      sentence = [name, " ", ...from];
    } else if (!strongest) sentence = ["All weights are 0"];
    this.summary.replaceChildren(...sentence);
  }

  item(label, value, most) {
    const bar = make("i", { "aria-hidden": "true" });
    bar.style.setProperty("--weight", String(value / most));
    return make("li", {}, quoted(label), bar, make("span", {}, shown(value)));
  }
}

/** The attention of one model: choices of layer and head, both sides, a list and the map. */
class Panel {
  /** @param {Model} model */
  constructor(model, settings, pointer, bitmaps) {
    this.model = model;
    this.settings = settings;
    this.pointer = pointer;
    this.turn = 0;
    const sides = { read: model.read, wrote: model.wrote ?? model.read };
    this.units = {
      read: unitsOf(sides.read, settings.words),
      wrote: unitsOf(sides.wrote, settings.words),
    };
    this.layers = new Layers(model.layers, tokensOf(sides.wrote), tokensOf(sides.read));
    this.empty = !model.layers.length || !tokensOf(sides.read) || !tokensOf(sides.wrote);
    const names = model.wrote ? ["Input", "Output"] : ["Attended to", "Attending"];
    this.read = this.sideView("read", names[0], bitmaps.read);
    this.wrote = this.sideView("wrote", names[1], bitmaps.wrote);
    this.strongest = new StrongestView();
    this.map = new MapView(this.units.wrote, this.units.read, this.pointerOf("wrote"));
    this.controls = make("div", { class: "controls" });
    this.element = this.laidOut(names);
  }

  pointerOf(side) {
    const at = (index) => ({ side, index, labels: this.units[side].labels });
    return {
      over: (index) => this.pointer.over(at(index)),
      pin: (index) => this.pointer.pin(at(index)),
      leave: () => this.pointer.over(null),
    };
  }

  sideView(side, name, bitmap) {
    const [units, pointer] = [this.units[side], this.pointerOf(side)];
    if (!bitmap) return new TextView(units, name, pointer);
    const view = new ImageView(units, name, pointer, bitmap);
    view.cover(this.settings.cover);
    return view;
  }

  laidOut(names) {
    const block = (name, view) =>
      make("div", { class: "side" }, make("h3", {}, name), view.element);
    const sides = [block(names[0], this.read), block(names[1], this.wrote)];
    const panel = make("section", { class: "panel", "aria-label": this.model.name || "Attention" });
    if (this.model.name) panel.append(make("h2", { dir: "auto" }, visible(this.model.name)));
    if (this.empty) {
      const why = "the model has no attention layers, or the input or output is empty.";
      panel.append(make("p", { class: "said" }, `No attention to show: ${why}`), ...sides);
      return panel;
    }
    const images = this.read instanceof ImageView && this.wrote instanceof ImageView;
    const both = make("div", { class: images ? "images" : "texts" }, ...sides);
    const looking = make("div", { class: "looking" }, both, this.strongest.element);
    panel.append(this.controls, looking, make("h3", {}, "Attention map"), this.map.element);
    return panel;
  }

  /** Start with this choice of layer and head, as far as they exist here. */
  async begin({ layer, head }) {
    if (this.empty) return;
    const options = this.layerOptions();
    const first = options.some(([value]) => value === layer) ? layer : this.firstLayer();
    const select = choice("Layer", options, first, (value) =>
      this.change({ layer: ["mean", "rollout"].includes(value) ? value : Number(value) }),
    );
    this.controls.append(select, make("span"));
    await this.choose({ layer: first, head });
  }

  async choose({ layer, head }) {
    const heads = this.layers.heads(layer);
    const kept = head !== null && head < heads.least ? head : null;
    if (layer !== this.chosen?.layer) {
      this.controls.lastChild?.replaceWith(this.headChoice(heads, kept));
    }
    this.chosen = { layer, head: kept };
    const mine = ++this.turn;
    const matrix = pooled(await this.layers.of(this.chosen), this.units.wrote, this.units.read);
    if (mine !== this.turn) return; // another choice was made meanwhile
    this.matrix = matrix;
    this.map.set(matrix);
  }

  async change(part) {
    await this.choose({ ...this.chosen, ...part });
    this.pointer.paint();
  }

  layerOptions() {
    const { layers } = this.model;
    const options = layers.map(({ name }, i) => [i, name ? visible(name) : "attention"]);
    const all = counted(layers, "layer");
    if (!this.model.wrote) options.unshift(["rollout", `rollout through ${all}`]);
    if (layers.length > 1) options.unshift(["mean", `mean of ${all}`]);
    return options;
  }

  firstLayer() {
    if (this.model.read.kind === "image" && !this.model.wrote) return "rollout";
    return this.model.layers.length > 1 ? "mean" : 0;
  }

  headChoice({ least, most }, head) {
    const options = Array.from({ length: least }, (_, number) => [number, `head ${number}`]);
    const all = least === most ? most : "all";
    if (most > 1) options.unshift(["mean", `mean of ${all} heads`]);
    return choice("Head", options, head ?? options[0][0], (value) =>
      this.change({ head: value === "mean" ? null : Number(value) }),
    );
  }

  /** Show a selection; one from a text with other words is ignored. */
  paint(selection, pinned) {
    if (!this.matrix) return;
    const { matrix, units } = this;
    const here = selection && sameItems(selection.labels, units[selection.side].labels);
    const mine = here ? selection : null;
    const bySide = (side) => (mine?.side === side ? mine.index : null);
    for (const side of ["read", "wrote"]) this[side].mark(bySide(side), pinned);
    const backwards = mine?.side === "read";
    const forwards = mine ? matrix.row(mine.index) : matrix.average();
    const values = backwards ? matrix.column(mine.index) : forwards;
    this.read.shade(backwards ? null : values);
    this.wrote.shade(backwards ? values : null);
    this.element.classList.toggle("backwards", backwards);
    const labels = units[backwards ? "wrote" : "read"].labels;
    this.strongest.show(mine, mine && units[mine.side].labels[mine.index], values, labels);
    this.map.mark(mine);
  }

  cover(covered) {
    for (const view of [this.read, this.wrote]) if (view instanceof ImageView) view.cover(covered);
  }
}

/** @param {Text | Picture} side */
function tokensOf(side) {
  if (side.kind === "text") return side.tokens.length;
  return side.grid[0] * side.grid[1] + Number(side.class_token);
}

function sameItems(some, others) {
  return some.length === others.length && some.every((one, i) => one === others[i]);
}

function counted(items, name) {
  return `${items.length} ${name}${items.length === 1 ? "" : "s"}`;
}

/** All inputs: the choice among them, the settings of all panels, and the selection. */
class Viewer {
  /** @param {HTMLElement} element
      @param {Model[][]} inputs
      @param {any} [before] the viewer that this one replaces */
  constructor(element, inputs, before) {
    const first = inputs[0]?.[0];
    const caption = first?.read.kind === "image" && first.wrote !== null;
    this.element = element;
    this.inputs = inputs;
    this.panels = [];
    this.hovered = null;
    this.pinned = null;
    this.changed = { ...before?.changed }; // settings that the reader chose
    this.settings = { words: caption, cover: true, ...this.changed };
    const again = before && sameItems(layersOf(before.inputs), layersOf(inputs));
    this.chosen = again ? before.choices() : []; // layer and head of each panel
    this.row = make("div", { class: "panels" });
    this.root = make("div", {}, this.toolbar(), this.row, this.note());
    this.listen();
  }

  /** Whether this is the newest viewer of its element. */
  get isLast() {
    return viewers.get(this.element) === this;
  }

  choices() {
    return this.panels.length ? this.panels.map(({ chosen }) => chosen) : this.chosen;
  }

  listen() {
    this.root.addEventListener("keydown", (event) => event.key === "Escape" && this.unpin());
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const repaint = () => {
      if (this.root.isConnected) this.paint();
      else dark.removeEventListener("change", repaint);
    };
    dark.addEventListener("change", repaint);
  }

  toolbar() {
    const bar = make("div", { class: "controls" });
    if (this.inputs.length > 1) {
      const titles = this.inputs.map(([model], i) => [i, `${i + 1}. ${summary(model)}`]);
      bar.append(choice("Example", titles, 0, (value) => this.open(Number(value))));
    }
    const sides = this.inputs.flat().flatMap(({ read, wrote }) => [read, wrote ?? read]);
    if (sides.some(({ kind }) => kind === "text")) {
      const kinds = [
        ["tokens", "tokens"],
        ["words", "words"],
      ];
      const chosen = this.settings.words ? "words" : "tokens";
      bar.append(choice("Show", kinds, chosen, (value) => this.set({ words: value === "words" })));
    }
    if (sides.some(({ kind }) => kind === "image")) {
      const { cover } = this.settings;
      bar.append(tick("show attention over the image", cover, (covered) => this.cover(covered)));
    }
    return bar;
  }

  note() {
    const layers = this.inputs.flat().flatMap((model) => model.layers);
    const packed =
      "Weights are stored in 8 bits: the error is at most 1/510 of the largest weight in the row " +
      "or 0.00013, whichever is larger.";
    return make(
      "p",
      { class: "note" },
      "Point at a word, or move through the words with the arrow keys, to see what it attends to ",
      "and what attends to it. Click to pin a word, press Escape to unpin it. Shades go from 0 to ",
      "the largest weight shown. ",
      layers.some(({ weights }) => isPacked(weights)) ? packed : "Weights have five decimals.",
    );
  }

  set(changed) {
    Object.assign(this.changed, changed);
    Object.assign(this.settings, changed);
    return this.open(this.opened);
  }

  cover(covered) {
    this.changed.cover = this.settings.cover = covered;
    for (const panel of this.panels) panel.cover(covered);
  }

  /** Show the input with this number, keeping the layers and heads chosen before. */
  async open(number) {
    this.opened = number;
    const before = this.choices();
    const models = this.inputs[number] ?? [];
    const panels = await Promise.all(models.map((model) => this.panel(model)));
    if (this.opened !== number || !this.isLast) return; // another was opened meanwhile
    this.panels = panels;
    this.hovered = null;
    this.pinned = this.firstSelection();
    this.row.replaceChildren(...panels.map(({ element }) => element));
    if (!this.root.isConnected) this.element.replaceChildren(this.root);
    await Promise.all(panels.map((one, i) => one.begin(before[i] ?? { layer: null, head: null })));
    this.paint();
  }

  async panel(model) {
    const wrote = model.wrote ?? model.read;
    const bitmaps = { read: await bitmapOf(model.read), wrote: await bitmapOf(wrote) };
    return new Panel(model, this.settings, this, bitmaps);
  }

  /** Select the class token of an image, from which its answer is read. */
  firstSelection() {
    const wrote = this.panels[0]?.units.wrote;
    return wrote?.first ? { side: "wrote", index: 0, labels: wrote.labels } : null;
  }

  over(selection) {
    this.hovered = selection;
    this.paint();
  }

  pin(selection) {
    const same = this.pinned?.side === selection.side && this.pinned.index === selection.index;
    this.pinned = same ? null : selection;
    this.paint();
  }

  unpin() {
    this.pinned = null;
    this.over(null);
  }

  paint() {
    const selection = this.hovered ?? this.pinned;
    const same = (one, other) => one?.side === other?.side && one?.index === other?.index;
    const pinned = this.pinned !== null && same(selection, this.pinned);
    for (const panel of this.panels) panel.paint(selection, pinned);
  }
}

/** Return the names of all layers of the first input. */
function layersOf(inputs) {
  return (inputs[0] ?? []).flatMap(({ layers }) => ["", ...layers.map(({ name }) => name)]);
}

/** @param {Text | Picture} side */
async function bitmapOf(side) {
  return side.kind === "image" ? createImageBitmap(new Blob([bytesOf(side.image)])) : null;
}
