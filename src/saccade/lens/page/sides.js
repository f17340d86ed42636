/* Sides of a record: what attends, what is attended to, and the units of each. */

import { shortened, visible } from "./dom.js";
import { bytesOf, Matrix } from "./numbers.js";

/** @typedef {{ kind: "text", tokens: string[], words: string[], word_of: (number | null)[] }} Text */
/** @typedef {{ kind: "image", grid: [number, number], class_token: boolean, image: string, steps?: boolean }} Picture */
/** @typedef {{ name: string, heads: number, weights: string | Float32Array }} Layer */
/** @typedef {{ name: string, read: Text | Picture, wrote: Text | Picture | null, layers: Layer[], align?: { layer: string | null, head: number | null } | null, belief?: string, scores?: import("./why.js").Scored | null }} Model */
/** @typedef {{ side: any, labels: string[], of: (number | null)[], first?: number }} Units */

/** Convert a saved record to an entry of `inputs`, with the name of its model.
    @param {string} name
    @param {any} record
    @returns {Model} */
export function fromRecord(name, record) {
  const read = sideOf(record.read);
  const wrote = record.wrote.kind === "read" ? read : sideOf(record.wrote);
  const same = JSON.stringify(wrote) === JSON.stringify(read);
  return {
    name,
    read,
    wrote: same && (record.reads_itself ?? true) ? null : wrote,
    align: record.align_by ?? null,
    belief: record.belief ?? "",
    layers: Object.entries(record.weights).map(([layer, heads]) => ({
      name: layer,
      heads: heads.length,
      weights: Float32Array.from(heads.flat(2)),
    })),
  };
}

/** @returns {Text | Picture} */
function sideOf({ png, ...side }) {
  return /** @type {any} */ (side.kind === "image" ? { ...side, image: png } : side);
}

/** Return the units of a side that can be selected, its words or its tokens, and the unit of each
    token. The words of an image are its cells, its tokens the class token and the cells.
    @param {Text | Picture} side
    @param {boolean} words
    @returns {Units} */
export function unitsOf(side, words) {
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
export function pooled(matrix, wrote, read) {
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

/** Return a line that identifies an input.
    @param {Model} model */
export function summary({ read, wrote }) {
  const [from, to] = [read, wrote].map((side) => {
    if (side === null) return "";
    if (side.kind === "image") return side.steps ? "vectors" : "image";
    return shortened(side.words.map(visible).join(" "), 40);
  });
  return to ? `${from} → ${to}` : from;
}

/** @param {Text | Picture} side */
export function tokensOf(side) {
  if (side.kind === "text") return side.tokens.length;
  return side.grid[0] * side.grid[1] + Number(side.class_token);
}

/** @param {Text | Picture} side */
export async function bitmapOf(side) {
  return side.kind === "image" ? createImageBitmap(new Blob([bytesOf(side.image)])) : null;
}
