/* Fields for the generation options that the chosen models take.

An empty field is not sent, so that the recipe of the model decides. */

import { make } from "./dom.js";
import { at } from "./parts.js";

/** @typedef {[name: string, label: string, attributes: Record<string, any>]} Field */

// name in the API, label, attributes of the field
/** @type {Field[]} */
const WRITING = [
  ["num_best", "Number of answers", { min: 1, step: 1 }],
  ["beam", "Beam width", { min: 1, step: 1 }],
  ["max_length", "Maximum length (tokens)", { min: 1, step: 1 }],
];
/** @type {Field[]} */
const STREAMING = [
  ["max_tokens", "Maximum new tokens", { min: 1, step: 1, value: 60 }],
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

  /** Show the fields that these models take; their values are kept. */
  for(models) {
    const writing = models.some(({ writes, streams }) => writes && !streams) ? WRITING : [];
    const streaming = models.some(({ streams }) => streams) ? STREAMING : [];
    const shown = [...writing, ...streaming];
    this.element.hidden = !shown.length;
    this.fields.replaceChildren(...shown.map((option) => this.field(...option)));
  }

  /** Return the options to send to this model. */
  of({ writes, streams }) {
    if (!writes && !streams) return {};
    const options = {};
    for (const [name] of streams ? STREAMING : WRITING) {
      const number = this.inputs.get(name).valueAsNumber;
      if (Number.isFinite(number)) options[name] = number;
    }
    return options;
  }

  /** The fields that the reader has filled, as texts by their names. */
  get values() {
    const filled = [...this.inputs].filter(
      ([, { value, defaultValue }]) => value !== "" && value !== defaultValue,
    );
    return Object.fromEntries(filled.map(([name, { value }]) => [name, value]));
  }

  /** Fill fields of these names; call it before the fields are shown. */
  set values(values) {
    for (const [name, label, attributes] of [...WRITING, ...STREAMING]) {
      if (!(name in values) && !this.inputs.has(name)) continue;
      this.field(name, label, attributes);
      const input = this.inputs.get(name);
      input.value = values[name] ?? input.defaultValue;
    }
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
