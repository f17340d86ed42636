/* How answers are to be written: a field for each option that a chosen model takes.

What is left empty is not sent, so that it is as the model's own recipe has it. */

import { at } from "./parts.js";
import { make } from "./view.js";

// name in the API, label, attributes of the field
const WRITING = [
  ["num_best", "Answers", { min: 1, step: 1 }],
  ["beam", "Beam", { min: 1, step: 1 }],
  ["max_length", "Longest, in tokens", { min: 1, step: 1 }],
];
const STREAMING = [
  ["max_tokens", "Tokens", { min: 1, step: 1, value: 60 }],
  ["temperature", "Temperature", { min: 0, step: "any" }],
  ["top_p", "Top p", { min: 0, max: 1, step: "any" }],
];

export class Options {
  constructor(changed) {
    this.changed = changed;
    this.inputs = new Map();
    this.element = at("options");
    this.fields = at("fields");
  }

  /** Have the fields that these models take; what stands in them stays. */
  for(models) {
    const writing = models.some(({ writes, streams }) => writes && !streams) ? WRITING : [];
    const streaming = models.some(({ streams }) => streams) ? STREAMING : [];
    const wanted = [...writing, ...streaming];
    this.element.hidden = !wanted.length;
    this.fields.replaceChildren(...wanted.map((option) => this.field(...option)));
  }

  /** What to send to this model. */
  of({ writes, streams }) {
    if (!writes && !streams) return {};
    const found = {};
    for (const [name] of streams ? STREAMING : WRITING) {
      const number = this.inputs.get(name).valueAsNumber;
      if (Number.isFinite(number)) found[name] = number;
    }
    return found;
  }

  field(name, label, attributes) {
    const id = `option-${name}`;
    if (!this.inputs.has(name)) {
      const input = make("input", { id, type: "number", inputmode: "decimal", ...attributes });
      input.addEventListener("input", () => this.changed(false));
      this.inputs.set(name, input);
    }
    const labelled = make("label", { for: id }, label);
    return make("div", { class: "field small" }, labelled, this.inputs.get(name));
  }
}
