import assert from "node:assert/strict";
import { test } from "node:test";
import { deflateSync } from "node:zlib";
import { between, blended, Layers, Matrix, strength } from "../../src/saccade/lens/page/numbers.js";

const near = (some, others) =>
  others.forEach((one, i) => {
    assert.ok(Math.abs(some[i] - one) < 1e-6, `${some} is not ${others}`);
  });

test("a matrix has rows, columns, averages and products", () => {
  const one = new Matrix(2, 3, Float32Array.of(1, 2, 3, 4, 5, 6));
  assert.equal(one.at(1, 2), 6);
  assert.deepEqual([...one.row(1)], [4, 5, 6]);
  assert.deepEqual([...one.column(1)], [2, 5]);
  assert.deepEqual([...one.average()], [2.5, 3.5, 4.5]);
  const other = new Matrix(3, 1, Float32Array.of(1, 0, 2));
  assert.deepEqual([...one.times(other).values], [7, 16]);
  assert.deepEqual([...one.times(Matrix.identity(3)).values], [...one.values]);
});

test("shades are relative to uniform attention", () => {
  assert.equal(strength(0, 8), 0);
  near([strength(1 / 8, 8), strength(1, 8)], [0.12, 1]);
  near([strength(Math.sqrt(8) / 8, 8)], [0.56]); // half way on a logarithmic scale
  assert.ok(strength(0.1, 8) < strength(1 / 8, 8));
  assert.equal(strength(0.3, 1), 0.3);
});

/** Pack weights as `packed` in view.py does: the steps of all rows, then the levels. */
function packed(steps, levels) {
  const bytes = new Uint8Array(Float32Array.from(steps).buffer);
  return deflateSync(Buffer.concat([bytes, Uint8Array.from(levels)])).toString("base64");
}

test("layers unpack, average over heads and layers, and roll out", async () => {
  const first = { name: "a", heads: 2, weights: packed([0.5, 1, 1, 1], [2, 0, 0, 1, 0, 1, 1, 0]) };
  const second = { name: "b", heads: 1, weights: Float32Array.of(0.5, 0.5, 0, 1) };
  const layers = new Layers([first, second], 2, 2);
  near((await layers.of({ layer: 0, head: 0 })).values, [1, 0, 0, 1]);
  near((await layers.of({ layer: 0, head: 1 })).values, [0, 1, 1, 0]);
  near((await layers.of({ layer: 0, head: null })).values, [0.5, 0.5, 0.5, 0.5]);
  near((await layers.of({ layer: "mean", head: null })).values, [0.5, 0.5, 0.25, 0.75]);
  // half of each token bypasses a layer: rows of (A + I) / 2, the last layer first
  near((await layers.of({ layer: "rollout", head: 0 })).values, [0.75, 0.25, 0, 1]);
  assert.deepEqual(layers.heads("mean"), { least: 1, most: 2 });
});

test("colours and pixels are interpolated between the nearest two", () => {
  assert.deepEqual(
    blended(
      [
        [0, 0, 0],
        [100, 50, 0],
      ],
      2,
    ),
    [
      [0, 0, 0],
      [100, 50, 0],
    ],
  );
  assert.deepEqual(between(4, 2), [
    [0, 1, 0],
    [0, 1, 0.25],
    [0, 1, 0.75],
    [1, 1, 0],
  ]);
});
