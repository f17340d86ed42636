import assert from "node:assert/strict";
import { test } from "node:test";
import { tokenScores, verdict, whyNot } from "../../src/saccade/lens/page/why.js";

const CHIEN = { text: "chien", probability: 0.03, best: "chat", best_probability: 0.95 };
const MON = { text: "mon", probability: 0.999, best: "mon", best_probability: 0.999 };
const settled = () => new Promise((done) => setImmediate(done));

test("the verdict names the least likely token and what the model prefers", () => {
  const sentence = verdict({ text: "mon chien", confidence: 0.17, tokens: [MON, CHIEN] }, 0.9);
  assert.equal(
    sentence.textContent,
    "It is least likely at chien (3.0 %), where the model prefers chat (95.0 %). " +
      "Its confidence is 17.0 %, that of the prediction 90.0 %.",
  );
  assert.match(
    verdict({ text: "", confidence: 0.9, tokens: [MON, MON] }).textContent,
    /^Every token/,
  );
  assert.equal(
    verdict({ text: "", confidence: null, tokens: [] }).textContent,
    "There is nothing to score.",
  );
});

test("unlikely tokens are marked, and unknown ones explained", () => {
  const list = tokenScores([MON, CHIEN, { ...CHIEN, text: "⁇" }]);
  const items = [...list.children];
  assert.deepEqual(
    items.map((item) => item.className),
    ["", "unlikely", "unlikely"],
  );
  assert.equal(items[1].querySelector("small").textContent, "prefers chat 95.0 %");
  assert.equal(items[2].querySelector("small").textContent, "not in the vocabulary");
});

test("the form scores another answer, shows errors, and ignores late responses", async () => {
  const asked = [];
  const moved = [];
  const form = whyNot({
    answer: "mon chat",
    confidence: 0.9,
    score: (answer) => new Promise((done, failed) => asked.push({ answer, done, failed })),
    moved: (record, name) => moved.push([record, name]),
  });
  const field = form.querySelector("textarea");
  assert.equal(field.value, "mon chat");
  const submit = () => form.querySelector("form").dispatchEvent(new Event("submit"));
  field.value = "first";
  submit();
  field.value = "second";
  submit();
  asked[1].done({ text: "second", confidence: 0.1, tokens: [CHIEN], attention: "record" });
  await settled();
  asked[0].done({ text: "first", confidence: 0.1, tokens: [MON, MON] });
  await settled();
  const result = form.querySelector(".scored");
  assert.match(result.textContent, /^The model gives chien 3.0 % and prefers chat/);
  assert.deepEqual(moved, [["record", "your answer"]]);
  submit();
  asked[2].failed(new Error("the answer is too long"));
  await settled();
  assert.equal(result.querySelector('[role="alert"]').textContent, "the answer is too long");
});

test("a classifier offers its other labels", () => {
  const form = whyNot({ answer: "good", labels: ["good", "bad"], score: async () => ({}) });
  const options = [...form.querySelectorAll("option")].map((option) => option.textContent);
  assert.deepEqual(options, ["good", "bad"]);
  assert.match(form.textContent, /Another label/);
});
