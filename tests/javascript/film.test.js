import assert from "node:assert/strict";
import { test } from "node:test";
import { showFilm } from "../../src/saccade/lens/page/film.js";

const side = (words) => ({ kind: "text", tokens: words, words, word_of: [...words.keys()] });
const packed = (levels) => [1, Buffer.from(levels).toString("base64")];
const FILM = {
  inputs: [
    { read: side(["un", "chat"]), wrote: side(["a", "cat"]), right: "a <cat>" },
    { read: side(["so", "good"]), wrote: null, right: "good" },
  ],
  frames: [
    {
      step: 100,
      loss: 2,
      weights: [packed([128, 128, 128, 128]), packed([128, 128])],
      answers: ["", "bad"],
    },
    {
      step: 200,
      loss: 1,
      weights: [packed([255, 0, 0, 255]), packed([0, 255])],
      answers: ["a", "good"],
    },
  ],
};

test("a film begins at its end, and shows every validation on its slider", async () => {
  const element = document.createElement("div");
  await showFilm(element, FILM);
  const status = element.querySelector("output");
  const slider = element.querySelector("input");
  const [map, text] = element.querySelectorAll("figure");
  const cells = () =>
    [...map.querySelectorAll("rect")].map((cell) => Number(cell.getAttribute("fill-opacity")));
  assert.equal(status.textContent, "Step 200, loss 1.00 (validation 2 of 2)");
  assert.deepEqual(cells(), [1, 0, 0, 1]);
  assert.match(map.textContent, /Answer: a · right: a <cat>$/);
  assert.equal(slider.getAttribute("aria-valuetext"), status.textContent);
  slider.value = "0";
  slider.valueAsNumber = 0; // which a browser derives from the value
  slider.dispatchEvent(new Event("input"));
  assert.equal(status.textContent, "Step 100, loss 2.00 (validation 1 of 2)");
  assert.ok(cells().every((opacity) => Math.abs(opacity - 0.12) < 0.01));
  assert.match(map.textContent, /Answer: \(empty\)/);
  assert.match(text.textContent, /Answer: bad/);
});
