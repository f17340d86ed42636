import assert from "node:assert/strict";
import { test } from "node:test";
import { hashOf, stateOf } from "../../src/saccade/serve/page/address.js";
import { answerElements } from "../../src/saccade/serve/page/answer.js";
import { cardHead, factsOf, jobOf, rounded } from "../../src/saccade/serve/page/card.js";
import { fileOf } from "../../src/saccade/serve/page/input.js";
import { fetchEvents, fetchJson, RequestError } from "../../src/saccade/serve/page/server.js";

const texts = (elements) => elements.map((element) => element.textContent ?? element);

test("the address keeps models, texts and options", () => {
  const state = {
    model: "mood",
    others: ["en-fr", "b"],
    texts: ["i & am #happy é", ""],
    options: { beam: "3" },
  };
  assert.deepEqual(stateOf(hashOf(state)), state);
  assert.deepEqual(stateOf(""), { model: "", others: [], texts: [], options: {} });
  const long = hashOf({ ...state, texts: ["a".repeat(5000)] });
  assert.deepEqual(stateOf(long).texts, []);
});

test("a model's card has its task, score, day and size", () => {
  const model = {
    id: "<b>en-fr</b>",
    task: "text_to_text",
    reads: "text",
    engine: "ctranslate2-int8",
    languages: ["en", "fr"],
    score: { text: "BLEU 31.4 [29.9, 32.8]", items: 1500 },
    trained: "2026-01-31",
    parameters: 1_234_567,
  };
  const head = cardHead(model);
  assert.equal(head.querySelector("h2").textContent, "<b>en-fr</b>");
  assert.equal(head.querySelector(".task").textContent, "translates en → fr");
  assert.deepEqual(texts([...head.querySelectorAll("li")]), [
    "BLEU 31.4 [29.9, 32.8] on 1,500 validation inputs",
    "trained 2026-01-31",
    "1.23 M weights",
    "engine ctranslate2-int8",
  ]);
  const bare = { id: "m", task: "image_classification", reads: "image", engine: "eager" };
  assert.deepEqual(factsOf(bare), []);
  assert.equal(jobOf(bare), "image classification, reads an image");
  assert.deepEqual([999, 1000, 999_999, 2e9].map(rounded), ["999", "1 K", "1 M", "2 G"]);
});

test("answers are texts with confidence, labels with bars, or tagged spans", () => {
  const [best, title, list] = answerElements(
    { text: "<i>", confidence: 0.456, alternatives: [{ text: "", confidence: null }] },
    "",
  );
  assert.equal(best.textContent, "<i>confidence 46 %");
  assert.equal(title.textContent, "Alternatives");
  assert.equal(list.textContent, "∅");
  const many = Object.fromEntries(Array.from({ length: 12 }, (_, i) => [`l${i}`, 1 / 12]));
  const [label, bars] = answerElements({ label: "l0", probabilities: many }, "");
  assert.equal(label.textContent, "l0");
  assert.equal(bars.children.length, 11);
  assert.match(bars.textContent, /and 2 less likely labels$/);
  const spans = [{ start: 1, end: 3, label: "x", probability: 0.9 }];
  const [tagged, cut] = answerElements({ spans, truncated: true }, "🌍bcd");
  assert.equal(tagged.textContent, "🌍bcxd"); // characters are code points
  assert.match(cut.textContent, /too long/);
});

test("an example image becomes a file", async () => {
  const file = fileOf("data:image/png;base64,AAEC", "example");
  assert.equal(file.type, "image/png");
  assert.deepEqual([...new Uint8Array(await file.arrayBuffer())], [0, 1, 2]);
});

test("requests raise errors for people, and are retried while the server is full", async (context) => {
  const calls = [];
  const answers = [
    new Response('{"error": {"code": "full", "message": "busy"}}', {
      status: 429,
      headers: { "Retry-After": "1" },
    }),
    Response.json({ data: [] }),
    new Response("<html>", { status: 502 }),
  ];
  context.mock.method(globalThis, "fetch", async (...call) => {
    calls.push(call);
    if (!answers.length) throw new TypeError("network");
    return answers.shift();
  });
  context.mock.method(globalThis, "setTimeout", (act) => act());
  const waits = [];
  assert.deepEqual(await fetchJson("/v1/models", undefined, { wait: (s) => waits.push(s) }), {
    data: [],
  });
  assert.deepEqual(waits, [1]);
  const failed = { name: "Error", message: "The server responded with status 502." };
  await assert.rejects(fetchJson("/x", {}), failed);
  await assert.rejects(fetchJson("/x", {}), (error) => {
    return error instanceof RequestError && error.code === "gone";
  });
  assert.equal(calls[2][1].method, "POST");
});

test("a stream yields its events and raises what the server reports", async (context) => {
  const lines = [
    'data: {"a": 1}\n\nda',
    'ta: {"a": 2}\n\n',
    'data: {"error": {"code": "failed", "message": "no"}}\n\n',
  ];
  const body = new Blob(lines).stream();
  context.mock.method(globalThis, "fetch", async () => new Response(body));
  const events = [];
  await assert.rejects(
    async () => {
      for await (const event of fetchEvents("/v1/completions", {})) events.push(event.a);
    },
    { message: "no" },
  );
  assert.deepEqual(events, [1, 2]);
});
