import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { Choices, showExamples } from "../../src/saccade/serve/page/choices.js";
import { inputFor } from "../../src/saccade/serve/page/input.js";
import { Options } from "../../src/saccade/serve/page/options.js";

const MODELS = [
  { id: "mood", task: "text_classification", reads: "text", examples: ["not bad", "<b>"] },
  { id: "en-fr", task: "text_to_text", reads: "text", writes: true, examples: ["my cat"] },
  { id: "photos", task: "image_classification", reads: "image" },
  { id: "book", task: "language_modeling", reads: "text", streams: true, writes: true },
];

beforeEach(() => {
  document.body.innerHTML = `<select id="model"></select>
    <fieldset id="others"><div id="chips"></div></fieldset><div id="examples"></div>
    <details id="options"><div id="fields"></div></details>`;
});

const boxes = () => [...document.querySelectorAll("#chips input")];
const names = (choices) => choices.models.map(({ id }) => id);

test("any number of models that read the same are compared", () => {
  let changes = 0;
  const choices = new Choices(() => changes++);
  choices.list(MODELS, "mood", ["en-fr", "photos", "missing"]);
  choices.offer();
  assert.deepEqual(
    boxes().map((box) => box.value),
    ["en-fr", "book"],
  );
  assert.deepEqual(names(choices), ["mood", "en-fr"]);
  const [first, second] = boxes();
  second.checked = true;
  second.dispatchEvent(new Event("change"));
  assert.deepEqual(names(choices), ["mood", "en-fr", "book"]);
  choices.offer();
  assert.equal(boxes()[0], first); // boxes that stay keep the focus
  first.checked = false;
  first.dispatchEvent(new Event("change"));
  assert.deepEqual(names(choices), ["mood", "book"]);
  assert.equal(changes, 2);
});

test("a model that reads something else is compared with none", () => {
  const choices = new Choices(() => {});
  choices.list(MODELS, "photos", ["mood"]);
  choices.offer();
  assert.deepEqual(names(choices), ["photos"]);
  assert.ok(document.getElementById("others").hidden);
  choices.choose("unknown", []);
  assert.deepEqual(names(choices), ["mood"]);
});

test("examples are those of the first model that has any, as text or pictures", () => {
  const chosen = [];
  showExamples([MODELS[3], MODELS[0]], (example) => chosen.push(example));
  const buttons = [...document.querySelectorAll("#examples button")];
  assert.deepEqual(
    buttons.map((button) => button.textContent),
    ["not bad", "<b>"],
  );
  buttons[1].dispatchEvent(new Event("click"));
  assert.deepEqual(chosen, ["<b>"]);
  const picture = { ...MODELS[2], examples: ["data:image/png;base64,AAEC"] };
  showExamples([picture], () => {});
  assert.equal(document.querySelector("#examples img").getAttribute("alt"), "Example 1");
  showExamples([{ ...MODELS[0], examples: [["a cat", "a dog"]] }], () => {});
  assert.equal(document.querySelector("#examples button").textContent, "a cat | a dog");
  showExamples([MODELS[3]], () => {});
  assert.ok(document.getElementById("examples").hidden);
});

test("an example fills one field or two", () => {
  const changes = [];
  const pair = inputFor("pair", (atOnce) => changes.push(atOnce));
  assert.equal(pair.value(), null);
  pair.put(["a cat", "a dog"]);
  assert.deepEqual(pair.value(), ["a cat", "a dog"]);
  const text = inputFor("text", (atOnce) => changes.push(atOnce));
  text.put("my cat");
  assert.equal(text.value(), "my cat");
  assert.deepEqual(changes, [true, true]);
});

test("options are those of the chosen models, and are kept in the address", () => {
  const options = new Options(() => {});
  options.values = { beam: "3", temperature: "0.5", nonsense: "1" };
  options.for([MODELS[1]]);
  const labels = [...document.querySelectorAll("#fields label")].map((one) => one.textContent);
  assert.deepEqual(labels, ["Number of answers", "Beam width", "Maximum length (tokens)"]);
  assert.deepEqual(options.values, { beam: "3", temperature: "0.5" });
  options.for([MODELS[0]]);
  assert.ok(document.getElementById("options").hidden);
  assert.deepEqual(options.of(MODELS[0]), {});
});
