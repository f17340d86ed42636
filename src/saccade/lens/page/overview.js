import { brush, colour, make, moved, visible } from "./dom.js";
import { strength } from "./numbers.js";

const PIXELS = 40; // of a thumbnail

/** Small maps of all heads of all layers, to pick one from: pick({ layer, head }). */
export class Overview {
  /** @param {import("./numbers.js").Layers} layers
      @param {(choice: { layer: number, head: number }) => void} pick */
  constructor(layers, pick) {
    this.layers = layers;
    this.pick = pick;
    this.grid = layers.layers.map(({ name, heads }, layer) =>
      Array.from({ length: heads }, (_, head) => this.thumbnail(name, layer, head)),
    );
    const rows = this.grid.map((buttons, layer) => {
      const name = make(
        "span",
        { class: "quiet", dir: "auto" },
        visible(layers.layers[layer].name),
      );
      return make("div", { class: "heads" }, name, make("div", {}, ...buttons));
    });
    this.element = make(
      "div",
      { class: "overview", role: "group", "aria-label": "Heads" },
      ...rows,
    );
    /** @type {[number, number]} */
    this.place = [0, 0];
    this.enter(0, 0);
    this.element.addEventListener("keydown", (event) => this.walk(event));
  }

  thumbnail(name, layer, head) {
    const canvas = make("canvas", { width: PIXELS, height: PIXELS });
    const label = `${visible(name)}, head ${head}`;
    const button = make("button", { type: "button", "aria-label": label, title: label }, canvas);
    button.addEventListener("click", () => {
      this.enter(layer, head);
      this.pick({ layer, head });
    });
    return button;
  }

  enter(layer, head) {
    this.place = [layer, head];
    for (const button of this.grid.flat()) button.tabIndex = -1;
    this.grid[layer][head].tabIndex = 0;
  }

  walk(event) {
    const [layer] = this.place;
    const next = moved(event.key, this.place, [this.grid.length, this.grid[layer].length]);
    if (!next) return;
    event.preventDefault();
    const head = Math.min(next[1], this.grid[next[0]].length - 1);
    this.enter(next[0], head);
    this.grid[next[0]][head].focus();
  }

  /** Mark the thumbnails that the panel shows. */
  mark({ layer, head }) {
    this.grid.forEach((buttons, i) => {
      buttons.forEach((button, j) => {
        const whole = typeof layer !== "number" || i === layer;
        button.setAttribute("aria-pressed", String(whole && (head === null || j === head)));
      });
    });
  }

  /** Draw all thumbnails, layer by layer, so that the page stays usable meanwhile. */
  async draw() {
    for (const layer of this.grid.keys()) {
      const unpacked = await this.layers.unpack(layer);
      const ink = colour(this.element, "--looks");
      this.grid[layer].forEach((button, head) => {
        this.paint(/** @type {HTMLCanvasElement} */ (button.firstChild), unpacked, head, ink);
      });
      await new Promise((resolve) => setTimeout(resolve));
    }
  }

  /** Paint a map of the head: each pixel has the largest weight of the cells below it. */
  paint(canvas, { steps, levels }, head, ink) {
    const { rows, columns } = this.layers;
    const [width, height] = [Math.min(PIXELS, columns), Math.min(PIXELS, rows)];
    canvas.width = width;
    canvas.height = height;
    const pixels = new ImageData(width, height);
    const largest = new Float32Array(width * height);
    for (let row = 0; row < rows; row++) {
      const step = steps[head * rows + row];
      const from = (head * rows + row) * columns;
      const into = Math.floor((row * height) / rows) * width;
      for (let column = 0; column < columns; column++) {
        const at = into + Math.floor((column * width) / columns);
        const weight = levels[from + column] * step;
        if (weight > largest[at]) largest[at] = weight;
      }
    }
    largest.forEach((weight, at) => {
      pixels.data[4 * at + 3] = 255 * strength(weight, columns);
    });
    const paper = brush(canvas);
    paper.putImageData(pixels, 0, 0);
    paper.globalCompositeOperation = "source-in";
    paper.fillStyle = ink;
    paper.fillRect(0, 0, width, height);
  }
}
