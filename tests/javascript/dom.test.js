import assert from "node:assert/strict";
import { test } from "node:test";
import {
  choice,
  counted,
  deed,
  make,
  moved,
  sameItems,
  shortened,
  tick,
  visible,
  written,
} from "../../src/saccade/lens/page/dom.js";

test("what users wrote becomes text, never markup", () => {
  const element = make("p", { title: '"><img>' }, "<img src=x onerror=alert(1)>");
  assert.equal(element.children.length, 0);
  assert.equal(element.textContent, "<img src=x onerror=alert(1)>");
  assert.equal(element.getAttribute("title"), '"><img>');
});

test("invisible characters have visible signs", () => {
  assert.equal(visible(""), "∅");
  assert.equal(visible("  "), "␣␣");
  assert.equal(visible("a\nb"), "a↵b");
  assert.equal(visible("\x1b[31m"), "␛[31m");
  assert.equal(visible("\x85x"), "\ufffdx");
  assert.equal(written("\ud800a\uffff"), "\ufffda\ufffd");
  assert.equal(shortened("👩‍👩‍👧abc", 4), "👩‍👩…");
});

test("arrow keys move within a grid", () => {
  assert.deepEqual(moved("ArrowDown", [0, 1], [2, 3]), [1, 1]);
  assert.deepEqual(moved("ArrowUp", [0, 1], [2, 3]), [0, 1]);
  assert.deepEqual(moved("End", [1, 0], [2, 3]), [1, 2]);
  assert.equal(moved("a", [0, 0], [2, 3]), null);
});

test("a choice and a tick have labels, and report changes", () => {
  const seen = [];
  const label = choice(
    "Layer",
    [
      [0, "a"],
      [1, "<b>"],
    ],
    0,
    (value) => seen.push(value),
  );
  const select = label.querySelector("select");
  assert.equal(select.getAttribute("aria-label"), "Layer");
  assert.equal(select.children[1].textContent, "<b>");
  select.dispatchEvent(new Event("change"));
  assert.equal(seen.length, 1);
  const box = tick("cover", true, (ticked) => seen.push(ticked)).querySelector("input");
  box.checked = false;
  box.dispatchEvent(new Event("change"));
  assert.equal(seen[1], false);
});

test("a deed shows its result, or its error, beside its button", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  for (const [act, text] of [
    [() => "copied", "copied"],
    [() => Promise.reject(new Error("not allowed")), "not allowed"],
  ]) {
    const element = deed("Copy", act);
    element.querySelector("button").dispatchEvent(new Event("click"));
    await new Promise((done) => setImmediate(done));
    assert.equal(element.querySelector('[role="status"]').textContent, text);
  }
});

test("lists are compared and counted", () => {
  assert.ok(sameItems([1, "a"], [1, "a"]));
  assert.ok(!sameItems([1], [1, 2]));
  assert.equal(counted([1], "layer"), "1 layer");
  assert.equal(counted([], "layer"), "0 layers");
});
