/* Numbers of the view: matrices of weights, packed layers, interpolation. */

/** A matrix of weights: one row per query, one column per key. */
export class Matrix {
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

const UNIFORM = 0.12; // strength of a weight in uniform attention

/** Return how strongly to shade a weight, from 0 to 1, relative to uniform attention over so many
    keys, so that flat attention looks flat: the shade grows with the logarithm of how many times the
    weight exceeds 1 / keys, and reaches 1 where one key has all attention.
    @param {number} weight
    @param {number} keys */
export function strength(weight, keys) {
  const times = weight * keys;
  if (times <= 1 || keys < 2) return keys < 2 ? Math.min(weight, 1) : UNIFORM * Math.max(times, 0);
  return Math.min(1, UNIFORM + ((1 - UNIFORM) * Math.log(times)) / Math.log(keys));
}

export function greatest(values) {
  return values.reduce((a, b) => Math.max(a, b), 0);
}

export function shown(number) {
  return number.toFixed(3);
}

export async function inflated(base64) {
  const stream = new Blob([bytesOf(base64)]).stream();
  return new Response(stream.pipeThrough(new DecompressionStream("deflate"))).arrayBuffer();
}

export function bytesOf(base64) {
  const letters = atob(base64);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = letters.charCodeAt(i);
  return bytes;
}

/** Return whether weights are packed, as `packed` in view.py packs them. */
export function isPacked(weights) {
  return typeof weights === "string";
}

/** The weights of one model; each layer is unpacked when it is first needed. */
export class Layers {
  /** @param {import("./sides.js").Layer[]} layers
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

export function clamped(number, least, most) {
  return Math.max(least, Math.min(most, number));
}

/** Return this number of colours, interpolated evenly between the given ones. */
export function blended(colours, number) {
  return between(number, colours.length).map(([first, second, fraction]) =>
    colours[first].map((part, i) => part * (1 - fraction) + colours[second][i] * fraction),
  );
}

/** Return for each pixel the two cells whose centres it lies between, and the weight of the second.
    @returns {[number, number, number][]} */
export function between(pixels, cells) {
  return Array.from({ length: pixels }, (_, pixel) => {
    const place = clamped(((pixel + 0.5) / pixels) * cells - 0.5, 0, cells - 1);
    const first = Math.floor(place);
    return [first, Math.min(first + 1, cells - 1), place - first];
  });
}
