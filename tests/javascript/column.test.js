import assert from "node:assert/strict";
import { test } from "node:test";
import { columnFor } from "../../src/saccade/serve/page/column.js";

const MODEL = { id: "m", task: "text_classification", reads: "text" };
const ANSWER = { label: "good", confidence: 0.9, probabilities: { good: 0.9, bad: 0.1 } };
const settled = () => new Promise((done) => setImmediate(done));
Object.defineProperty(HTMLElement.prototype, "offsetHeight", { get: () => 120 });

/** Return a column, what it asks of the page, and the requests it has sent. */
function opened(context, model = MODEL) {
  const calls = [];
  const requests = [];
  const page = { settled() {}, lock: () => calls.push("lock"), put: () => calls.push("put") };
  context.mock.method(globalThis, "fetch", (path, options) => {
    return new Promise((done, failed) => {
      requests.push({ path, body: JSON.parse(options.body), done, failed });
      options.signal?.addEventListener("abort", () => failed(new DOMException("", "AbortError")));
    });
  });
  return { column: columnFor(model, page), calls, requests };
}

const answered = (answer) => Response.json({ answers: [answer] });
const refused = (status, code) =>
  Response.json({ error: { code, message: `it is ${code}` } }, { status });

test("a card shows its hint, then a prediction, and keeps its height while typing", async (context) => {
  const { column, requests } = opened(context);
  assert.match(column.element.textContent, /The prediction appears as you type/);
  column.outdate();
  assert.equal(column.body.getAttribute("aria-busy"), "true");
  column.ask("fine", {});
  await settled();
  assert.equal(requests[0].path, "/v1/predict");
  assert.deepEqual(requests[0].body, { model: "m", inputs: ["fine"], attention: true });
  requests[0].done(answered({ ...ANSWER, attention: "record", truncated: true }));
  await settled();
  assert.equal(column.body.querySelector(".answer").textContent, "good");
  assert.match(column.body.querySelector(".cut").textContent, /only a part of it was read/);
  assert.equal(column.record, "record");
  assert.equal(column.element.style.minHeight, "120px");
  column.clear();
  assert.equal(column.element.style.minHeight, "");
  assert.equal(column.record, null);
});

test("a late response does not replace a newer one", async (context) => {
  const { column, requests } = opened(context);
  column.ask("early", {});
  column.ask("late", {});
  await settled();
  requests[1].done(answered({ ...ANSWER, label: "late" }));
  await settled();
  requests[0].done(answered({ ...ANSWER, label: "early" }));
  await settled();
  assert.equal(column.body.querySelector(".answer").textContent, "late");
});

test("errors are shown, and repeated only where that may help", async (context) => {
  const { column, calls, requests } = opened(context);
  column.ask("x", {});
  await settled();
  requests[0].done(refused(500, "failed"));
  await settled();
  assert.equal(column.wrong.textContent, "it is failed");
  column.deeds.querySelector("button").dispatchEvent(new Event("click"));
  assert.deepEqual(calls, ["put"]);
  column.ask("x", {});
  await settled();
  requests[1].done(refused(422, "invalid"));
  await settled();
  requests[2].done(refused(422, "invalid")); // without attention, it fails again
  await settled();
  assert.equal(column.deeds.children.length, 0);
  column.ask("x", {});
  await settled();
  requests[3].done(refused(401, "no_token"));
  await settled();
  assert.deepEqual(calls, ["put", "lock"]);
});

test("a prediction without its attention says why", async (context) => {
  const { column, requests } = opened(context);
  column.ask("x", {});
  await settled();
  requests[0].done(refused(422, "invalid"));
  await settled();
  assert.equal(requests[1].body.attention, undefined);
  requests[1].done(answered(ANSWER));
  await settled();
  assert.equal(column.said.textContent, "Attention is not shown: it is invalid");
});

test("a language model answers on request only", (context) => {
  const { column } = opened(context, { ...MODEL, streams: true });
  assert.equal(column.live, false);
  assert.match(column.element.textContent, /Generate continues the text/);
});
