import assert from "node:assert/strict";
import { test } from "node:test";
import { Matrix } from "../../src/saccade/lens/page/numbers.js";
import {
  fromRecord,
  pooled,
  summary,
  tokensOf,
  unitsOf,
} from "../../src/saccade/lens/page/sides.js";

const READ = {
  kind: "text",
  tokens: ["▁un", "▁chat", "on", "</s>"],
  words: ["un", "chaton"],
  word_of: [0, 1, 1, null],
};
const WROTE = {
  kind: "text",
  tokens: ["▁a", "▁cat"],
  words: ["a", "cat"],
  word_of: [0, 1],
};
const IMAGE = { kind: "image", grid: [1, 2], class_token: true, image: "" };

test("a side is read by words or by tokens", () => {
  assert.deepEqual(unitsOf(READ, true).labels, ["un", "chaton"]);
  assert.deepEqual(unitsOf(READ, true).of, [0, 1, 1, null]);
  assert.deepEqual(unitsOf(READ, false).labels, READ.tokens);
  assert.deepEqual(unitsOf(IMAGE, true), {
    side: IMAGE,
    labels: ["cell 0,0", "cell 0,1"],
    of: [null, 0, 1],
    first: 0,
  });
  assert.deepEqual(unitsOf(IMAGE, false).labels[0], "class token");
  assert.deepEqual(unitsOf({ ...IMAGE, class_token: false, steps: true }, true).labels, [
    "step 0",
    "step 1",
  ]);
  assert.equal(tokensOf(READ), 4);
  assert.equal(tokensOf(IMAGE), 3);
});

test("weights of words are summed over the tokens of a key and averaged over those of a query", () => {
  const tokens = new Matrix(
    4,
    4,
    Float32Array.from({ length: 16 }, (_, i) => i),
  );
  const words = pooled(tokens, unitsOf(READ, true), unitsOf(READ, true));
  assert.deepEqual([...words.values], [0, 3, (4 + 8) / 2, (5 + 6 + 9 + 10) / 2]);
});

test("a saved record becomes an input of the view, with its alignment and its trust", () => {
  const record = {
    read: READ,
    wrote: WROTE,
    weights: { l: [Array(2).fill([0.25, 0.25, 0.25, 0.25])] },
    align_by: { layer: "l", head: 0 },
    reads_itself: false,
    belief: "a sentence",
  };
  const model = fromRecord("m", record);
  assert.equal(model.belief, "a sentence");
  assert.deepEqual(model.align, { layer: "l", head: 0 });
  assert.equal(model.layers[0].heads, 1);
  assert.deepEqual([...model.layers[0].weights], Array(8).fill(0.25));
  assert.equal(summary(model), "un chaton → a cat");
  const older = fromRecord("", { read: READ, wrote: { kind: "read" }, weights: {} });
  assert.equal(older.wrote, null);
  assert.equal(older.belief, "");
  const same = fromRecord("", { read: READ, wrote: { ...READ }, weights: {}, reads_itself: false });
  assert.notEqual(same.wrote, null); // a translation that repeats its source
});
